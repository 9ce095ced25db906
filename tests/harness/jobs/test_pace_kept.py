"""A run that leaves its devices is planned by the pace that it showed on them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import options_of
from tests.harness.jobs.helpers import estimated, event, queue, run_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def running(job, *, step, eta_s, began=timedelta(minutes=2)):
    """The job runs, is so far, and tells when it ends."""
    attempt = run_now(job)
    changes = {"step": step, "steps_total": 1000, "eta_s": eta_s}
    Job.objects.filter(pk=job.pk).update(**changes)
    attempt.created_at = timezone.now() - began
    attempt.save(update_fields=["created_at"])
    job.refresh_from_db()
    return attempt


def left(job, attempt, outcome="paused", failure=None):
    events_apply(job.pk, [event(job, "exited", 9, token=attempt.number, outcome=outcome, failure=failure)])
    job.refresh_from_db()


def test_a_run_that_is_too_slow_for_its_deadline_is_paused_once_and_not_again_and_again(job_make, node_make):
    node_make(cpus=1)
    slow = estimated(job_make(name="slow"), run_s=1000, slowdown=8.0)
    Job.objects.filter(pk=slow.pk).update(deadline_at=timezone.now() + timedelta(seconds=1100))
    attempt = running(slow, step=100, eta_s=1800.0)
    early = queue(estimated(job_make(name="early"), run_s=3600))
    Job.objects.filter(pk=early.pk).update(queued_at=slow.queued_at - timedelta(minutes=1))
    tick()
    slow.refresh_from_db()
    assert slow.state == "pausing", "its deadline is lost, and the other one came first"
    tick()
    early.refresh_from_db()
    assert early.state == "queued" and "given back" in early.waiting_text, "while it leaves it is no faster"
    left(slow, attempt)
    tick()
    early.refresh_from_db()
    slow.refresh_from_db()
    assert (early.state, slow.state) == ("placed", "queued")


@pytest.mark.parametrize(
    ("step", "began", "run_s"), [(100, timedelta(minutes=2), 2000.0), (10, timedelta(seconds=9), 1000.0)]
)
def test_the_pace_counts_from_where_it_counts_in_the_run(job_make, node_make, step, began, run_s):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000, counts=(1, 2))
    before = options_of(job)
    attempt = running(job, step=step, eta_s=2.0 * (1000 - step), began=began)
    left(job, attempt, "lost", {"code": "rank_killed", "message": "killed"})
    after = options_of(job)
    assert [round(option.run_s / was.run_s, 6) for was, option in zip(before, after, strict=True)] == [run_s / 1000] * 2
    assert [(one.count, one.power_w) for one in before] == [(one.count, one.power_w) for one in after]


def test_a_run_that_told_no_pace_is_planned_as_it_was_estimated(job_make, node_make):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000)
    before = options_of(job)
    attempt = running(job, step=100, eta_s=None)
    left(job, attempt)
    assert options_of(job) == before
