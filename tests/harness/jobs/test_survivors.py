"""An elastic run over two nodes loses one: what is given back, what still counts, and when all start again instead."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.control.held import held_read
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.control.width_request import width_of
from harness.jobs.models import Allocation, DeviceUse, JobAttempt, JobEvent
from harness.pages.ranks_view import ranks_of
from harness.pool.models import Device, Node
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import event, place_now, stops
from worker.plan import RunPlan

pytestmark = pytest.mark.django_db
KILLED = {"code": "node_lost", "message": "The process that watched over the run was ended from outside."}
SUFFERED = {"code": "rank_killed", "message": "lost those on the others", "suffered": True}
SAVED = {"code": "node_stopped", "message": "The node was shut down during the run, which saved first.", "saved": True}
ADDRESSES = {"node-1": "10.0.0.1", "node-2": "10.0.0.2"}


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def placed(people, node_make, job_make):
    """Two ranks on two nodes, of which one will do; not started."""
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=1, address=address)
    return place_now(job_make(resources={"device": "cpu", "count": 2, "least": 1}, mode="sync"))


@pytest.fixture
def attempt(placed):
    """The same, training."""
    begun = [
        event(placed.job, "started", 0, rank=-1 - index, sandbox_level=2, node=node)
        for index, node in enumerate(ADDRESSES)
    ]
    events_apply(placed.job_id, [*begun, event(placed.job, "running", 0, rank=0)])
    return fresh(placed)


def fresh(attempt):
    return JobAttempt.objects.select_related("job").get(pk=attempt.pk)


def ended(attempt, node, outcome, failure=None):
    data = {"outcome": outcome, "failure": failure, "node": node}
    events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-1 - list(ADDRESSES).index(node), **data)])
    return fresh(attempt)


def held():
    return list(Allocation.objects.values_list("device__node__name", flat=True))


def words(attempt):
    return [row.message for row in JobEvent.objects.filter(job_id=attempt.job_id, kind="note").order_by("pk")]


def test_such_a_job_may_lose_a_node_but_not_change_its_width(placed):
    plan = RunPlan.from_dict(placed.plan)
    assert (plan.least, plan.most, plan.nodes) == (1, 0, ("node-1", "node-2"))
    assert len(plan.word) == 32


def test_jobs_that_cannot_lose_a_node_have_nothing_to_show(placed, job_make, node_make):
    node_make("node-3", cpus=2, address="10.0.0.3")
    alone = place_now(job_make(resources={"device": "cpu", "count": 2, "least": 1}, mode="sync"))
    assert (alone.plan["least"], alone.plan["most"], alone.plan["word"]) == (1, 2, "")


def test_a_lost_node_gives_its_device_back_and_the_attempt_goes_on(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(attempt, "node-2", "lost", KILLED)
    assert (attempt.ended_at, attempt.job.state, attempt.job.restarts) == (None, "running", 0)
    assert held() == ["node-1"]
    assert DeviceUse.objects.get().node_name == "node-2"
    assert not stops(tasks_sent)
    assert (width_of(attempt), attempt.width["changes"], attempt.option["count"]) == ((0,), 1, 1)
    assert words(attempt)[-1] == "Continues with 1 of 2 ranks: the node node-2 was lost."
    assert [row.device for row in ranks_of(attempt.job).rows] == ["node-1 CPU 0"]
    attempt = ended(attempt, "node-1", "succeeded")
    assert (attempt.job.state, attempt.outcome, attempt.failure) == ("succeeded", "succeeded", None)
    assert not Allocation.objects.exists() and DeviceUse.objects.count() == 2


def test_a_device_that_got_no_rank_goes_back_with_its_own_node_alone(people, node_make, job_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    left_out = {name: node_make(name, cpus=2, address=ADDRESSES[name]).devices.get(index=0) for name in ADDRESSES}
    Device.objects.filter(pk__in=[device.pk for device in left_out.values()]).update(slowdown=100.0)
    attempt = place_now(job_make(resources={"device": "cpu", "count": 4, "least": 1}, mode="sync"))
    assert [(rank.rank, rank.node) for rank in attempt.run_plan.ranks] == [(0, "node-1"), (1, "node-2")]
    ranks = dict(Allocation.objects.values_list("device", "rank"))
    assert [ranks.pop(device.pk) for device in left_out.values()] == [2, 3]
    assert sorted(ranks.values()) == [0, 1]
    begun = [event(attempt.job, "started", 0, rank=-1, node="node-1"), event(attempt.job, "running", 0, rank=0)]
    events_apply(attempt.job_id, begun)
    attempt = ended(fresh(attempt), "node-2", "lost", KILLED)
    assert (held(), attempt.option["count"]) == (["node-1", "node-1"], 2)
    assert set(DeviceUse.objects.values_list("node_name", flat=True)) == {"node-2"}
    assert not any(one.leaves for one in held_read())


def test_a_node_none_of_whose_devices_got_a_rank_is_no_node_of_the_run(people, node_make, job_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    node_make("node-1", cpus=2, address="10.0.0.1")
    slow = node_make("node-2", cpus=1, address="10.0.0.2")
    slow.devices.update(slowdown=100.0)
    attempt = place_now(job_make(resources={"device": "cpu", "count": 3}, mode="sync"))
    plan = attempt.run_plan
    assert (plan.nodes, plan.addresses, plan.network, plan.world_size) == (("node-1",), {}, 0, 2)
    assert sorted(held()) == ["node-1", "node-1", "node-2"]


def test_what_a_lost_node_held_is_charged_until_it_was_lost_not_until_control_heard_of_it(attempt):
    began = timezone.now() - timedelta(hours=1)
    JobAttempt.objects.update(created_at=began)
    Allocation.objects.update(created_at=began)
    told = {"outcome": "lost", "failure": KILLED, "node": "node-2", "time_s": began.timestamp() + 60}
    events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-2, **told)])
    use = DeviceUse.objects.get()
    assert (use.ended_at - use.started_at).total_seconds() == pytest.approx(60)


def test_a_silent_node_is_survived_when_it_is_called_lost(attempt, node_make, tasks_sent):
    then = timezone.now() - timedelta(seconds=40)
    JobAttempt.objects.update(sent_at=then, seen_at=then)
    node_make("node-1", cpus=1, address="10.0.0.1", running=[{"job_id": attempt.job_id, "token": 1}])
    Node.objects.filter(name="node-2").update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    reconcile()
    attempt = fresh(attempt)
    assert (attempt.ended_at, attempt.job.state, held()) == (None, "running", ["node-1"])
    assert not stops(tasks_sent)
    assert "The node node-2 does not answer." in JobEvent.objects.get(kind="node_end").message


def test_nothing_that_a_lost_node_says_counts_any_more(attempt):
    values = {"rank1/samples_per_s": 7.0}
    events_apply(attempt.job_id, [event(attempt.job, "metric", 1, rank=1, step=5, epoch=0.5, values=values)])
    attempt = ended(attempt, "node-2", "lost", KILLED)
    late = [
        event(attempt.job, "checkpoint", 2, rank=1, name="step-00000009", step=9, epoch=1.0, metric=None, bytes=1),
        event(attempt.job, "metric", 3, rank=1, step=9, epoch=0.9, values={"rank1/samples_per_s": 9.0}),
        event(attempt.job, "note", 10, rank=-2, message="I am still here"),
    ]
    assert events_apply(attempt.job_id, late) == 0
    attempt = fresh(attempt)
    assert not attempt.job.checkpoints.exists()
    assert "rank1/samples_per_s" not in attempt.job.last_values
    mine = event(attempt.job, "checkpoint", 2, rank=0, name="step-00000009", step=9, epoch=1.0, metric=None, bytes=1)
    assert events_apply(attempt.job_id, [mine]) == 1


def test_a_lost_node_that_comes_back_with_the_run_is_told_to_stop_and_the_first_is_not(attempt, node_make, tasks_sent):
    ended(attempt, "node-2", "lost", KILLED)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=1, address=address, running=[{"job_id": attempt.job_id, "token": 1}])
    reconcile()
    assert stops(tasks_sent) == [([attempt.job_id, 1, "cancel"], "node.node-2")]


def test_it_goes_on_narrow_while_the_node_is_away_and_grows_by_a_pause_when_it_is_back(attempt):
    ended(attempt, "node-2", "lost", KILLED)
    Node.objects.filter(name="node-2").update(state="down")
    assert tick() == 0
    assert (fresh(attempt).job.state, held()) == ("running", ["node-1"])
    Node.objects.filter(name="node-2").update(state="up")
    tick()
    attempt = fresh(attempt)
    assert (attempt.job.state, attempt.job.preempted, attempt.job.restarts) == ("pausing", True, 0)
    ended(attempt, "node-1", "paused")
    assert tick() == 1
    again = JobAttempt.objects.get(job=attempt.job, number=2)
    assert (again.world_size, again.plan["least"], again.width) == (2, 1, {})


@pytest.mark.parametrize("first_heard", ["node-1", "node-2"])
def test_where_a_rank_elsewhere_is_away_and_all_save_with_a_node_that_is_shut_down_the_job_waits_again(
    people, node_make, job_make, first_heard
):
    """By the plan two ranks remain without that node; there was but one, as its ranks knew."""
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=2, address=address)
    attempt = place_now(job_make(resources={"device": "cpu", "count": 4, "least": 2}, mode="sync"))
    begun = [event(attempt.job, "started", 0, rank=-1, node="node-1"), event(attempt.job, "running", 0, rank=0)]
    events_apply(attempt.job_id, begun)
    ends = {"node-1": ("paused", None), "node-2": ("lost", SAVED)}
    for node in sorted(ends, key=lambda node: node != first_heard):
        attempt = ended(fresh(attempt), node, *ends[node])
    assert (attempt.job.state, attempt.job.restarts, attempt.failure["code"]) == ("queued", 0, "node_stopped")
    assert not any("Continues" in word for word in words(attempt)) and not held()


@pytest.mark.parametrize("told", [SUFFERED, KILLED])
def test_the_loss_of_the_first_node_starts_all_again(attempt, told, tasks_sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(attempt, "node-1", "lost", told)
    assert stops(tasks_sent) == [([attempt.job_id, 1, "rescue"], "node.node-2")], "it may save what it holds before"
    attempt = ended(attempt, "node-2", "cancelled")
    assert (attempt.job.state, attempt.job.restarts, held()) == ("queued", 1, [])


def test_where_the_gang_cannot_go_on_after_all_the_lost_node_is_named(attempt):
    ended(attempt, "node-2", "lost", KILLED)
    attempt = ended(attempt, "node-1", "lost", SUFFERED)
    assert (attempt.job.state, attempt.failure["message"]) == ("queued", KILLED["message"])


def test_before_its_first_step_it_starts_again(placed, tasks_sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(placed, "node-2", "lost", KILLED)
    assert len(held()) == 2
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")]


def test_a_fault_of_the_program_is_not_survived(attempt, tasks_sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(attempt, "node-2", "failed", {"code": "program_error", "message": "bad shape"})
    assert stops(tasks_sent) == [([attempt.job_id, 1, "end"], "node.node-1")]
    attempt = ended(attempt, "node-1", "lost", SUFFERED)
    assert (attempt.job.state, attempt.job.failure["message"]) == ("failed", "bad shape")


def test_a_pause_of_what_is_left_is_a_pause(attempt):
    ended(attempt, "node-2", "lost", KILLED)
    attempt = ended(attempt, "node-1", "paused")
    assert (attempt.outcome, attempt.job.state) == ("paused", "paused")


def test_without_the_wish_a_lost_node_ends_the_attempt(people, node_make, job_make, tasks_sent):
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=1, address=address)
    attempt = place_now(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))
    events_apply(attempt.job_id, [event(attempt.job, "running", 0, rank=0)])
    attempt = ended(fresh(attempt), "node-2", "lost", KILLED)
    assert len(held()) == 2 and not attempt.width
