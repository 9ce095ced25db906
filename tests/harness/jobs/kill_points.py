"""Processes that are killed before a write of theirs, and the world around them, for tests of kill points."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from harness import broker as harness_broker
from harness.jobs.control import ingest as ingest_module
from harness.jobs.models import Allocation, Checkpoint, DeviceUse, Job, JobAttempt, JobEvent, MetricPoint
from harness.pool.models import SchedulerTurn
from tests.harness.jobs.helpers import event
from worker.events import CONTROL_STREAM

_NO_WRITE = ("SELECT", "SAVEPOINT", "RELEASE", "ROLLBACK", "BEGIN", "PRAGMA")


class Killed(BaseException):
    """No `except Exception` of the product may catch it."""


class Executioner:
    """Counts writes; kills before number `at`, and lets nothing through afterwards until `disarm`.

    With `cuts` it has the server cut the connection instead, once.
    """

    def __init__(self, cuts):
        self.at = self.count = 0
        self.cuts = cuts

    def arm(self, at):
        self.at, self.count = at, 0

    def disarm(self):
        self.at = 0

    def write(self):
        self.count += 1
        self.refuse()
        if self.cuts and self.count == self.at:
            cut_connection()

    def refuse(self):
        if self.at and self.count >= self.at and not self.cuts:
            raise Killed

    def __call__(self, execute, sql, params, many, context):
        if not sql.lstrip().upper().startswith(_NO_WRITE):
            self.write()
        else:
            self.refuse()
        return execute(sql, params, many, context)


def cut_connection():
    """As the server does to all its clients when it is restarted."""
    if connection.connection is None:
        return
    other, pid = connection.copy(), connection.connection.info.backend_pid
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        alive = True
        while alive:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid])
            alive = cursor.fetchone()[0] > 0
    other.close()


class Client:
    """The broker's client; every command counts as a write."""

    def __init__(self, real, executioner):
        self.real, self.executioner = real, executioner

    def __getattr__(self, name):
        found = getattr(self.real, name)

        def command(*args, **more):
            self.executioner.write()
            return found(*args, **more)

        return found if name == "lock" else command


class World:
    """A node as control sees it: it starts each attempt once, and says what becomes of it."""

    def __init__(self, broker, executioner, lasts):
        self.broker, self.executioner, self.lasts = broker, executioner, lasts
        self.messages, self.ran, self.ended = [], [], set()

    def send_task(self, name, args, queue, expires=None):
        self.executioner.write()
        self.messages.append((name, args))

    def turn(self):
        for name, args in self.messages:
            if name == "node.start":
                self._start(args[0])
            elif name == "node.stop" and (args[0], args[1]) in self.ran:
                self._end(args[0], args[1], "cancelled" if args[2] == "cancel" else "paused")
        self.messages.clear()

    def _start(self, plan):
        key = (plan["job_id"], plan["token"])
        if key in self.ran:
            return
        self.ran.append(key)
        self._tell(*key, "started", 0, sandbox_level=3, node="node-1")
        self._tell(*key, "running", 0, rank=0)
        self._tell(*key, "metric", 1, rank=0, step=5, epoch=1.0, values={"val/accuracy": 0.5})
        self._tell(*key, "checkpoint", 2, rank=0, name="step-00000005", step=5, epoch=1.0, metric=0.5, bytes=3)
        if not self.lasts:
            self._end(*key, "succeeded")

    def _end(self, job_id, token, outcome):
        if (job_id, token) not in self.ended:
            self.ended.add((job_id, token))
            self._tell(job_id, token, "exited", 9, outcome=outcome, failure=None, node="node-1")

    def _tell(self, job_id, token, kind, seq, rank=-1, **data):
        told = event(Job(pk=job_id), kind, seq, rank=rank, token=token, **data)
        self.broker.xadd(CONTROL_STREAM, {"event": told.to_json()})


@contextmanager
def executed(cuts, monkeypatch):
    """An executioner through whose hands every write to the database and the broker goes."""
    found = Executioner(cuts)
    client = Client(harness_broker.client(), found)
    monkeypatch.setattr(ingest_module, "client", lambda: client)
    with monkeypatch.context() as patch, connection.execute_wrapper(found):
        patch.setattr(harness_broker, "client", lambda: client)
        yield found


def start_anew(broker):
    """New processes, a while later."""
    connection.close()
    broker.delete("dlh:ingest")
    before = timezone.now() - timedelta(seconds=60)
    SchedulerTurn.objects.update(taken_at=before)
    JobAttempt.objects.filter(ended_at=None, started_at=None).update(created_at=before)
    JobAttempt.objects.filter(ended_at=None, started_at=None).exclude(sent_at=None).update(sent_at=before)


def begin_anew(job, draft):
    """The same draft as before: to make one takes longer than all that is tried with it."""
    for rows in (Allocation, JobAttempt, DeviceUse, MetricPoint, Checkpoint, JobEvent):
        rows.objects.all().delete()
    Job.objects.filter(pk=job.pk).update(**draft)
