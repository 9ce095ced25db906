"""Control killed before any write while it takes in the loss of a first node and what another saved: taken once."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress

import pytest
from django.conf import settings

from harness import broker as harness_broker
from harness.database import DATABASE_AWAY
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.models import Checkpoint, DeviceUse, Job, JobAttempt, JobEvent
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import queue, tick_later
from tests.harness.jobs.kill_points import Killed, World, begin_anew, executed, start_anew
from worker.events import lease_key
from worker.plan import RunPaths

pytestmark = pytest.mark.django_db(transaction=True)
NODES = ("node-1", "node-2")
NAME = "step-00000042"
STRIDE = 3
"""Every third write, as in `test_kill_points`."""


@pytest.fixture
def executioner(broker, monkeypatch):
    with executed(cuts=False, monkeypatch=monkeypatch) as found:
        yield found


class Two(World):
    """Two nodes: the first is lost as soon as both train, the other saves when it is asked to."""

    def __init__(self, broker, executioner, root):
        super().__init__(broker, executioner, lasts=True)
        self.root, self.saved = root, 0

    def send_task(self, name, args, queue, expires=None):
        super().send_task(name, [*args, queue], queue)

    def _start(self, plan):
        key = (plan["job_id"], plan["token"])
        if key in self.ran:
            return
        self.ran.append(key)
        for index, node in enumerate(NODES):
            self.broker.set(self._lease(key[0], node), key[1])
            self._tell(*key, "started", 0, rank=-1 - index, sandbox_level=2, node=node)
        self._tell(*key, "running", 0, rank=0)
        if plan["token"] == 1:
            self._gone(*key, "node-1", [])

    def turn(self):
        asked = [args for name, args in self.messages if name == "node.stop" and args[-1] == "node.node-2"]
        self.messages = [message for message in self.messages if message[0] == "node.start"]
        super().turn()
        for job_id, token, how, *_ in asked:
            assert how == "rescue"
            if (job_id, token) not in self.ended:
                self.ended.add((job_id, token))
                self._save()
                self._gone(job_id, token, "node-2", [NAME])

    def _gone(self, job_id, token, node, rescue):
        failure = {"code": "node_lost", "message": "gone"}
        told = {"outcome": "lost", "failure": failure, "node": node, "rescue": rescue}
        self._tell(job_id, token, "exited", 9, rank=-1 - NODES.index(node), **told)
        self.broker.delete(self._lease(job_id, node))

    def _lease(self, job_id, node):
        return lease_key(job_id, "" if node == NODES[0] else node)

    def _save(self):
        self.saved += 1
        place = RunPaths(self.root, "node-2").checkpoints / NAME
        place.mkdir(parents=True)
        (place / "state.pt").write_bytes(b"state")
        files = {"state.pt": {"bytes": 5, "sha256": "0" * 64}}
        body = {"format": 1, "step": 42, "epoch": 1.0, "metric": None, "files": files}
        (place / "MANIFEST.json").write_text(json.dumps(body))


def live(world, again):
    """A round of everything that control does, and of the nodes; safe to do again."""
    again()
    world.turn()
    ingest_module.ingest()
    reconcile()
    world.turn()
    ingest_module.ingest()


def check(job, world):
    job.refresh_from_db()
    first, second = JobAttempt.objects.filter(job=job).order_by("number")
    assert (first.outcome, job.restarts, world.saved) == ("lost", 1, 1)
    assert second.plan["resume_from"] == NAME and second.ended_at is None
    row = Checkpoint.objects.get(job=job)
    assert (row.name, row.step, row.token, row.removed_at) == (NAME, 42, 1, None)
    assert (RunPaths(world.root).checkpoints / NAME / "state.pt").read_bytes() == b"state"
    assert JobEvent.objects.filter(job=job, kind="node_end").count() == len(NODES)
    assert JobEvent.objects.filter(job=job, message__contains="has saved the run").count() == 1
    uses = DeviceUse.objects.filter(job=job, token=1)
    assert uses.count() == uses.values("device").distinct().count() == len(NODES)


def test_a_kill_before_any_write_takes_what_was_saved_once_and_the_run_goes_on_from_it(
    job_make, node_make, people, broker, executioner, monkeypatch
):
    pool_setting_update(user=people.admin, span_nodes=True)
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    draft = Job.objects.filter(pk=job.pk).values().get()
    root = settings.STORE.job(job.pk).root
    at, reached = 1 - STRIDE, True
    while reached:
        at += STRIDE
        begin_anew(job, draft)
        for path in (RunPaths(root).work, root / "parts"):
            shutil.rmtree(path, ignore_errors=True)
        for index, node in enumerate(NODES):
            node_make(node, cpus=1, address=f"10.0.0.{index + 1}")
        world = Two(broker, executioner, root)
        monkeypatch.setattr(harness_broker, "sender", lambda world=world: world)
        executioner.arm(at)
        with suppress(Killed, *DATABASE_AWAY):
            queue(Job.objects.get(pk=job.pk))
            for again in (tick, tick, tick_later):
                live(world, again)
        reached = executioner.count >= at
        executioner.disarm()
        start_anew(broker)
        if Job.objects.get(pk=job.pk).state == "draft":
            queue(Job.objects.get(pk=job.pk))
        for again in (tick, tick, tick_later, tick_later):
            live(world, again)
        check(job, world)
    assert at > 30, "the writes were not counted"
