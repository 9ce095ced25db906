"""Several control processes read events: each stream by one at a time.

Whatever becomes of a reader, nothing is lost, counted twice or taken in out of order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import psycopg
import pytest
import redis
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import OperationalError, connection

from harness.errors import Unavailable
from harness.jobs import readers
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control import streams
from harness.jobs.control.disk import disk_read
from harness.jobs.control.ingest import ingest
from harness.jobs.control.plans import plan_make
from harness.jobs.control.streams import AT_WORK_KEY, AT_WORK_S, FULL_KEY, Lease, lease_name, streams_waiting
from harness.jobs.control.tick import tick
from harness.jobs.models import JobAttempt, JobEvent, MetricPoint
from harness.jobs.readers import Standstill, reading_state, standstill
from harness.pool.models import Device
from tests.harness.jobs.helpers import event, queue, run_now
from tests.waiting import wait_for
from worker.events import CONTROL_STREAM, EVENT_STREAMS_MAX, control_stream, stream_number

STEPS = 40
JOBS = 4


def say(broker, number, told):
    """As a forwarder does."""
    broker.xadd(control_stream(number), {"event": told.to_json()})


def waiting(broker):
    """Events that nobody has taken in."""
    return sum(broker.xlen(control_stream(number)) for number in range(EVENT_STREAMS_MAX))


@pytest.fixture
def running(job_make, node_make):
    """Four runs."""
    node_make(cpus=JOBS)
    jobs = [job_make(resources={"count": 1}) for _ in range(JOBS)]
    for job in jobs:
        run_now(job)
    return jobs


def words_say(broker, running):
    """What the runs say, each in a stream of its own: values, progress, and lines of history, which count each time."""
    for step in range(1, STEPS + 1):
        for number, job in enumerate(running):
            values = {"train/loss": step / 8}
            say(broker, number, event(job, "metric", 3 * step, rank=0, step=step, epoch=0.5, values=values))
            say(broker, number, event(job, "progress", 3 * step + 1, rank=0, step=step, steps_total=STEPS))
            say(broker, number, event(job, "note", 3 * step + 2, rank=0, message=f"step {step}"))


def check(running):
    """All of it was taken in, once and in order."""
    for job in running:
        job.refresh_from_db()
        points = MetricPoint.objects.filter(job=job).order_by("step").values_list("step", "value")
        assert list(points) == [(step, step / 8) for step in range(1, STEPS + 1)]
        notes = JobEvent.objects.filter(job=job, kind="note").order_by("pk").values_list("message", flat=True)
        assert list(notes) == [f"step {step}" for step in range(1, STEPS + 1)]
        assert (job.step, job.last_values) == (STEPS, {"train/loss": STEPS / 8})
        assert JobAttempt.objects.get(job=job).seen_seq["0"] == 3 * STEPS + 2


class Reader:
    """A control process that reads."""

    def __init__(self, broker_url, lease_s, *where):
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "harness.settings", "DLH_REDIS_URL": broker_url}
        argv = [sys.executable, "-m", "tests.harness.jobs.reader_process", str(connection.settings_dict["NAME"])]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self.process = subprocess.Popen([*argv, str(lease_s), *where], cwd=django_settings.BASE_DIR, **pipes)

    def line(self):
        return self.process.stdout.readline().strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Stop reading; (stream, began, ended) of each batch that it took in."""
        return json.loads(self.process.communicate(timeout=240)[0])

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def reader(broker, broker_url):
    """Start readers; they are ended with the test."""
    started = []

    def start(lease_s, *where):
        started.append(Reader(broker_url, lease_s, *where))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.django_db(transaction=True)
def test_two_readers_share_the_streams_and_never_read_one_at_once(running, broker, reader):
    words_say(broker, running)
    readers = [reader(60.0), reader(60.0)]
    assert [each.line() for each in readers] == ["ready"] * 2
    for each in readers:
        each.go_on()
    wait_for(lambda: not waiting(broker), 240.0)
    told = [each.end() for each in readers]
    assert all(told), "one of them read nothing"
    for number in range(JOBS):
        spans = sorted(span[1:] for spans in told for span in spans if span[0] == control_stream(number))
        assert len(spans) == 3 * STEPS / 10
        assert all(end_s <= next_s for (_, end_s), (next_s, _) in pairwise(spans))
    check(running)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_what_a_killed_reader_left_the_other_takes_over_and_nothing_counts_twice(running, broker, reader, where):
    words_say(broker, running)
    doomed, other = reader(3.0, where), reader(3.0)
    assert (doomed.line(), other.line()) == ("ready", "ready")
    doomed.go_on()
    assert doomed.line() == "stands"
    mine = broker.get(lease_name(0))
    assert mine and f"/{doomed.process.pid}/" in mine
    doomed.process.send_signal(signal.SIGKILL)
    doomed.process.wait()
    other.go_on()
    wait_for(lambda: not waiting(broker), 240.0)
    assert {stream for stream, _, _ in other.end()} == {control_stream(number) for number in range(JOBS)}
    check(running)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_reader_that_slept_through_its_lease_changes_nothing_when_it_wakes(running, broker, reader, where):
    words_say(broker, running)
    sleeper, other = reader(3.0, where), reader(3.0)
    assert (sleeper.line(), other.line()) == ("ready", "ready")
    sleeper.go_on()
    assert sleeper.line() == "stands"
    sleeper.process.send_signal(signal.SIGSTOP)
    other.go_on()
    wait_for(lambda: not waiting(broker), 240.0)
    assert CONTROL_STREAM in {stream for stream, _, _ in other.end()}
    sleeper.process.send_signal(signal.SIGCONT)
    sleeper.go_on()
    sleeper.end()
    check(running)


@pytest.mark.django_db
def test_events_of_before_the_update_and_of_whatever_number_of_streams_are_all_read(running, broker, settings):
    """The old single stream is the first; an attempt keeps its stream whatever the settings are by now."""
    settings.EVENT_STREAMS = 2
    for number, job in zip((0, 1, 7, EVENT_STREAMS_MAX - 1), running, strict=True):
        say(broker, number, event(job, "metric", 1, rank=0, step=1, epoch=0, values={"a": 1}))
    assert ingest() == JOBS
    assert MetricPoint.objects.count() == JOBS and not waiting(broker)


@pytest.mark.django_db
def test_a_job_whose_attempts_lie_in_unlike_streams_counts_everything_once(running, broker):
    """A node of it is of a release that knew one stream, or its plan was made by other settings."""
    job = running[0]
    for number in (5, 0, 2):
        for _ in range(2):
            say(broker, number, event(job, "note", 1, rank=number, message=f"rank {number}"))
    assert ingest() == 6
    assert sorted(JobEvent.objects.filter(job=job, kind="note").values_list("message", flat=True)) == [
        "rank 0", "rank 2", "rank 5",
    ]  # fmt: skip


@pytest.mark.django_db
def test_a_plan_names_the_stream_of_its_job_for_all_attempts(job, node_make, settings):
    node_make()
    settings.EVENT_STREAMS = 8
    devices = list(Device.objects.select_related("node"))[:1]
    plans = [plan_make(job, token=token, devices=devices, backend="horovod", disk=disk_read(job)) for token in (1, 2)]
    assert [plan.event_stream for plan in plans] == [stream_number(job.pk, 8)] * 2
    settings.EVENT_STREAMS = 1
    assert plan_make(job, token=3, devices=devices, backend="horovod", disk=disk_read(job)).event_stream == 0


@pytest.mark.django_db
def test_the_stream_that_has_waited_longest_is_read_first(running, broker):
    for entry_id, number in (("9-0", 3), ("10-0", 0), ("10-1", 2), ("11-0", 3)):
        told = event(running[number], "note", int(entry_id[:-2]), rank=0, message="x")
        broker.xadd(control_stream(number), {"event": told.to_json()}, id=entry_id)
    assert [found.number for found in streams_waiting()] == [3, 0, 2]


@pytest.mark.django_db
def test_a_stream_that_another_reads_is_left_to_it_and_the_others_are_read(running, broker):
    for number, job in enumerate(running):
        say(broker, number, event(job, "note", 1, rank=0, message="x"))
    broker.set(lease_name(2), "another")
    assert ingest() == JOBS - 1
    assert [found.number for found in streams_waiting()] == [2]


@pytest.mark.django_db
def test_who_lost_its_lease_stops_reading_after_the_batch(running, broker, monkeypatch):
    monkeypatch.setattr(ingest_module, "BATCH", 1)
    monkeypatch.setattr(streams, "RENEW_EVERY_S", 0.02)
    real, taken = ingest_module._take_in, []

    def robbed(stream, entries):
        real(stream, entries)
        taken.append(len(entries))
        broker.set(lease_name(0), "another")
        wait_for(lambda: held[-1].held is False)

    held = []
    honest = Lease.taken

    def watched(self):
        held.append(self)
        return honest(self)

    monkeypatch.setattr(Lease, "taken", watched)
    monkeypatch.setattr(ingest_module, "_take_in", robbed)
    for seq in (1, 2, 3):
        say(broker, 0, event(running[0], "note", seq, rank=0, message=str(seq)))
    assert ingest() == 1 and taken == [1]
    broker.delete(lease_name(0))
    monkeypatch.setattr(ingest_module, "_take_in", real)
    assert ingest() == 2
    assert JobEvent.objects.filter(kind="note").count() == 3


@pytest.mark.django_db
def test_who_asks_while_this_process_reads_is_heard_after_it(running, broker, monkeypatch):
    real = ingest_module._take_in

    def interrupted(stream, entries):
        monkeypatch.setattr(ingest_module, "_take_in", real)
        real(stream, entries)
        # Behind what is being read, in a stream that was looked at before it.
        say(broker, 0, event(running[0], "note", 1, rank=0, message="late"))
        assert ingest() == 0

    monkeypatch.setattr(ingest_module, "_take_in", interrupted)
    say(broker, 1, event(running[1], "note", 1, rank=0, message="early"))
    assert ingest() == 2
    assert not waiting(broker)


@pytest.mark.django_db
def test_it_is_told_how_far_behind_the_reading_is_and_who_reads(running, broker, settings):
    settings.EVENT_STREAMS = 2
    broker.xadd(control_stream(9), {"event": "x"}, id=f"{broker.time()[0] * 1000 - 60_000}-0")
    say(broker, 1, event(running[1], "note", 1, rank=0, message="x"))
    say(broker, 1, event(running[1], "note", 2, rank=0, message="y"))
    broker.set(lease_name(9), "far/7/abc")
    before = reading_state()
    assert [(stream.number, stream.waiting, stream.reader) for stream in before.streams] == [
        (0, 0, ""), (1, 2, ""), (9, 1, "far/7"),
    ]  # fmt: skip
    assert before.waiting == 3 and before.behind_s == before.streams[2].behind_s >= 60
    assert before.readers == ("far/7",)
    broker.delete(lease_name(9))
    assert ingest() == 3
    after = reading_state()
    assert after.waiting == after.behind_s == 0
    assert after.readers == (streams.reader_name(),)
    assert [stream.reader for stream in after.streams] == ["", streams.reader_name()]


@pytest.mark.django_db
def test_control_is_silent_where_no_process_looks_for_events_any_more(broker, monkeypatch):
    broker.delete(AT_WORK_KEY)
    cache.clear()
    monkeypatch.setattr(readers, "AT_WORK_S", 10**9)
    assert standstill() is None, "the broker is not up for so long itself"
    monkeypatch.setattr(readers, "AT_WORK_S", -1)
    assert standstill() is None, "it was just looked at"
    cache.clear()
    assert standstill() == Standstill(full="")
    cache.clear()
    with monkeypatch.context() as full:
        full.setattr("harness.full_disk._free_bytes", lambda: 4096)
        assert standstill() == Standstill(full="installation"), "where the broker could keep no word of it"
    cache.clear()
    ingest()
    assert 0 < broker.ttl(AT_WORK_KEY) <= AT_WORK_S
    cache.clear()
    assert standstill() is None


@pytest.mark.django_db
def test_who_looks_and_can_write_nothing_down_is_not_at_work_and_says_whose_disk_is_full(running, broker, monkeypatch):
    def refuses(_):
        raise OperationalError("could not extend file") from psycopg.errors.DiskFull("No space left on device")

    broker.delete(AT_WORK_KEY)
    say(broker, 0, event(running[0], "progress", 1, rank=0, step=1, steps_total=STEPS))
    with monkeypatch.context() as full, pytest.raises(OperationalError):
        full.setattr(ingest_module, "telemetry_apply", refuses)
        ingest()
    assert not broker.exists(AT_WORK_KEY) and waiting(broker) == 1
    cache.clear()
    assert standstill() == Standstill(full="database")
    assert ingest() == 1, "there is room again"
    cache.clear()
    assert standstill() is None and broker.exists(AT_WORK_KEY)


@pytest.mark.django_db
def test_who_reads_nothing_as_another_reads_it_all_leaves_the_word_on_control_to_that_one(running, broker):
    say(broker, 0, event(running[0], "note", 1, rank=0, message="x"))
    broker.set(lease_name(0), "another")
    broker.set(FULL_KEY, "database", ex=AT_WORK_S)
    broker.delete(AT_WORK_KEY)
    assert ingest() == 0
    assert broker.get(FULL_KEY) == "database" and not broker.exists(AT_WORK_KEY)
    cache.clear()
    assert standstill() == Standstill(full="database")
    broker.set(AT_WORK_KEY, "another", ex=AT_WORK_S)
    broker.delete(FULL_KEY)
    assert ingest() == 0
    assert broker.get(AT_WORK_KEY) == "another"
    cache.clear()
    assert standstill() is None, "the other one works"
    say(broker, 1, event(running[1], "note", 1, rank=0, message="y"))
    assert ingest() == 1 and broker.get(AT_WORK_KEY) == streams.reader_name()


@pytest.mark.django_db
def test_it_is_told_who_scheduled_last(running, broker, job_make):
    broker.flushdb()
    unknown = reading_state()
    assert (unknown.decided_by, unknown.decided_at_s) == ("", None)
    queue(job_make(resources={"count": 1}))
    tick()
    told = reading_state()
    assert told.decided_by == streams.reader_name() and told.decided_at_s > 1.7e9


@pytest.mark.django_db
def test_without_a_broker_nothing_is_known_of_the_reading_nor_of_control():
    cache.clear()
    with pytest.raises(Unavailable, match="does not answer"):
        reading_state()
    assert standstill() is None


def test_a_broker_that_refuses_us_is_told_from_one_that_does_not_answer(broker, monkeypatch):
    known = broker.connection_pool.connection_kwargs
    place = {name: known.get(name) for name in ("host", "port", "username")} | {"password": "wrong"}
    monkeypatch.setattr(readers, "client", lambda: redis.Redis(**place))
    with pytest.raises(Unavailable, match="refuses the portal's own user or password"):
        reading_state()
