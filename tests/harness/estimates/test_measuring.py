"""A job with a wished finish, submitted without an offer, of a program that cannot be read: measured, then promised."""

from __future__ import annotations

import warnings
from datetime import timedelta

import pytest
from django.core.cache import CacheKeyWarning
from django.utils import timezone

from harness.calibration.known import device_model
from harness.errors import Conflict
from harness.estimates import measuring, probes
from harness.estimates.models import Inspection, ProbeRow
from harness.estimates.probe_answers import opaque_workload
from harness.estimates.selectors import job_estimate_get
from harness.estimates.services import inspection_answer, job_estimate, jobs_estimate, measure_answer
from harness.estimates.tried import batch_size
from harness.jobs.admission import is_being_measured, promises_catch_up
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.promises import PromiseState, promise_state, promise_told
from harness.pool.models import Device
from harness.pool.services import device_slow
from harness.rates.submitting import job_submit
from scheduler.estimation.link import step_sums_s
from scheduler.estimation.ranks import sums_s
from tests.harness.jobs.helpers import place_now, wish

UNREAD = {"ok": False, "workload": None, "problem": {"code": "cannot_trace", "message": "The loop depends on values."}}

SLOW = "core, declared 3 times as slow"


@pytest.fixture
def submitted(job_make, people):
    """Submit a job with a wished finish; a node answers that it cannot read its program."""

    def make(left=timedelta(hours=9), training=None, **resources):
        asked = {name: part for name, part in (("resources", resources), ("training", training)) if part}
        job = job_make(**wish(timezone.now() + left), **asked)
        job_submit(user=people.owner, job=job)
        job_estimate(job.pk)
        inspection_answer({"request_id": Inspection.objects.get().pk, **UNREAD})
        job.refresh_from_db()
        return job

    return make


def _steps_told(**answer):
    told = {"ok": True, "step_s": [0.01, 0.01, 0.01], **answer}
    measure_answer({"request_id": f"{probes.PREFIX}{ProbeRow.objects.get(state='waiting').pk}", **told})


def test_it_is_measured_and_then_promised_by_control_alone(submitted, node_make):
    node_make("node-1", cpus=2)
    job = submitted()
    assert (job.promised_at, promise_state(job)) == (None, PromiseState.BEING_MEASURED)
    _steps_told()
    assert promises_catch_up() == 1
    job.refresh_from_db()
    assert job.promised_at == job.deadline_at and not is_being_measured(job)


def test_it_is_told_where_its_finish_cannot_be_kept(submitted, node_make):
    node_make("node-1", cpus=2)
    job = submitted(left=timedelta(minutes=2))
    _steps_told(step_s=[50.0, 50.0, 50.0])
    promises_catch_up()
    job.refresh_from_db()
    assert job.promised_at is None and "cannot be promised" in job.promise["text"]
    assert job.events.filter(message=job.promise["text"]).count() == 1


def test_it_waits_for_an_idle_device_and_says_so(submitted, job_make, node_make):
    node_make("node-1", cpus=1)
    other = place_now(job_make(name="runs"))
    job = submitted()
    jobs_estimate()
    assert promise_state(job) == PromiseState.TO_BE_MEASURED and not ProbeRow.objects.exists()
    assert job.events.filter(message=job.promise["text"]).count() == 1
    other.allocations.all().delete()
    jobs_estimate()
    job.refresh_from_db()
    assert promise_state(job) == PromiseState.BEING_MEASURED


def test_steps_that_fail_are_not_tried_for_ever(submitted, node_make):
    node_make("node-1", cpus=1)
    job = submitted()
    _steps_told(ok=False, step_s=None, problem={"code": "program_error", "message": "No such column."})
    jobs_estimate()
    job.refresh_from_db()
    assert job.promise == promise_told(PromiseState.NOT_MEASURED, "No such column.") and ProbeRow.objects.count() == 1


def test_a_probe_that_no_node_answers_is_made_three_times(submitted, node_make):
    node_make("node-1", cpus=4)
    job = submitted()
    for _ in range(5):
        ProbeRow.objects.update(sent_at=timezone.now() - timedelta(hours=1))
        jobs_estimate()
    job.refresh_from_db()
    assert promise_state(job) == PromiseState.NOT_MEASURED and ProbeRow.objects.count() == 3


SUMS = {"gradient_bytes": 4_000_000, "step_messages": 4}


@pytest.mark.parametrize("count", [2, 3])
def test_what_one_device_took_with_the_rows_of_a_rank_promises_a_gang(submitted, node_make, count):
    node_make("node-1", cpus=4)
    job = submitted(device="cpu", count=count)
    probe = ProbeRow.objects.get()
    assert probe.rows == -(-batch_size(job) // count)
    _steps_told(peak_bytes=2e8, evaluation_row_s=1e-4, **SUMS)
    assert promises_catch_up() == 1
    job.refresh_from_db()
    assert job.promised_at == job.deadline_at
    (option,) = options_of(job)
    assert (option.count, option.mode) == (count, "sync")
    found, model = job_estimate_get(job), device_model("cpu", "core")
    sent_s = step_sums_s(model.link, SUMS["gradient_bytes"], count, SUMS["step_messages"])
    assert found.step_s.mid == pytest.approx(0.01 * (1 + model.contention * (count - 1)) + sent_s)
    assert found.peak_bytes.mid == pytest.approx(2e8)
    assert "on one device measured, messages assumed" in found.note


def test_a_gang_that_rounds_its_gradients_is_known_to_do_so_although_its_program_cannot_be_read(submitted, node_make):
    node_make("node-1", cpus=4)
    job = submitted(device="cpu", count=2, training={"compression": "fp16"})
    _steps_told(**SUMS)
    promises_catch_up()
    found, model = job_estimate_get(job), device_model("cpu", "core")
    sums = opaque_workload(job, SUMS)
    assert sums.compression == "fp16"
    assert found.step_s.mid == pytest.approx(0.01 * (1 + model.contention) + sums_s(sums, 2, "sync", model))


def test_stages_of_a_program_that_cannot_be_read_are_promised_nothing_and_it_is_said_why(node_make, job_make, people):
    node_make("node-1", cpus=4)
    spec = {"resources": {"device": "cpu", "count": 2}, "mode": "pipeline"}
    job = job_make(**wish(timezone.now() + timedelta(hours=9)), **spec)
    job_submit(user=people.owner, job=job)
    job_estimate(job.pk)
    inspection_answer({"request_id": Inspection.objects.get().pk, **UNREAD})
    _steps_told(**SUMS)
    job.refresh_from_db()
    assert promise_state(job) == PromiseState.NOT_MEASURED
    assert "cut into stages" in job.promise["text"]


@pytest.mark.parametrize("sums", [{}, {"gradient_bytes": -1, "step_messages": 0}, {"gradient_bytes": "much"}])
def test_steps_on_one_device_promise_nothing_of_two_where_nobody_knows_what_ranks_add_up(submitted, node_make, sums):
    node_make("node-1", cpus=4)
    job = submitted(device="cpu", count=2)
    _steps_told(**sums)
    promises_catch_up()
    job.refresh_from_db()
    assert (job.promised_at, promise_state(job)) == (None, PromiseState.NOT_MEASURED)
    assert "asks for other devices" in job.promise["text"]


def test_what_starts_before_it_was_measured_is_promised_by_its_own_pace(submitted, job_make, node_make):
    node_make("node-1", cpus=1)
    other = place_now(job_make(name="runs"))
    job = submitted()
    other.allocations.all().delete()
    Job.objects.filter(pk=other.job_id).update(state="cancelled")
    tick()
    job.refresh_from_db()
    assert (job.state, promise_state(job)) == ("placed", PromiseState.STARTED_UNMEASURED)
    Job.objects.filter(pk=job.pk).update(state="running", step=50, steps_total=100, eta_s=60.0)
    tick()
    job.refresh_from_db()
    assert job.promised_at == job.deadline_at


def test_each_model_that_is_named_is_measured_by_itself(submitted, node_make):
    node_make("node-1", cpus=1)
    node_make("node-2", cpus=1)
    Device.objects.filter(node__name="node-2").update(model_name="other")
    first = submitted(device_model="core", count=1)
    _steps_told(step_s=[0.01, 0.01, 0.01])
    promises_catch_up()
    second = submitted(device_model="other", count=1)
    assert promise_state(second) == PromiseState.BEING_MEASURED
    assert list(ProbeRow.objects.order_by("sent_at").values_list("model_name", flat=True)) == ["core", "other"]
    _steps_told(step_s=[0.03, 0.03, 0.03])
    promises_catch_up()
    for job, name in ((first, "core"), (second, "other")):
        job.refresh_from_db()
        assert job.promised_at == job.deadline_at
        assert {option.model_name for option in options_of(job)} == {name}


def test_a_model_of_any_name_can_be_the_key_under_which_a_refusal_is_kept(submitted, node_make, monkeypatch):
    def needed_soon(**_):
        raise Conflict("All devices are needed soon.", code=probes.NEEDED_SOON)

    name = "NVIDIA Größe 80 GB " * 6
    node_make("node-1", cpus=1)
    Device.objects.update(model_name=name)
    monkeypatch.setattr(measuring, "probe_begin", needed_soon)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheKeyWarning)
        first = submitted(device_model=name, count=1)
        assert promise_state(first) == PromiseState.TO_BE_MEASURED
        monkeypatch.setattr(measuring, "probe_begin", lambda **_: pytest.fail("asked again at once"))
        promises_catch_up()
    first.refresh_from_db()
    assert promise_state(first) == PromiseState.TO_BE_MEASURED


def test_a_model_declared_slow_is_estimated_by_the_steps_at_its_own_pace(submitted, node_make, people):
    node_make("node-1", cpus=1)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=0, factor=3.0)
    job = submitted(device_model=SLOW, count=1)
    assert promise_state(job) == PromiseState.BEING_MEASURED
    assert ProbeRow.objects.get().model_name == "core", "steps are tried at the speed that the device has"
    _steps_told(step_s=[0.01, 0.01, 0.01])
    promises_catch_up()
    job.refresh_from_db()
    assert job.promised_at == job.deadline_at
    assert {option.model_name for option in options_of(job)} == {SLOW}
    assert job_estimate_get(job).step_s.mid == pytest.approx(0.03)
