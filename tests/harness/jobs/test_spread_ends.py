"""How the ends of the parts of an attempt over several nodes come to one end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs import services as jobs
from harness.jobs.control import clock
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.saved import checkpoints_damaged
from harness.jobs.control.spread import spread_check
from harness.jobs.control.verdict import verdict
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, Job, JobAttempt, JobEvent, ResourceSample
from harness.jobs.node_ends import NodeEnd
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import window_of
from harness.pool.models import Device, Node
from harness.pool.power import device_power
from tests.harness.jobs.helpers import BROKEN, SUFFERED, event, stops
from tests.harness.jobs.two_nodes import age, attempt, ended, real_broker, started, wide
from worker.cause import failure
from worker.events import FailureCode, Outcome

pytestmark = pytest.mark.django_db
__all__ = ["attempt", "real_broker", "wide"]
KILLED = {"code": "rank_killed", "message": "Rank 1 was killed by something outside the run (SIGKILL)."}


STOPPED = {"code": "node_stopped", "message": "The node was shut down during the run."}
STALLED = {"code": "stalled", "message": "the ranks wait for each other", "suffered": True}


def test_nodes_that_answer_each_other_and_wait_are_a_deadlock_unless_one_of_them_was_cut_off():
    def end(node, outcome, **words):
        return NodeEnd(node=node, outcome=Outcome(outcome), failure={**SUFFERED, **words} if words else None)

    waits = end("node-1", "failed", **STALLED)
    assert verdict([waits, end("node-2", "failed", **STALLED)]) == (Outcome.FAILED, STALLED)
    assert verdict([waits, end("node-2", "cancelled")]) == (Outcome.FAILED, STALLED)
    assert verdict([end("node-2", "lost", code="rank_killed"), waits])[0] == Outcome.FAILED
    outcome, failure = verdict([waits, end("node-2", "lost", code="rank_killed", cut=True)])
    assert outcome == Outcome.LOST and "was cut" in failure["message"]
    own = NodeEnd(node="node-2", outcome=Outcome.FAILED, failure=BROKEN)
    assert verdict([waits, own]) == (Outcome.FAILED, BROKEN)


def test_of_nodes_that_paused_before_they_met_one_that_was_ended_for_the_other_cancels_nothing():
    """An agent of earlier sources tells of the second that it had not met the others either."""
    paused = NodeEnd(node="node-2", outcome=Outcome.PAUSED, unmet=True)
    ended = NodeEnd(node="node-1", outcome=Outcome.CANCELLED, unmet=True)
    assert verdict([paused, ended]) == verdict([ended, paused]) == (Outcome.PAUSED, None)
    assert verdict([ended, NodeEnd(node="node-2", outcome=Outcome.PAUSED)])[0] == Outcome.CANCELLED


def test_it_succeeds_when_every_node_is_done_and_only_then_are_devices_free(attempt, tasks_sent):
    started(attempt)
    assert (attempt.job.state, attempt.job.sandbox_level) == ("running", 1)
    ended(attempt, "node-2", "succeeded")
    assert attempt.ended_at is None and Allocation.objects.count() == 2
    assert not stops(tasks_sent)
    ended(attempt, "node-1", "succeeded")
    assert (attempt.job.state, attempt.outcome) == ("succeeded", "succeeded")
    assert not Allocation.objects.exists()


def test_a_bad_end_stops_the_other_node_at_once_and_tells_the_real_cause(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    with django_capture_on_commit_callbacks(execute=True):
        ended(attempt, "node-2", "failed", BROKEN)
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")], "what it made is wanted"
    ended(attempt, "node-1", "cancelled")
    assert (attempt.job.state, attempt.job.failure["message"]) == ("failed", "bad shape")
    assert not Allocation.objects.exists()


def test_ranks_on_other_nodes_than_the_one_that_is_shut_down_have_time_to_save(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    with django_capture_on_commit_callbacks(execute=True):
        ended(attempt, "node-2", "lost", STOPPED | {"saved": True})
    assert stops(tasks_sent) == [([attempt.job_id, 1, "pause"], "node.node-1")]
    ended(attempt, "node-1", "paused")
    assert (attempt.job.state, attempt.job.restarts, attempt.failure["code"]) == ("queued", 0, "node_stopped")


def test_a_node_that_is_shut_down_without_having_saved_ends_the_others(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    with django_capture_on_commit_callbacks(execute=True):
        ended(attempt, "node-2", "lost", STOPPED | {"saved": False})
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")]


def test_who_cancels_while_a_node_returns_what_it_made_has_it_hurry(
    attempt, people, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    ended(attempt, "node-2", "failed", BROKEN)
    jobs.job_cancel(user=people.owner, job=attempt.job)
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert stops(tasks_sent) == [([attempt.job_id, 1, "cancel"], "node.node-1")]


def test_who_only_lost_a_sibling_is_not_to_blame(attempt):
    started(attempt)
    ended(attempt, "node-1", "lost", SUFFERED)
    assert attempt.ended_at is None
    ended(attempt, "node-2", "lost", KILLED)
    assert attempt.failure["message"] == KILLED["message"]
    assert (attempt.job.state, attempt.job.restarts) == ("queued", 1)


REFUSED = failure(FailureCode.CHECKPOINT_CORRUPT, "Damaged checkpoint: it lacks net.3.weight of this program's model")


@pytest.mark.parametrize("first_heard", ["node-1", "node-2"])
def test_ranks_elsewhere_that_refuse_what_the_first_node_had_left_of_an_older_attempt_do_not_fail_the_job(
    attempt, first_heard
):
    planned, left = "step-00000100", "step-00000300"
    JobAttempt.objects.filter(pk=attempt.pk).update(plan={**attempt.plan, "resume_from": planned})
    for step in (100, 300):
        Checkpoint.objects.create(job=attempt.job, name=f"step-{step:08d}", step=step, epoch=1.0, token=1)
    started(JobAttempt.objects.get(pk=attempt.pk))
    ends = {"node-1": ("cancelled", None, {"leftover": left}), "node-2": ("failed", REFUSED, {})}
    for node in sorted(ends, key=lambda node: node != first_heard):
        outcome, cause, more = ends[node]
        ended(attempt, node, outcome, cause, **more)
    assert (attempt.job.state, attempt.outcome) == ("queued", "lost")
    assert attempt.failure["message"] == (
        "The checkpoint step-00000300, which lay on node-1 and had not been returned, does not load."
    )
    kept = Checkpoint.objects.filter(job=attempt.job, removed_at=None)
    assert list(kept.values_list("name", flat=True)) == [planned], "that of the plan is not to blame"
    assert checkpoints_damaged(attempt.job) == {left: 1}


def test_ranks_elsewhere_that_refuse_the_checkpoint_of_the_plan_have_it_set_aside(attempt):
    JobAttempt.objects.filter(pk=attempt.pk).update(plan={**attempt.plan, "resume_from": "step-00000100"})
    Checkpoint.objects.create(job=attempt.job, name="step-00000100", step=100, epoch=1.0, token=1)
    started(JobAttempt.objects.get(pk=attempt.pk))
    ended(attempt, "node-2", "failed", REFUSED)
    ended(attempt, "node-1", "cancelled")
    assert attempt.job.state == "queued"
    assert not Checkpoint.objects.filter(removed_at=None).exists()


def test_an_end_that_is_told_twice_counts_once(attempt):
    started(attempt)
    ended(attempt, "node-1", "succeeded")
    ended(attempt, "node-1", "succeeded")
    assert attempt.ended_at is None
    assert JobEvent.objects.filter(kind="node_end").count() == 1


def test_a_cancelled_job_is_cancelled_when_both_nodes_have_let_go(
    attempt, people, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    jobs.job_cancel(user=people.owner, job=attempt.job)
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert {queue_name for _, queue_name in stops(tasks_sent)} == {"node.node-1", "node.node-2"}
    Node.objects.filter(name="node-2").update(state="down")
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        spread_check(attempt, {node.name: node for node in Node.objects.all()}, timezone.now(), clock.Steady(True, 0.0))
    assert {queue_name for _, queue_name in stops(tasks_sent)} == {"node.node-1"}
    ended(attempt, "node-1", "cancelled")
    assert attempt.job.state == "cancelling"
    ended(attempt, "node-2", "cancelled")
    assert attempt.job.state == "cancelled"


@pytest.mark.parametrize("preempted", [False, True], ids=["a person", "the scheduler"])
def test_ranks_that_wait_for_a_node_that_paused_before_it_met_them_do_not_wait_on(
    attempt, people, tasks_sent, django_capture_on_commit_callbacks, preempted
):
    jobs.job_pause(user=people.owner, job=attempt.job)
    Job.objects.filter(pk=attempt.job_id).update(preempted=preempted)
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        ended(attempt, "node-2", "paused", unmet=True)
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")]
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")], "the first word was lost"
    ended(attempt, "node-1", "cancelled")
    assert (attempt.job.state, attempt.outcome) == ("queued" if preempted else "paused", "paused")
    assert not Allocation.objects.exists()


def test_an_attempt_of_which_a_node_paused_unasked_before_it_met_the_others_is_over(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        ended(attempt, "node-2", "paused", unmet=True)
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")], "the first word was lost"
    tasks_sent.clear()
    age(attempt, 25)
    reconcile()
    attempt.refresh_from_db()
    assert attempt.outcome == "lost" and "node.start" not in [name for name, *_ in tasks_sent]
    assert Job.objects.get().state == "queued", "nobody asked for a pause: it waits for no person"


def test_what_devices_did_is_told_by_the_samples_of_their_own_node(attempt):
    Allocation.objects.update(created_at=timezone.now() - timedelta(hours=1))
    for name, percent in (("node-1", 100.0), ("node-2", 0.0)):
        data = {"node": name, "ranks": [{"rank": 0, "cpu_percent": percent}], "gpus": []}
        node = Node.objects.get(name=name)
        ResourceSample.objects.create(job=attempt.job, node=node, token=attempt.number, time_s=1.0, data=data)
    running = {row.name: row.energy_j for row in use_rows(user=attempt.job.owner, window=window_of("day"), by="device")}
    ended(attempt, "node-1", "succeeded")
    ended(attempt, "node-2", "succeeded")
    watts = device_power("cpu", Device.objects.first().model_name, {})
    for name, expected in (("node-1", watts.busy_w), ("node-2", watts.idle_w)):
        assert DeviceUse.objects.get(node_name=name).energy_j == pytest.approx(3600 * expected, rel=0.02)
        assert running[f"{name} CPU 0"] == pytest.approx(3600 * expected, rel=0.02)


@pytest.mark.parametrize("heard", [("node-1", "node-2"), ("node-2", "node-1")])
def test_devices_are_charged_until_the_last_part_ended_whichever_was_heard_last(attempt, heard):
    began = timezone.now() - timedelta(hours=1)
    JobAttempt.objects.update(created_at=began)
    Allocation.objects.update(created_at=began)
    after_s = {"node-1": 50, "node-2": 100}
    for node in heard:
        told = {"outcome": "succeeded", "node": node, "time_s": began.timestamp() + after_s[node]}
        events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-int(node[-1]), **told)])
    used = [(use.ended_at - use.started_at).total_seconds() for use in DeviceUse.objects.all()]
    assert used == pytest.approx([100, 100])
