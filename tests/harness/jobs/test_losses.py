"""How often a lost job starts again: as often in a row as the pool's settings say, anew after each checkpoint."""

from __future__ import annotations

import pytest

from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.effects import events_apply
from harness.jobs.models import Checkpoint, Job, JobAttempt
from tests.harness.jobs.helpers import event, run_now
from worker.events import FailureCode, Outcome

pytestmark = pytest.mark.django_db
LOST = {"code": FailureCode.NODE_LOST}


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def fourth(job: Job, node_make) -> JobAttempt:
    """The running fourth attempt of a job whose first three were lost."""
    node_make()
    attempt = run_now(job)
    Job.objects.update(restarts=3, token=4)
    JobAttempt.objects.update(number=4)
    for number in (1, 2, 3):
        JobAttempt.objects.create(job=job, number=number, plan={}, outcome=Outcome.LOST, ended_at=job.created_at)
    attempt.refresh_from_db()
    return attempt


def ended(attempt: JobAttempt) -> Job:
    """The job after the attempt was lost."""
    assert attempt_end(attempt, Outcome.LOST, dict(LOST))
    return Job.objects.get(pk=attempt.job_id)


def checkpoint_of(attempt: JobAttempt, number: int) -> None:
    Checkpoint.objects.create(
        job=attempt.job, name=f"step-{number}", step=number, epoch=1.0, size_bytes=1, token=number
    )


def test_after_too_many_losses_in_a_row_the_job_fails_with_the_reason(fourth: JobAttempt) -> None:
    job = ended(fourth)
    assert job.state == "failed"
    assert "started again 3 times, made no new checkpoint" in job.failure["message"]
    assert job.failure["hint"]


@pytest.mark.parametrize(("made_by", "told"), [(4, "1 of 3"), (3, "2 of 3"), (2, "3 of 3")])
def test_only_losses_since_the_newest_checkpoint_count(fourth: JobAttempt, made_by: int, told: str) -> None:
    checkpoint_of(fourth, made_by)
    job = ended(fourth)
    assert (job.state, job.restarts) == ("queued", 4)
    assert told in job.events.order_by("-pk")[0].message


def test_losses_before_a_person_resumed_it_do_not_count(fourth: JobAttempt) -> None:
    Job.objects.update(restarts=0)
    job = ended(fourth)
    assert (job.state, job.restarts) == ("queued", 1)


def test_a_checkpoint_that_is_told_again_at_each_start_is_no_progress(fourth: JobAttempt) -> None:
    checkpoint_of(fourth, 1)
    events_apply(fourth.job_id, [event(fourth.job, "checkpoint", 2, rank=0, token=4, name="step-1", step=1)])
    assert Checkpoint.objects.get().token == 1
    assert ended(fourth).state == "failed"


def test_a_checkpoint_farther_on_is(fourth: JobAttempt) -> None:
    checkpoint_of(fourth, 1)
    events_apply(fourth.job_id, [event(fourth.job, "checkpoint", 2, rank=0, token=4, name="step-9", step=9)])
    assert "1 of 3" in ended(fourth).events.order_by("-pk")[0].message
