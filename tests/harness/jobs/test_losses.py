"""How often a lost job starts again: as often in a row as the pool's settings say, anew after each checkpoint."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.effects import events_apply
from harness.jobs.control.losses import losses_read
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, Job, JobAttempt
from harness.pool.models import Node
from harness.pool.services import node_leave
from tests.harness.jobs.helpers import event, place_now, queue, run_now, tick_later
from worker.events import FailureCode, Outcome

pytestmark = pytest.mark.django_db
LOST = {"code": FailureCode.NODE_LOST}
STOPPED = {"code": FailureCode.NODE_STOPPED}


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
    assert "restarted 3 times without a new checkpoint" in job.failure["message"]
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


def test_a_run_does_not_go_back_to_the_node_that_left_and_ended_it(job: Job, node_make) -> None:
    node_make()
    attempt = run_now(job)
    node_make("node-2")
    node_leave("node-1")
    ended(attempt)
    assert tick_later() == 1
    assert {rank["node"] for rank in JobAttempt.objects.get(job=job, number=2).plan["ranks"]} == {"node-2"}


def test_a_node_that_left_takes_runs_again_when_it_is_heard(job: Job, node_make) -> None:
    node_make()
    attempt = run_now(job)
    node_leave("node-1")
    node_leave("nobody")
    ended(attempt)
    assert tick_later() == 0
    node_make()
    assert tick_later() == 1


def test_what_a_node_reported_before_it_left_does_not_bring_it_back_when_it_is_read_after(job: Job, node_make) -> None:
    node_make(agent_id="a" * 32)
    attempt = run_now(job)
    node_leave("node-1", "a" * 32)
    ended(attempt)
    assert node_make(agent_id="a" * 32) is None
    assert Node.objects.get().state == "down" and tick_later() == 0
    node_make(agent_id="b" * 32)
    assert Node.objects.get().state == "up" and tick_later() == 1


def test_an_agent_that_leaves_before_anything_of_it_was_read_is_not_there_afterwards(node_make) -> None:
    node_make(agent_id="a" * 32)
    Node.objects.update(state="down")
    node_leave("node-1", "b" * 32)
    assert node_make(agent_id="b" * 32) is None and Node.objects.get().state == "down"


def test_an_agent_of_an_earlier_release_is_heard_though_the_one_before_it_left_by_its_id(node_make) -> None:
    node_make(agent_id="a" * 32)
    node_leave("node-1", "a" * 32)
    assert node_make().state == "up"
    node_leave("node-1")
    assert node_make().state == "up"


def test_a_restart_after_a_fault_waits_a_little_and_longer_each_time(job, node_make, monkeypatch):
    node_make()
    place_now(job)
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)  # however long it takes
    waits = []
    for number in (1, 2):
        token = Job.objects.get(pk=job.pk).token
        events_apply(job.pk, [event(job, "exited", 0, token=token, outcome="lost")])
        held = Job.objects.get(pk=job.pk)
        assert (held.state, held.restarts, held.waiting_code) == ("queued", number, "restart_delay")
        assert tick() == 0
        waits.append((held.retry_at - now).total_seconds())
        assert tick_later() == 1
    assert waits[1] > 1.5 * waits[0] > 0
    assert Job.objects.get(pk=job.pk).retry_at is None


def test_a_node_that_an_admin_shut_down_counts_for_nothing_and_nothing_waits(fourth: JobAttempt) -> None:
    assert attempt_end(fourth, Outcome.LOST, dict(STOPPED))
    job = Job.objects.get(pk=fourth.job_id)
    assert (job.state, job.restarts, job.retry_at, job.failure) == ("queued", 3, None, None)
    assert tick() == 1
    fifth = JobAttempt.objects.get(job=job, number=5)
    checkpoint_of(fifth, 2)
    again = ended(fifth)
    assert "3 of 3" in again.events.order_by("-pk")[0].message, "attempts 2, 3 and 5: the fourth is not one of them"


def test_a_node_that_was_shut_down_last_is_avoided_beside_those_of_faults(job: Job, node_make) -> None:
    node_make()
    attempt = run_now(job)
    assert losses_read([Job.objects.get(pk=job.pk)]) == {}
    assert attempt_end(attempt, Outcome.LOST, dict(STOPPED))
    assert losses_read([Job.objects.get(pk=job.pk)]) == {job.pk: {"node-1": 1}}
    assert tick() == 1, "no other node is free"
    second = JobAttempt.objects.get(job=job, number=2)
    assert losses_read([Job.objects.get(pk=job.pk)]) == {}
    ended(second)
    assert losses_read([Job.objects.get(pk=job.pk)]) == {job.pk: {"node-1": 1}}


def test_a_node_that_is_shut_down_again_and_again_counts_in_the_end(fourth: JobAttempt) -> None:
    JobAttempt.objects.filter(number__lt=4).delete()
    for number in range(5, 25):
        JobAttempt.objects.create(
            job=fourth.job, number=number, plan={}, outcome=Outcome.LOST, failure=STOPPED, ended_at=fourth.created_at
        )
    assert attempt_end(fourth, Outcome.LOST, dict(STOPPED))
    assert "1 of 3" in Job.objects.get().events.order_by("-pk")[0].message


def test_nobody_gets_the_devices_of_a_job_that_starts_again_in_a_moment(job: Job, job_make, node_make) -> None:
    node_make(cpus=1)
    attempt = run_now(job)
    later = queue(job_make(name="later"))
    ended(attempt)
    assert tick() == 0
    Job.objects.filter(pk=job.pk).update(retry_at=timezone.now() + timedelta(minutes=1))
    assert tick() == 1, "nobody waits for as long as that"
    later.refresh_from_db()
    assert later.state == "placed"


def test_devices_are_charged_until_the_run_ended_not_until_control_heard_of_it(job: Job, node_make) -> None:
    node_make()
    attempt = run_now(job)
    began = timezone.now() - timedelta(hours=1)
    JobAttempt.objects.update(created_at=began)
    Allocation.objects.update(created_at=began)
    told = event(job, "exited", 99, time_s=began.timestamp() + 60, outcome="cancelled")
    events_apply(job.pk, [told])
    use = DeviceUse.objects.get(job=job, token=attempt.number)
    assert (use.ended_at - use.started_at).total_seconds() == pytest.approx(60)
    assert Job.objects.get(pk=job.pk).run_s == pytest.approx(60)


@pytest.mark.parametrize(("ended_s", "held_s"), [(0.0, 0.0), (4e9, 3600.0)])
def test_a_clock_that_is_wrong_charges_no_more_than_the_devices_were_held(
    ended_s: float, held_s: float, job: Job, node_make
) -> None:
    node_make()
    attempt = run_now(job)
    JobAttempt.objects.update(created_at=timezone.now() - timedelta(hours=1))
    attempt.refresh_from_db()
    attempt_end(attempt, Outcome.CANCELLED, None, ended_s=ended_s)
    assert Job.objects.get(pk=job.pk).run_s == pytest.approx(held_s, abs=60)
