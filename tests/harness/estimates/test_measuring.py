"""A job with a wished finish, submitted without an offer, of a program that cannot be read: measured, then promised."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.estimates import probes
from harness.estimates.models import Inspection, ProbeRow
from harness.estimates.services import inspection_answer, job_estimate, jobs_estimate, measure_answer
from harness.jobs.admission import is_being_measured, promises_catch_up
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.promises import PromiseState, promise_state, promise_told
from harness.rates.submitting import job_submit
from tests.harness.jobs.helpers import place_now, wish

UNREAD = {"ok": False, "workload": None, "problem": {"code": "cannot_trace", "message": "The loop depends on values."}}


@pytest.fixture
def submitted(job_make, people):
    """Submit a job with a wished finish; a node answers that it cannot read its program."""

    def make(left=timedelta(hours=9), **resources):
        job = job_make(**wish(timezone.now() + left), **({"resources": resources} if resources else {}))
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


def test_steps_on_one_device_promise_nothing_of_two(submitted, node_make):
    node_make("node-1", cpus=4)
    job = submitted(device="cpu", count=2)
    _steps_told()
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
