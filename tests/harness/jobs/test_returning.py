"""A run whose ranks have ended gives its devices back, and returns what it made without them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Conflict
from harness.jobs import services as jobs
from harness.jobs.control.awaited import results_awaited
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.drain import drain_consequences
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, JobAttempt, JobEvent
from harness.pool.models import Node
from harness.pool.removing import node_remove
from tests.harness.jobs.helpers import BROKEN, event, queue, run_now, stops

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def attempt(job, node_make):
    """A run on the only core."""
    node_make("node-1", cpus=1)
    return run_now(job)


def told(attempt, kind, seq=5, *, node="node-1", rank=-1, s_ago=0.0, **data):
    """An event of a supervisor arrives."""
    at_s = (timezone.now() - timedelta(seconds=s_ago)).timestamp()
    events_apply(attempt.job_id, [event(attempt.job, kind, seq, rank=rank, time_s=at_s, node=node, **data)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def test_its_devices_are_free_for_the_next_job_while_it_is_not_over(attempt, job_make):
    following = queue(job_make())
    told(attempt, "returning")
    assert (attempt.job.state, attempt.ended_at, attempt.job.finished_at) == ("returning", None, None)
    assert tick() == 1
    following.refresh_from_db()
    assert following.state == "placed"
    told(attempt, "exited", 6, outcome="succeeded", failure=None)
    assert attempt.job.state == "succeeded"
    assert [held.job_id for held in Allocation.objects.all()] == [following.pk]


def test_a_speed_that_is_heard_of_once_its_ranks_have_ended_is_not_that_of_now(attempt):
    told(attempt, "returning")
    told(attempt, "progress", 6, step=10, samples_per_s=40.0)
    assert (attempt.job.step, attempt.job.samples_per_s) == (10, None)


def test_time_and_energy_are_counted_until_the_devices_were_free_and_once(attempt):
    JobAttempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(hours=2))
    Allocation.objects.update(created_at=timezone.now() - timedelta(hours=2))
    attempt.refresh_from_db()
    told(attempt, "returning", s_ago=3600.0)
    use = DeviceUse.objects.get()
    assert (use.ended_at - use.started_at).total_seconds() == pytest.approx(3600.0, abs=5.0)
    told(attempt, "returning", 6)
    told(attempt, "exited", 7, outcome="succeeded", failure=None)
    again = DeviceUse.objects.get()
    assert (again.pk, again.energy_j) == (use.pk, use.energy_j)
    assert attempt.job.run_s == pytest.approx(3600.0, abs=5.0)
    assert JobEvent.objects.filter(new_state="returning").count() == 1


def test_the_history_says_from_where_its_results_return(attempt):
    told(attempt, "returning")
    text = "Its ranks have ended, its devices are free; what it made is being returned from node-1"
    assert JobEvent.objects.get(new_state="returning").message == text


def test_who_cancels_has_the_node_stop_returning(attempt, people, tasks_sent, django_capture_on_commit_callbacks):
    told(attempt, "returning")
    with django_capture_on_commit_callbacks(execute=True):
        jobs.job_cancel(user=people.owner, job=attempt.job)
    assert stops(tasks_sent) == [([attempt.job_id, 1, "cancel"], "node.node-1")]
    told(attempt, "exited", 6, outcome="succeeded", failure=None)
    assert attempt.job.state == "cancelled"


def test_there_is_nothing_to_pause(attempt, people):
    told(attempt, "returning")
    with pytest.raises(Conflict, match="returning what it made cannot be paused"):
        jobs.job_pause(user=people.owner, job=attempt.job)


def test_what_is_cancelled_already_stays_so(attempt, people):
    jobs.job_cancel(user=people.owner, job=attempt.job)
    told(attempt, "returning")
    assert attempt.job.state == "cancelling"


@pytest.mark.parametrize(
    ("outcome", "failure", "state"),
    [("failed", BROKEN, "failed"), ("lost", {"code": "rank_killed"}, "queued"), ("paused", None, "paused")],
)
def test_it_ends_as_its_ranks_did(attempt, outcome, failure, state):
    told(attempt, "returning")
    told(attempt, "exited", 6, outcome=outcome, failure=failure)
    assert (attempt.job.state, attempt.outcome) == (state, outcome)


@pytest.mark.parametrize("outcome", ["paused", "lost"])
def test_one_that_was_asked_to_pause_is_paused_then(attempt, people, outcome):
    jobs.job_pause(user=people.owner, job=attempt.job)
    told(attempt, "returning")
    assert attempt.job.state == "returning"
    told(attempt, "exited", 6, outcome=outcome, failure=None)
    assert attempt.job.state == "paused"


def silent(minutes: float) -> None:
    Node.objects.filter(name="node-1").update(heartbeat_at=timezone.now() - timedelta(minutes=minutes))


def test_a_node_that_is_started_anew_has_the_time_to_go_on(attempt):
    told(attempt, "returning")
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(minutes=10))
    silent(minutes=10)
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.state == "returning"


def test_one_that_stays_away_is_given_up_and_the_job_starts_again(attempt):
    told(attempt, "returning")
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    silent(minutes=20)
    reconcile()
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()
    assert (attempt.outcome, attempt.job.state, attempt.job.restarts) == ("lost", "queued", 1)


def test_one_that_stays_away_with_what_a_run_made_that_failed_has_it_fail(attempt):
    told(attempt, "returning", outcome="failed", failure=BROKEN)
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    silent(minutes=20)
    reconcile()
    attempt.job.refresh_from_db()
    assert (attempt.job.state, attempt.job.failure["code"]) == ("failed", BROKEN["code"])


def test_a_node_with_results_to_return_leaves_the_pool_by_force_alone_and_its_job_then_trains_again(attempt, people):
    told(attempt, "returning")
    silent(minutes=1)
    with pytest.raises(Conflict, match=f"What 1 job made is on node-1 alone and not returned yet: {attempt.job.name}"):
        node_remove(user=people.admin, name="node-1")
    node_remove(user=people.admin, name="node-1", force=True)
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    reconcile()
    attempt.job.refresh_from_db()
    assert (attempt.job.state, Node.objects.exists()) == ("queued", False)


def test_a_node_that_has_returned_everything_can_be_removed(attempt, people):
    told(attempt, "returning")
    told(attempt, "exited", 6, outcome="succeeded", failure=None)
    silent(minutes=1)
    node_remove(user=people.admin, name="node-1")
    assert not Node.objects.exists()


@pytest.mark.parametrize(("minutes", "state"), [(20, "returning"), (110, "returning"), (130, "queued")])
def test_results_of_a_success_on_a_node_that_stays_away_are_waited_for_longer(attempt, minutes, state):
    told(attempt, "returning", outcome="succeeded", failure=None)
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(minutes=minutes))
    silent(minutes)
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.state == state
    awaited = results_awaited(attempt.job)
    assert (awaited is not None) is (state == "returning")
    if awaited:
        assert awaited.node == "node-1"
        left_s = (awaited.until - timezone.now()).total_seconds()
        assert left_s == pytest.approx(60 * (120 - minutes), abs=30.0)


def test_a_node_that_is_back_without_them_is_not_waited_for_that_long(attempt):
    told(attempt, "returning", outcome="succeeded", failure=None)
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(minutes=20))
    silent(minutes=0)
    assert results_awaited(attempt.job) is None
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.state == "queued"


def test_who_does_not_want_to_wait_for_them_has_it_train_again_at_once_and_what_returns_then_is_refused(
    attempt, people
):
    told(attempt, "returning", outcome="succeeded", failure=None)
    with pytest.raises(Conflict, match="returning what it made cannot be resumed"):  # its node answers: they come
        jobs.job_resume(user=people.owner, job=attempt.job)
    silent(minutes=20)
    reconcile()
    job = jobs.job_resume(user=people.mate, job=attempt.job)
    assert (job.state, job.restarts, job.retry_at) == ("queued", 0, None)
    assert JobEvent.objects.filter(new_state="queued", message__contains="mate does not wait for its results").exists()
    told(attempt, "exited", 6, outcome="succeeded", failure=None)
    assert (attempt.outcome, attempt.job.state) == ("lost", "queued")


def test_a_success_that_was_to_pause_trains_again_from_the_chosen_checkpoint_too(attempt, people):
    Checkpoint.objects.create(job=attempt.job, name="step-00000010", step=10, epoch=1.0)
    jobs.job_pause(user=people.owner, job=attempt.job)
    told(attempt, "returning", outcome="succeeded", failure=None)
    silent(minutes=20)
    reconcile()
    attempt.job.refresh_from_db()
    assert results_awaited(attempt.job).pauses
    job = jobs.job_resume(user=people.owner, job=attempt.job, checkpoint="step-00000010")
    assert (job.state, job.resume_from) == ("queued", "step-00000010")


@pytest.mark.parametrize(("minutes", "state"), [(10, "returning"), (20, "queued")])
def test_a_node_that_is_up_and_knows_nothing_of_it_any_more_is_not_waited_for_for_ever(attempt, minutes, state):
    told(attempt, "returning")
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(minutes=minutes))
    silent(minutes=0)
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.state == state


def test_a_node_that_returns_is_waited_for_however_long_its_words_do_not_arrive(attempt):
    told(attempt, "returning")
    JobAttempt.objects.update(seen_at=timezone.now() - timedelta(days=1))
    silent(minutes=0)
    Node.objects.update(running=[{"job_id": attempt.job_id, "token": attempt.number}])
    reconcile()
    attempt.job.refresh_from_db()
    assert attempt.job.state == "returning"


def test_who_drains_the_node_sees_that_it_is_not_idle(attempt, people):
    told(attempt, "returning")
    there = drain_consequences(user=people.admin, name="node-1").running
    assert [(row.job.pk, row.devices) for row in there] == [(attempt.job_id, 0)]
