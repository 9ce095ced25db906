"""Attempts over several nodes: placement, how the ends of the parts come to one end, and nodes that fall silent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from harness.errors import Invalid
from harness.jobs import services as jobs
from harness.jobs.control import clock
from harness.jobs.control import found as found_module
from harness.jobs.control import reconcile as module
from harness.jobs.control.effects import events_apply
from harness.jobs.control.hearing import HEARING_KEY
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.saved import checkpoints_damaged
from harness.jobs.control.spread import spread_check, verdict
from harness.jobs.control.tick import start_send, tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, Job, JobAttempt, JobEvent, ResourceSample
from harness.jobs.node_ends import NodeEnd
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import window_of
from harness.pool.models import Device, Node
from harness.pool.power import device_power
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import BROKEN, SUFFERED, event, place_now, queue, stops
from worker.cause import failure
from worker.events import FailureCode, Outcome
from worker.plan import RunPaths

pytestmark = pytest.mark.django_db
KILLED = {"code": "rank_killed", "message": "Rank 1 was killed by something outside the run (SIGKILL)."}


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def wide(people, node_make):
    """A pool whose jobs may span two nodes of one core each."""
    pool_setting_update(user=people.admin, span_nodes=True)
    node_make("node-1", cpus=1, address="10.0.0.1")
    node_make("node-2", cpus=1, address="10.0.0.2")


@pytest.fixture
def attempt(wide, job_make):
    """A job of two ranks, placed."""
    return place_now(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))


def test_a_gang_waits_with_the_reason_while_its_nodes_have_different_releases(wide, job_make, node_make):
    def release(node, name):
        node_make(node, cpus=1, address=f"10.0.0.{node[-1]}", description={"release": name})

    job = queue(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))
    release("node-1", "0.3.0")
    release("node-2", "0.2.0")
    assert tick() == 0
    job.refresh_from_db()
    assert job.state == "queued" and "need one release" in job.waiting_text
    assert "node-2 with 0.2.0, node-1 with 0.3.0" in job.waiting_text
    release("node-2", "")
    tick()
    job.refresh_from_db()
    assert "node-2 with an older one" in job.waiting_text
    release("node-2", "0.3.0")
    assert tick() == 1


@pytest.mark.parametrize("change", [{"description": {"release": "9.9.9"}}, {"address": ""}])
def test_a_gang_that_runs_goes_on_while_none_could_begin(attempt, job_make, node_make, change):
    Job.objects.filter(pk=attempt.job_id).update(state="running")
    node_make("node-2", **{"cpus": 1, "address": "10.0.0.2", **change})
    single = queue(job_make(name="single", resources={"device": "cpu", "count": 1}))
    facts = facts_read()
    (gang,) = [view for view in facts.views if view.running]
    assert gang.can_pause and not facts.pool.spans_nodes
    assert tick() == 0
    attempt.job.refresh_from_db()
    single.refresh_from_db()
    assert (attempt.job.state, single.state) == ("running", "queued")


def test_a_job_for_one_node_starts_whatever_the_others_have(wide, job_make, node_make):
    node_make("node-1", cpus=1, address="10.0.0.1", description={"release": "0.3.0"})
    place_now(job_make(resources={"device": "cpu", "count": 1}))


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


def ended(attempt, node, outcome, failure=None, **more):
    index = ["node-1", "node-2"].index(node)
    data = {"outcome": outcome, "failure": failure, "node": node, **more}
    events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-1 - index, **data)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def started(attempt):
    both = [
        event(attempt.job, "started", 0, rank=-1 - index, sandbox_level=2 - index, node=f"node-{index + 1}")
        for index in (0, 1)
    ]
    events_apply(attempt.job_id, [*both, event(attempt.job, "running", 0, rank=0)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def age(attempt, seconds):
    then = timezone.now() - timedelta(seconds=seconds)
    JobAttempt.objects.filter(pk=attempt.pk).update(sent_at=then, seen_at=then)


def test_a_gang_that_no_node_holds_is_spread_over_two_with_their_addresses(attempt, tasks_sent):
    plan = attempt.plan
    assert [(rank["node"], rank["local_rank"]) for rank in plan["ranks"]] == [("node-1", 0), ("node-2", 0)]
    assert plan["addresses"] == {"node-1": "10.0.0.1", "node-2": "10.0.0.2"}
    start_send(attempt)
    queues = [name for task, _, name in tasks_sent if task == "node.start"]
    assert queues == ["node.node-1", "node.node-2"]


def test_one_node_is_preferred_where_it_has_room(wide, node_make, job_make):
    node_make("node-3", cpus=2, address="10.0.0.3")
    plan = place_now(job_make(resources={"device": "cpu", "count": 2}, mode="sync")).plan
    assert {rank["node"] for rank in plan["ranks"]} == {"node-3"} and plan["addresses"] == {}


@pytest.mark.parametrize("spec", [{"mode": "single"}, {"mode": "replicated"}])
def test_one_process_cannot_span_nodes(wide, job_make, spec):
    with pytest.raises(Invalid, match="largest node has 1"):
        job_make(resources={"device": "cpu", "count": 2}, **spec)


def test_more_than_all_nodes_together_have_is_refused_and_one_process_waits_for_a_node_of_its_own(wide, job_make):
    with pytest.raises(Invalid, match="all nodes together have 2"):
        job_make(resources={"device": "cpu", "count": 3}, mode="sync")
    job = queue(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))
    job.resolved["spec"]["mode"] = "single"
    job.save(update_fields=["resolved"])
    assert tick() == 0


def test_nodes_whose_addresses_mean_themselves_only_hold_no_gang_together(wide, node_make, job_make):
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    node_make("node-2", cpus=1, address="127.0.0.1")
    queue(job)
    assert tick() == 0
    node_make("node-2", cpus=1, address="10.0.0.2")
    assert tick() == 1


def test_without_the_setting_nothing_spans(people, wide, job_make):
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    pool_setting_update(user=people.admin, span_nodes=False)
    queue(job)
    assert tick() == 0


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


def test_a_node_that_goes_down_is_lost_and_the_job_starts_again(
    attempt, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    started(attempt)
    age(attempt, 40)
    node_make("node-1", cpus=1, address="10.0.0.1", running=[{"job_id": attempt.job_id, "token": 1}])
    Node.objects.filter(name="node-2").update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    attempt.refresh_from_db()
    assert attempt.ended_at is None  # node-1 has not told yet that its ranks are gone
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert ([attempt.job_id, 1, "end"], "node.node-1") in stops(tasks_sent)
    ended(attempt, "node-1", "lost", SUFFERED)
    assert attempt.failure["message"] == "The node node-2 does not answer."
    assert attempt.job.state == "queued"


def test_a_part_that_its_node_reports_or_whose_lease_is_held_is_not_lost(attempt, node_make, broker):
    started(attempt)
    age(attempt, 40)
    node_make("node-1", cpus=1, address="10.0.0.1", running=[{"job_id": attempt.job_id, "token": 1}])
    broker.set(f"dlh:lease:{attempt.job_id}:node-2", "1")
    Node.objects.filter(name="node-2").update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    assert not JobEvent.objects.filter(kind="node_end").exists()


@pytest.mark.parametrize("after", ["_steady", "nodes_mark_down"])
def test_control_that_stands_still_in_the_middle_of_a_round_loses_nobody(
    attempt, node_make, broker, tasks_sent, monkeypatch, after
):
    """A machine that stops for 40 s has old heartbeats and leases that ran out when it goes on."""
    started(attempt)
    age(attempt, 40)
    me = [{"job_id": attempt.job_id, "token": 1}]
    leases = [f"dlh:lease:{attempt.job_id}", f"dlh:lease:{attempt.job_id}:node-2"]
    for number, lease in enumerate(leases, 1):
        node_make(f"node-{number}", cpus=1, address=f"10.0.0.{number}", running=me)
        broker.set(lease, "1")
    now, since_start_s, work = timezone.now, clock.since_start_s, getattr(module, after)

    def paused(*given):
        done = work(*given)
        monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(seconds=40))
        monkeypatch.setattr(clock, "since_start_s", lambda: since_start_s() + 40)
        Node.objects.update(running=[])
        broker.delete(*leases)
        return done

    monkeypatch.setattr(module, after, paused)
    monkeypatch.setattr(module, "_guard", clock.JumpGuard())
    reconcile()
    assert not JobEvent.objects.filter(kind="node_end").exists()
    assert {node.state for node in Node.objects.all()} == {"up"}
    assert not broker.exists(HEARING_KEY)  # nor in the next round


def test_a_part_that_never_answered_is_asked_again(attempt, node_make, tasks_sent):
    node_make("node-1", cpus=1, address="10.0.0.1", running=[{"job_id": attempt.job_id, "token": 1}])
    tasks_sent.clear()
    age(attempt, 25)
    reconcile()
    assert [name for name, *_ in tasks_sent].count("node.start") == 2
    JobAttempt.objects.update(sends=6)
    age(attempt, 25)
    reconcile()
    assert JobEvent.objects.get(kind="node_end").data["node"] == "node-2"


@pytest.fixture
def looked_within(monkeypatch):
    """Of every look at the store: whether it was made in a transaction."""
    outside, looked, names = len(connection.savepoint_ids), [], found_module._names

    def noted(paths):
        looked.append(len(connection.savepoint_ids) > outside)
        return names(paths)

    monkeypatch.setattr(found_module, "_names", noted)
    return looked


def test_the_store_is_looked_at_before_the_job_is_locked_where_a_part_is_called_lost(attempt, looked_within):
    started(attempt)
    age(attempt, 40)
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    attempt.refresh_from_db()
    assert attempt.outcome == "lost" and looked_within == [False]


def test_ends_that_the_broker_lost_are_read_from_disk(attempt, looked_within):
    started(attempt)
    root = settings.STORE.job(attempt.job_id).root
    for node, part, rank in (("node-1", "", -1), ("node-2", "node-2", -2)):
        file = RunPaths(root, part).exit_file(1)
        file.parent.mkdir(parents=True, exist_ok=True)
        told = event(attempt.job, "exited", 9, rank=rank, outcome="succeeded", failure=None, node=node)
        file.write_text(told.to_json())
    reconcile()
    attempt.refresh_from_db()
    assert attempt.outcome == "succeeded" and looked_within == [False]


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
