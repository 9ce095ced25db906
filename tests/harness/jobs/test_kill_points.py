"""Portal and control killed before any write of theirs: no job is lost, none runs twice, and the end is the same.

A killed process is played by an error that nothing catches, raised at one write to the database or the broker and at
all that follow; what had not been committed is rolled back, as a database does when a client is gone. On PostgreSQL the
same is tried with a server that cuts the connection there, as one does that is restarted.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db import connection

from harness import broker as harness_broker
from harness.database import DATABASE_AWAY
from harness.jobs import services
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, Job, JobAttempt, MetricPoint
from harness.pool.models import SchedulerTurn
from harness.rates.submitting import job_submit
from tests.harness.jobs.kill_points import Killed, World, begin_anew, executed, start_anew

pytestmark = pytest.mark.django_db(transaction=True)
HISTORY = {
    "train": ["queued", "placed", "running", "succeeded"],
    "cancel": ["queued", "placed", "running", "cancelling", "cancelled"],
    "pause": ["queued", "placed", "running", "pausing", "paused"],
}
STRIDE = 4
"""Every fourth write: most writes are the same in all three lives, and each begins at another one."""


@pytest.fixture(params=["killed", "cut off"])
def executioner(request, broker, monkeypatch):
    cuts = request.param == "cut off"
    if cuts and connection.vendor != "postgresql":
        pytest.skip("only a server cuts connections: PostgreSQL runs this")
    with executed(cuts, monkeypatch) as found:
        yield found


def live(job, act, world, user):
    """All that portal and control do for a job, from its submission to its end; safe to do again at any point."""
    job.refresh_from_db()
    if job.state == "draft":
        job_submit(user=user, job=job)
    tick()
    world.turn()
    ingest_module.ingest()
    job.refresh_from_db()
    if act != "train" and job.state == "running":
        {"cancel": services.job_cancel, "pause": services.job_pause}[act](user=user, job=job)
    reconcile()
    world.turn()
    ingest_module.ingest()


def check(job, act, world):
    job.refresh_from_db()
    told = list(job.events.filter(kind="state").order_by("pk").values_list("new_state", flat=True))
    assert told == HISTORY[act]
    assert world.ran == [(job.pk, 1)], "it ran twice, or not at all"
    assert (job.token, job.restarts, JobAttempt.objects.filter(job=job).count()) == (1, 0, 1)
    assert not Allocation.objects.exists() and not JobAttempt.objects.filter(ended_at=None).exists()
    assert not SchedulerTurn.objects.filter(busy=True).exists()
    uses = DeviceUse.objects.filter(job=job)
    assert uses.count() == uses.values("device").distinct().count() > 0
    assert MetricPoint.objects.get(job=job).value == 0.5
    assert Checkpoint.objects.get(job=job).step == 5


@pytest.mark.parametrize("act", list(HISTORY))
def test_a_kill_before_any_write_loses_no_job_and_runs_none_twice(
    act, job_make, node_make, people, broker, executioner, monkeypatch
):
    job = job_make(resources={"device": "cpu", "count": 1})
    draft = Job.objects.filter(pk=job.pk).values().get()
    at, reached = list(HISTORY).index(act) + 1 - STRIDE, True
    while reached:
        at += STRIDE
        begin_anew(job, draft)
        node_make()
        world = World(broker, executioner, lasts=act != "train")
        monkeypatch.setattr(harness_broker, "sender", lambda world=world: world)
        executioner.arm(at)
        with suppress(Killed, *DATABASE_AWAY):
            live(job, act, world, people.owner)
        reached = executioner.count >= at
        executioner.disarm()
        start_anew(broker)
        for _ in range(2):
            live(job, act, world, people.owner)
        check(job, act, world)
    assert at > 20, "the writes were not counted"
