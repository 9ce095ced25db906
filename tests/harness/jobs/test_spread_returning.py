"""A run on two nodes whose ranks have ended: each node returns what lies there, and may be away meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.awaited import results_awaited
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.models import Allocation, DeviceUse, Job, JobAttempt, JobEvent
from harness.pool.models import Node
from tests.harness.jobs.helpers import event
from tests.harness.jobs.two_nodes import attempt, ended, real_broker, started, wide

pytestmark = pytest.mark.django_db
__all__ = ["attempt", "real_broker", "wide"]


def returns(attempt, node, **outcome):
    """The ranks on a node have ended, and it begins to return what they made."""
    rank = -1 - ["node-1", "node-2"].index(node)
    events_apply(attempt.job_id, [event(attempt.job, "returning", 5, rank=rank, node=node, **outcome)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def silent(node, minutes):
    """It was sent long ago, and the node is silent for so long."""
    JobAttempt.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    Node.objects.filter(name=node).update(heartbeat_at=timezone.now() - timedelta(minutes=minutes))


def state_then(attempt):
    """The job's state after a look of control."""
    reconcile()
    return Job.objects.get(pk=attempt.job_id).state


@pytest.mark.parametrize("first", ["exited", "returning"])
def test_devices_are_free_once_the_ranks_of_all_have_ended(attempt, first):
    started(attempt)
    orders = {"exited": lambda: ended(attempt, "node-2", "succeeded"), "returning": lambda: returns(attempt, "node-1")}
    orders.pop(first)()
    assert attempt.job.state == "running" and Allocation.objects.count() == 2
    orders.popitem()[1]()
    assert attempt.job.state == "returning" and not Allocation.objects.exists()
    ended(attempt, "node-1", "succeeded")
    assert attempt.job.state == "succeeded"
    assert DeviceUse.objects.count() == 2


def test_one_that_is_started_anew_is_not_asked_to_start(attempt, tasks_sent):
    started(attempt)
    for node in ("node-1", "node-2"):
        returns(attempt, node)
    silent("node-1", minutes=10)
    tasks_sent.clear()
    assert state_then(attempt) == "returning"
    assert [name for name, _, _ in tasks_sent if name == "node.start"] == []
    silent("node-1", minutes=20)
    silent("node-2", minutes=20)
    assert state_then(attempt) == "queued"


def test_it_is_the_first_one_that_has_the_results(attempt):
    started(attempt)
    for node in ("node-1", "node-2"):
        returns(attempt, node, outcome="succeeded")
    ended(attempt, "node-2", "succeeded")
    silent("node-1", minutes=20)
    assert state_then(attempt) == "returning" and results_awaited(attempt.job).node == "node-1"
    silent("node-1", minutes=130)
    assert state_then(attempt) == "queued"


def test_results_that_the_first_one_has_returned_are_not_waited_for(attempt):
    started(attempt)
    for node in ("node-1", "node-2"):
        returns(attempt, node, outcome="succeeded")
    ended(attempt, "node-1", "succeeded")
    silent("node-1", minutes=10)
    silent("node-2", minutes=10)
    assert state_then(attempt) == "returning" and results_awaited(attempt.job) is None
    silent("node-2", minutes=20)
    assert state_then(attempt) == "succeeded"


@pytest.mark.parametrize(("lost", "minutes", "state"), [("node-2", 20, "succeeded"), ("node-1", 130, "queued")])
def test_no_run_is_made_again_for_the_logs_of_one_that_stays_away(attempt, lost, minutes, state):
    started(attempt)
    returns(attempt, lost, outcome="succeeded")
    ended(attempt, "node-1" if lost == "node-2" else "node-2", "succeeded")
    silent(lost, minutes)
    assert state_then(attempt) == state
    notes = JobEvent.objects.filter(kind="note", message__contains="is not in the store")
    assert notes.exists() == (state == "succeeded")
