"""Control killed before any write while a run becomes narrower and wider: never more ranks than devices, none twice.

The node of this world knows no devices, only ranks, as a real one does with CPU cores: that it never has more of them
than it has cores is the rule that every other promise about a device rests on.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from harness import broker as harness_broker
from harness.database import DATABASE_AWAY
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, DeviceUse, Job, JobAttempt
from tests.harness.jobs.helpers import queue
from tests.harness.jobs.kill_points import Killed, World, begin_anew, executed, start_anew

pytestmark = pytest.mark.django_db(transaction=True)
CORES = 2
STRIDE = 5
"""Every fifth write, as in `test_kill_points`: a life has more than a hundred."""


@pytest.fixture
def executioner(broker, monkeypatch):
    with executed(cuts=False, monkeypatch=monkeypatch) as found:
        yield found


class Cores(World):
    """Also obeys wishes about the width, the newest one, and counts who runs."""

    def __init__(self, broker, executioner):
        super().__init__(broker, executioner, lasts=True)
        self.slots, self.wishes, self.seq = {}, {}, 100

    def turn(self):
        resizes = [args for name, args in self.messages if name == "node.resize"]
        super().turn()
        for job_id, token, number, slots in resizes:
            if (job_id, token) not in self.slots or number < self.wishes.get((job_id, token), 0):
                continue
            self.wishes[job_id, token] = number
            self.slots[job_id, token] = set(slots)
            self.look()
            self.seq += 1
            self._tell(job_id, token, "width", self.seq, number=number, ranks=sorted(slots), step=5)

    def _start(self, plan):
        self.slots.setdefault((plan["job_id"], plan["token"]), {rank["rank"] for rank in plan["ranks"]})
        super()._start(plan)
        self.look()

    def _end(self, job_id, token, outcome):
        self.slots.pop((job_id, token), None)
        super()._end(job_id, token, outcome)

    def finish(self, job_id):
        self._end(job_id, 1, "succeeded")

    def look(self):
        assert sum(map(len, self.slots.values())) <= CORES, f"two ranks on a core: {self.slots}"


def control_lives(world):
    """A round of everything that control does, and of the node."""
    tick()
    world.turn()
    ingest_module.ingest()
    reconcile()
    world.turn()
    ingest_module.ingest()


def live(jobs, world):
    """The wide one begins, the urgent one takes a core and ends, the wide one grows back; safe to do again."""
    wide, urgent = jobs
    for _ in range(2):
        control_lives(world)
    if Job.objects.get(pk=wide.pk).state == "running" and Job.objects.get(pk=urgent.pk).state == "draft":
        Job.objects.filter(pk=urgent.pk).update(priority=50)
        queue(Job.objects.get(pk=urgent.pk))
    for _ in range(2):
        control_lives(world)
    if (urgent.pk, 1) in world.ran:
        world.finish(urgent.pk)
    for _ in range(2):
        control_lives(world)


def settled(jobs, world):
    """Nothing is left to be done."""
    wide, urgent = jobs
    attempt = JobAttempt.objects.filter(job=wide).first()
    grown = bool(attempt) and attempt.width.get("done") and world.slots.get((wide.pk, 1)) == {0, 1}
    return grown and Job.objects.get(pk=urgent.pk).state == "succeeded"


def check(jobs, world):
    wide, urgent = (Job.objects.get(pk=job.pk) for job in jobs)
    assert (wide.state, wide.token, wide.restarts) == ("running", 1, 0)
    assert (urgent.state, urgent.token) == ("succeeded", 1)
    assert sorted(world.ran) == sorted([(wide.pk, 1), (urgent.pk, 1)])
    attempt = JobAttempt.objects.get(job=wide)
    assert attempt.width["done"] and attempt.width["changes"] >= 2
    assert world.slots[wide.pk, 1] == set(attempt.width["slots"]) == {0, 1}
    assert Allocation.objects.filter(attempt=attempt).count() == Allocation.objects.count() == CORES
    assert DeviceUse.objects.filter(job=wide).count() == 1
    notes = [row.message for row in wide.events.filter(kind="note") if "width" in row.data]
    assert len(notes) == attempt.width["changes"]


def test_a_kill_before_any_write_of_a_change_of_width_leaves_no_core_with_two_ranks(
    job_make, node_make, broker, executioner, monkeypatch
):
    wide = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    urgent = job_make(name="urgent", resources={"device": "cpu", "count": 1})
    drafts = [Job.objects.filter(pk=job.pk).values().get() for job in (wide, urgent)]
    at, reached = 1 - STRIDE, True
    while reached:
        at += STRIDE
        for job, draft in zip((wide, urgent), drafts, strict=True):
            begin_anew(job, draft)
        node_make(cpus=CORES)
        world = Cores(broker, executioner)
        monkeypatch.setattr(harness_broker, "sender", lambda world=world: world)
        executioner.arm(at)
        with suppress(Killed, *DATABASE_AWAY):
            queue(Job.objects.get(pk=wide.pk))
            live((wide, urgent), world)
        reached = executioner.count >= at
        executioner.disarm()
        start_anew(broker)
        if Job.objects.get(pk=wide.pk).state == "draft":
            queue(Job.objects.get(pk=wide.pk))
        lives = 0
        while not settled((wide, urgent), world) and (lives := lives + 1) <= 3:
            live((wide, urgent), world)
        control_lives(world)  # changes nothing any more
        check((wide, urgent), world)
    assert at > 60, "the writes were not counted"
