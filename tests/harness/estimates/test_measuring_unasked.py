"""A job without a wished finish, of a program that cannot be read: measured by itself once it waits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from harness.estimates import probes
from harness.estimates.measuring import _usual_model
from harness.estimates.models import Inspection, JobEstimate, ProbeRow
from harness.estimates.selectors import job_estimate_get
from harness.estimates.services import inspection_answer, job_estimate, measure_answer
from harness.estimates.tried import batch_size, rank_rows
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import has_estimate, options_of
from harness.jobs.reservation_preview import PromisesWithout
from harness.jobs.services import minimum_sandbox_level
from harness.pool.models import Device, Node, Reservation
from harness.rates.submitting import job_submit
from tests.harness.estimates.test_measuring import UNREAD
from tests.harness.jobs.helpers import estimated, place_now, queue


def known(job, **more):
    """The job, with an estimate."""
    JobEstimate.objects.create(job=job, inspection_key="of another program", estimate={}, ways=[])
    return estimated(job, **more)


@pytest.fixture(autouse=True)
def _no_refusals():
    """None that are still remembered."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def submitted(job_make, people):
    """Submit a job without a wished finish; a node answers that it cannot read its program."""

    def make(mode="auto", **resources):
        job = job_make(name="unread", mode=mode, **({"resources": resources} if resources else {}))
        job_submit(user=people.owner, job=job)
        job_estimate(job.pk)
        inspection_answer({"request_id": Inspection.objects.get().pk, **UNREAD})
        return job

    return make


@pytest.fixture
def between(job_make, node_make):
    """Of two cores one runs a job, for ten minutes; then another one that was promised a finish needs both: until then
    one is free. Returns the latter."""

    def make(left=timedelta(hours=9), run_s=600.0):
        node_make("node-1", cpus=2)
        runs = known(job_make(name="runs", resources={"device": "cpu", "count": 1}), run_s=run_s)
        Job.objects.filter(pk=runs.pk).update(program_edited=True)  # it cannot be paused
        place_now(runs)
        wide = known(job_make(name="wide", resources={"device": "cpu", "count": 2}), counts=(2,), run_s=7200.0)
        at = timezone.now() + left
        Job.objects.filter(pk=wide.pk).update(deadline_at=at, promised_at=at)
        return queue(wide)

    return make


def _steps_told(**answer):
    told = {"ok": True, "step_s": [0.001, 0.001, 0.001], **answer}
    measure_answer({"request_id": f"{probes.PREFIX}{ProbeRow.objects.get(state='waiting').pk}", **told})


def test_it_is_measured_while_a_device_is_free_and_starts_ahead_of_what_is_planned_there(submitted, between):
    wide = between()
    job = submitted()
    assert tick() == 0 and not ProbeRow.objects.exists(), "nobody knows whether it ends before the promise begins"
    job_estimate(job.pk)
    assert ProbeRow.objects.count() == 1
    job_estimate(job.pk)
    assert job.events.filter(message__contains="an idle device is running a few of its steps").count() == 1
    _steps_told()
    job.refresh_from_db()
    assert has_estimate(job) and job.promise == {}
    assert tick() == 1
    job.refresh_from_db()
    wide.refresh_from_db()
    assert (job.state, wide.state) == ("placed", "queued")


def test_it_is_not_measured_where_it_may_just_start(submitted, node_make):
    node_make("node-1", cpus=2)
    job = submitted()
    job_estimate(job.pk)
    assert not ProbeRow.objects.exists()
    assert tick() == 1 and not job.events.filter(message__contains="steps").exists()


def test_a_gang_is_measured_on_the_one_device_that_is_free(submitted, between):
    between()
    job = submitted(device="cpu", count=2)
    tick()
    job_estimate(job.pk)
    probe = ProbeRow.objects.get()
    assert (probe.rows, probe.batch_size) == (rank_rows(job), batch_size(job)) and probe.rows < probe.batch_size
    _steps_told(gradient_bytes=4_000, step_messages=0)
    job.refresh_from_db()
    (option,) = options_of(job)
    assert option.rate_per_s > 0 and (option.count, option.mode) == (2, "sync")


@pytest.mark.parametrize("mode", ["pipeline", "single"])
def test_nor_where_one_device_tells_nothing_of_how_several_work(submitted, between, mode):
    between()
    job = submitted(mode=mode, device="cpu", count=2)
    tick()
    job_estimate(job.pk)
    assert not ProbeRow.objects.exists()


def test_jobs_of_one_program_on_other_numbers_of_devices_are_measured_each_with_their_own_rows(submitted, between):
    between()
    alone, gang = submitted(device="cpu", count=1), submitted(device="cpu", count=2)
    Job.objects.filter(pk__in=[alone.pk, gang.pk]).update(waiting_code="devices_busy")
    for job in (alone, gang):
        job_estimate(job.pk)
        assert ProbeRow.objects.get(state="waiting").rows == rank_rows(job)
        _steps_told(step_s=[0.02 / (1 + (job == gang))] * 3, gradient_bytes=4_000, step_messages=0)
    step_s = {job: job_estimate_get(job).step_s.mid for job in (alone, gang)}
    assert step_s[alone] == pytest.approx(0.02), "what two ranks do is not taken for the whole step"
    assert 0.01 < step_s[gang] < 0.02


def test_nor_on_a_device_that_a_promise_needs_before_the_steps_surely_end(submitted, between, job_make, monkeypatch):
    between()
    at = timezone.now() + timedelta(seconds=750)
    urgent = known(job_make(name="urgent", resources={"device": "cpu", "count": 1}))
    job = submitted()
    tick()
    # It comes between the decision and the measurement.
    Job.objects.filter(pk=urgent.pk).update(deadline_at=at, promised_at=at)
    queue(urgent)
    job_estimate(job.pk)
    assert not ProbeRow.objects.exists() and not Reservation.objects.exists()
    with monkeypatch.context() as patched:
        patched.setattr(PromisesWithout, "are_kept", pytest.fail)
        job_estimate(job.pk)  # nor is it decided again at once
    cache.clear()
    Job.objects.filter(pk=urgent.pk).update(deadline_at=at + timedelta(hours=1), promised_at=at + timedelta(hours=1))
    job_estimate(job.pk)
    assert ProbeRow.objects.count() == 1


@pytest.mark.parametrize(("waited", "made"), [(timedelta(hours=25), 0), (timedelta(hours=1), 1)])
def test_nor_on_a_device_that_an_overdue_gang_waits_for(submitted, job_make, node_make, waited, made):
    """One core runs nobody knows how long: the other one is kept for who needs both, not for one job after another."""
    node_make("node-1", cpus=2)
    runs = job_make(name="runs", resources={"device": "cpu", "count": 1})
    Job.objects.filter(pk=runs.pk).update(program_edited=True)  # it cannot be paused
    place_now(runs)
    gang = queue(job_make(name="gang", resources={"device": "cpu", "count": 2}))
    Job.objects.filter(pk=gang.pk).update(queued_at=timezone.now() - waited)
    job = submitted()
    Job.objects.filter(pk=job.pk).update(waiting_code="devices_busy")
    job_estimate(job.pk)
    assert ProbeRow.objects.count() == made


@pytest.mark.parametrize(("run_s", "made"), [(100.0, 0), (600.0, 1)])
def test_nor_where_an_overdue_gang_would_begin_later_for_it(submitted, between, run_s, made):
    wide = between(run_s=run_s)
    long_ago = timezone.now() - timedelta(hours=25)
    Job.objects.filter(pk=wide.pk).update(deadline_at=None, promised_at=None, queued_at=long_ago)
    job = submitted()
    tick()
    job_estimate(job.pk)
    assert ProbeRow.objects.count() == made


def test_it_is_told_once_that_it_could_not_be_measured(submitted, between):
    between()
    job = submitted()
    tick()
    job_estimate(job.pk)
    _steps_told(ok=False, step_s=None, problem={"code": "program_error", "message": "No such column."})
    for _ in range(2):
        job_estimate(job.pk)
    job.refresh_from_db()
    told = job.events.filter(message__startswith="Its run time could not be measured").values_list("message", flat=True)
    assert len(told) == 1 and told[0].endswith("No such column.") and ProbeRow.objects.count() == 1
    assert job.promise == {}


def test_of_several_models_that_which_the_pool_has_most_of_is_measured(submitted, node_make):
    node_make("node-0", gpus=1)
    node_make("node-1", gpus=2)
    Device.objects.filter(node__name="node-1", kind="cuda").update(model_name="other")
    job = submitted(device="cuda", count=1)
    Job.objects.filter(pk=job.pk).update(waiting_code="devices_busy")
    Node.objects.filter(name="node-1").update(sandbox_level=minimum_sandbox_level(job) - 1)
    assert _usual_model(job, "cuda") != "other", "where it must not run"
    Node.objects.update(sandbox_level=3)
    job_estimate(job.pk)
    assert ProbeRow.objects.get().model_name == "other"
