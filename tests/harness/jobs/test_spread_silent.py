"""Nodes of an attempt over several that fall silent, and words of theirs that are lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from harness.jobs.control import clock
from harness.jobs.control import found as found_module
from harness.jobs.control import reconcile as module
from harness.jobs.control.hearing import HEARING_KEY
from harness.jobs.control.reconcile import reconcile
from harness.jobs.models import JobAttempt, JobEvent
from harness.pool.models import Node
from tests.harness.jobs.helpers import SUFFERED, event, stops
from tests.harness.jobs.two_nodes import age, attempt, ended, real_broker, started, wide
from worker.plan import RunPaths

pytestmark = pytest.mark.django_db
__all__ = ["attempt", "real_broker", "wide"]


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


def test_a_part_that_trained_and_went_with_its_pod_is_asked_once_more_and_lost(attempt, node_make, tasks_sent, broker):
    """Its node is up: another agent has its name. The other part saved, as it was told of the end, and has ended."""
    started(attempt)
    ended(attempt, "node-1", "paused")
    trained = timezone.now() - timedelta(seconds=60)
    JobAttempt.objects.update(running_at=trained, sends=1, sent_at=trained - timedelta(seconds=5))
    tasks_sent.clear()
    reconcile()
    assert [queue for name, _, queue in tasks_sent if name == "node.start"] == ["node.node-1", "node.node-2"]
    reconcile()
    assert JobEvent.objects.filter(kind="node_end").count() == 1, "it has time to answer"
    assert JobAttempt.objects.get().sends == 2
    JobAttempt.objects.update(running_at=trained - timedelta(minutes=9), sent_at=trained - timedelta(minutes=5))
    reconcile()
    assert JobEvent.objects.filter(kind="node_end").count() == 1, "that was another silence: it is asked anew"
    JobAttempt.objects.update(sent_at=timezone.now() - timedelta(seconds=25))
    reconcile()
    attempt.job.refresh_from_db()
    assert [row.data["node"] for row in JobEvent.objects.filter(kind="node_end").order_by("pk")] == ["node-1", "node-2"]
    assert attempt.job.state == "queued"
    assert "stopped responding" in JobEvent.objects.filter(kind="node_end").last().message, "the node answers"


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
