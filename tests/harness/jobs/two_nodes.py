"""A job of two ranks on two nodes of one core each; fixtures are imported by the modules that use them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.models import JobAttempt
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import event, place_now


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


def ended(attempt, node, outcome, failure=None, **more):
    """The node tells the end of its part."""
    index = ["node-1", "node-2"].index(node)
    data = {"outcome": outcome, "failure": failure, "node": node, **more}
    events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-1 - index, **data)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def started(attempt):
    """Both parts have started; the first step is made."""
    both = [
        event(attempt.job, "started", 0, rank=-1 - index, sandbox_level=2 - index, node=f"node-{index + 1}")
        for index in (0, 1)
    ]
    events_apply(attempt.job_id, [*both, event(attempt.job, "running", 0, rank=0)])
    attempt.refresh_from_db()
    attempt.job.refresh_from_db()


def age(attempt, seconds):
    """It was sent, and last heard of, so long ago."""
    then = timezone.now() - timedelta(seconds=seconds)
    JobAttempt.objects.filter(pk=attempt.pk).update(sent_at=then, seen_at=then)
