"""A clock that is set while jobs run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control import clock
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


@pytest.mark.parametrize(("began_steady", "waits_s", "may_lose"), [
    (True, (1, clock.PAUSE_S, clock.PAUSE_S), [True, True, True]),
    (True, (1, clock.PAUSE_S + 0.1, 1), [True, False, False]),
    (True, (clock.PAUSE_S + 0.1, 1, 1), [False, False, False]),
    (False, (1, 1, 1), [False, False, False]),
])  # fmt: skip
def test_a_round_that_stood_still_between_two_checks_loses_nobody_any_more(
    monkeypatch, began_steady, waits_s, may_lose
):
    now_s = 1000.0
    monkeypatch.setattr(clock, "since_start_s", lambda: now_s)
    steady, found = clock.Steady(began_steady, now_s), []
    for wait_s in waits_s:
        now_s += wait_s
        found.append(steady.recheck())
    assert found == may_lose
