"""A clock that is set while jobs run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.reconcile import reconcile
from harness.pool.models import Node
from tests.harness.jobs.helpers import age, run_now

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


def test_a_clock_that_was_set_forward_costs_no_run(job, node_make, monkeypatch):
    from harness.jobs.control import reconcile as module

    guard = module.JumpGuard()
    monkeypatch.setattr(module, "_guard", guard)
    node_make()
    attempt = run_now(job)
    reconcile()
    guard._offset_s -= 3600
    age(attempt, seen_at=3600, sent_at=3600, created_at=3600)
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=3600), running=[])
    reconcile()
    job.refresh_from_db()
    assert (job.state, Node.objects.get().state) == ("running", "up")


def test_a_clock_that_was_set_back_hides_no_dead_run(job, node_make):
    node_make()
    attempt = run_now(job)
    age(attempt, seen_at=-3600, sent_at=-3600, created_at=-3600)
    Node.objects.update(heartbeat_at=timezone.now() + timedelta(seconds=3600), running=[])
    reconcile()
    job.refresh_from_db()
    assert (job.state, job.restarts, Node.objects.get().state) == ("queued", 1, "down")
