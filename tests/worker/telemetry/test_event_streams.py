"""Which stream an attempt's events go to, and that everything it says goes there."""

from __future__ import annotations

import json
import os
import random
import signal
import string
import time
from collections import Counter
from dataclasses import replace

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.conftest import JobFixture, wait_for
from worker import agent, registry
from worker.events import (
    CONTROL_STREAM,
    EVENT_STREAMS_MAX,
    LIVE_KEEP_S,
    Event,
    EventKind,
    control_stream,
    job_stream,
    stream_number,
)
from worker.plan import RunPlan
from worker.telemetry import forward
from worker.telemetry.forward import Forwarder

FOREVER = """
step = 1
while not paused():
    tell("progress", step=step, phase="train")
    time.sleep(0.05); step += 1
"""
STREAM = 3
job_ids = st.text(st.characters(codec="utf-8"), max_size=12)


@given(job_id=job_ids, streams=st.integers(1, EVENT_STREAMS_MAX))
def test_every_job_has_one_stream_that_control_looks_at(job_id: str, streams: int) -> None:
    number = stream_number(job_id, streams)
    assert 0 <= number < streams and number == stream_number(job_id, streams)
    assert control_stream(number).startswith(CONTROL_STREAM)


@given(job_ids)
def test_with_one_stream_all_lies_where_every_release_looks(job_id: str) -> None:
    assert control_stream(stream_number(job_id, 1)) == CONTROL_STREAM == "dlh:events"


@given(st.integers())
def test_jobs_are_spread_over_the_streams_about_evenly(seed: int) -> None:
    draw = random.Random(seed)
    found = ["".join(draw.choices(string.ascii_lowercase + string.digits, k=12)) for _ in range(1000)]
    counts = Counter(stream_number(job_id, 8) for job_id in found)
    # Six times the spread of a fair draw.
    assert all(125 - 63 < counts[number] < 125 + 63 for number in range(8))


def test_the_partition_is_the_same_in_every_release() -> None:
    """Numbers written down: a plan made anew after an update must not send a job's words elsewhere."""
    assert [stream_number(job_id, 8) for job_id in ("abcdefghijkl", "k3v9qz0p1x7m", "")] == PLACES


PLACES = [4, 6, 0]


def test_no_two_streams_have_one_name_and_none_lies_where_nobody_looks() -> None:
    assert len({control_stream(number) for number in range(EVENT_STREAMS_MAX)}) == EVENT_STREAMS_MAX
    for number in (-1, EVENT_STREAMS_MAX):
        with pytest.raises(ValueError, match="no stream"):
            control_stream(number)


def test_a_plan_for_the_first_stream_is_one_that_older_nodes_read(job: JobFixture) -> None:
    assert "event_stream" not in job.plan().to_dict()
    assert RunPlan.from_dict(job.plan().to_dict()).event_stream == 0
    assert RunPlan.from_dict(json.loads(job.plan(event_stream=STREAM).to_json())).event_stream == STREAM


def heard(job: JobFixture, number: int) -> list[Event]:
    """What control finds in a stream."""
    entries = redis.Redis.from_url(job.url).xrange(control_stream(number))
    return [Event.from_json(fields[b"event"]) for _, fields in entries]


def test_all_that_an_attempt_says_lies_in_the_stream_of_its_plan_and_in_order(home: str, job: JobFixture) -> None:
    job.run('[tell("progress", step=step) for step in range(1, 40)]', event_stream=STREAM)
    wait_for(lambda: heard(job, STREAM) and heard(job, STREAM)[-1].kind == "exited")
    told = heard(job, STREAM)
    assert not heard(job, 0)
    assert [event.data["step"] for event in told if event.kind == "progress"] == list(range(1, 40))
    assert {"started", "running"} <= {str(event.kind) for event in told}


def test_what_a_run_says_to_control_is_counted_without_a_gap_whatever_else_it_says(home: str, job: JobFixture) -> None:
    job.run('[(print(step, flush=True), tell("progress", step=step)) for step in range(1, 40)]', event_stream=STREAM)
    wait_for(lambda: heard(job, STREAM) and heard(job, STREAM)[-1].kind == "exited")
    told = heard(job, STREAM)
    assert [event.sent for event in told] == list(range(len(told)))


def note(number: int) -> Event:
    return Event(kind=EventKind.NOTE, job_id="job", token=1, rank=0, seq=number, time_s=0.0, data={"message": "m"})


def counted(client: redis.Redis) -> list[tuple[int, int | None]]:
    """(seq, sent) of all that control finds."""
    told = [Event.from_json(fields[b"event"]) for _, fields in client.xrange(CONTROL_STREAM)]
    return [(event.seq, event.sent) for event in told]


def test_what_is_sent_once_more_after_a_cut_keeps_its_number(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "RETRY_S", 0.01)
    cuts = iter([redis.ConnectionError("the answer was lost")])
    real = redis.client.Pipeline.execute

    def execute(self: redis.client.Pipeline, *rest: object) -> object:
        answer = real(self, *rest)
        for cut in cuts:
            raise cut
        return answer

    monkeypatch.setattr(redis.client.Pipeline, "execute", execute)
    forwarder = Forwarder(broker_url, "job", 1)
    forwarder.send([note(0), note(1)])
    assert forwarder.close(60.0)
    assert counted(client) == [(0, 0), (1, 1), (0, 0), (1, 1)]


def test_what_did_not_fit_while_the_broker_was_away_leaves_a_gap(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "BUFFER_EVENTS", 3)
    monkeypatch.setattr(Forwarder, "_send_batch", lambda self, client: 0)
    forwarder = Forwarder(broker_url, "job", 1)
    forwarder.send([note(number) for number in range(5)])
    monkeypatch.undo()
    assert forwarder.close(60.0)
    assert counted(client) == [(2, 2), (3, 3), (4, 4)]


def test_long_words_that_wait_for_the_broker_do_not_fill_the_nodes_memory(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "BUFFER_BYTES", 20_000)
    monkeypatch.setattr(Forwarder, "_send_batch", lambda self, client: 0)
    forwarder = Forwarder(broker_url, "job", 1)
    lines = replace(note(0), kind=EventKind.LOG, data={"rank": 0, "stream": "stdout", "lines": ["x" * 15_000]})
    forwarder.send([lines, note(0)])
    forwarder.send([lines, note(1)])
    forwarder.send([replace(note(number), data={"message": "y" * 15_000}) for number in (2, 3)])
    monkeypatch.undo()
    assert forwarder.close(60.0)
    assert counted(client) == [(3, 3)], "lines go first, then the oldest of the rest, counted"
    kinds = [Event.from_json(fields[b"event"].decode()).kind for _, fields in client.xrange(job_stream("job"))]
    assert kinds == [EventKind.NOTE]


def test_long_words_are_sent_a_few_at_a_time(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one go of 64 MiB a slow line would keep the lease from being renewed, and a cut one begin all of it again."""
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "BATCH_BYTES", 20_000)
    sizes: list[int] = []
    real = redis.client.Pipeline.execute

    def execute(self: redis.client.Pipeline, *rest: object) -> object:
        sizes.append(sum(len(str(command)) for command in self.command_stack))
        return real(self, *rest)

    monkeypatch.setattr(redis.client.Pipeline, "execute", execute)
    forwarder = Forwarder(broker_url, "job", 1)
    lines = {"rank": 0, "stream": "stdout", "lines": ["x" * 8_000]}
    forwarder.send([replace(note(number), kind=EventKind.LOG, data=lines) for number in range(9)])
    forwarder.send([replace(note(9), data={"message": "y" * 30_000})])
    assert forwarder.close(60.0)
    assert client.xlen(job_stream("job")) == 10 and counted(client) == [(9, 0)]
    assert max(sizes[:-1]) < 25_000, "but for one that is longer by itself"


def test_the_end_is_told_however_long_the_words_before_it_take_over_a_slow_line(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "BATCH_EVENTS", 1)
    monkeypatch.setattr(forward, "LOOK_S", 0.05)
    real = redis.client.Pipeline.execute

    def execute(self: redis.client.Pipeline, *rest: object) -> object:
        time.sleep(0.2)
        return real(self, *rest)

    monkeypatch.setattr(redis.client.Pipeline, "execute", execute)
    forwarder = Forwarder(broker_url, "job", 1)
    forwarder.send([note(number) for number in range(12)])
    assert forwarder.close(1.0), "twelve times 0.2 s, but never 1 s without a word"
    assert [seq for seq, _ in counted(client)] == list(range(12))


def test_further_nodes_of_a_run_and_agents_count_nothing(broker_url: str) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    for forwarder in (Forwarder(broker_url, "job", 1, "node-2"), Forwarder(broker_url, "job", 1, leased=False)):
        forwarder.send([note(0)])
        assert forwarder.close(60.0)
    assert counted(client) == [(0, None), (0, None)]


def test_the_end_that_the_agent_tells_for_a_killed_supervisor_follows_what_that_one_said(
    home: str, job: JobFixture
) -> None:
    job.program(FOREVER)
    assert job.start(job.plan(event_stream=STREAM))
    wait_for(lambda: [event for event in heard(job, STREAM) if event.kind == "progress"])
    (entry,) = registry.entries()
    os.kill(entry.pid, signal.SIGKILL)
    wait_for(lambda: not agent.sweep())
    assert heard(job, STREAM)[-1].kind == "exited" and heard(job, STREAM)[-1].data["outcome"] == "lost"
    assert not heard(job, 0)


def test_a_stop_that_comes_after_the_end_is_answered_behind_it(home: str, job: JobFixture) -> None:
    job.run('tell("checkpoint", name="step-00000001", step=1)', event_stream=STREAM)
    wait_for(lambda: not agent.sweep())
    assert not agent.attempt_stop(job.job_id, 1, "pause", STREAM)
    told = [event for event in heard(job, STREAM) if event.kind == "exited"]
    assert [event.data["outcome"] for event in told] == ["succeeded", "paused"]
    assert not heard(job, 0)


def test_the_live_words_of_a_job_that_says_no_more_do_not_stay_in_the_brokers_memory(broker_url: str) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    forwarder = Forwarder(broker_url, "job", 1)
    told = Event(kind=EventKind.NOTE, job_id="job", token=1, rank=0, seq=0, time_s=0.0, data={"message": "m"})
    forwarder.send([told])
    assert forwarder.close(60.0)
    assert client.xlen(job_stream("job")) == 1
    assert 0 < client.ttl(job_stream("job")) <= LIVE_KEEP_S
    assert client.ttl(CONTROL_STREAM) == -1, "what control has still to read must stay"


def test_long_words_of_a_job_do_not_fill_the_brokers_memory(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "JOB_BYTES", 200_000)
    forwarder = Forwarder(broker_url, "job", 1)
    short = [note(number) for number in range(600)]
    long = [replace(told, data={"message": "m" * 10_000}) for told in short]
    forwarder.send([*short, *long])
    wait_for(lambda: len(counted(client)) == 1200)
    kept = [fields[b"event"] for _, fields in client.xrange(job_stream("job"))]
    assert 150_000 < sum(map(len, kept)) < 250_000 and len(kept) < 30
    forwarder.send(short)
    assert forwarder.close(60.0)
    kept = [fields[b"event"] for _, fields in client.xrange(job_stream("job"))]
    assert sum(map(len, kept)) < 250_000 and len(kept) > 500, "short ones have room again"
    assert len(counted(client)) == 1800, "what control has still to read must stay"


def test_tries_that_fail_while_the_broker_is_away_take_no_room_from_the_live_stream(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "JOB_BYTES", 200_000)
    monkeypatch.setattr(forward, "RETRY_S", 0.01)
    cuts: list[Exception] = []
    real = redis.client.Pipeline.execute

    def execute(self: redis.client.Pipeline, *rest: object) -> object:
        if cuts:
            raise cuts.pop()
        return real(self, *rest)

    monkeypatch.setattr(redis.client.Pipeline, "execute", execute)
    forwarder = Forwarder(broker_url, "job", 1)
    forwarder.send([note(number) for number in range(600)])
    wait_for(lambda: client.xlen(job_stream("job")) == 600)
    cuts += [redis.ConnectionError("the broker is away")] * 3
    forwarder.send([replace(note(number), data={"message": "m" * 10_000}) for number in range(8)])
    assert forwarder.close(60.0) and not cuts
    assert client.xlen(job_stream("job")) == 608


def test_a_fault_that_nobody_foresaw_does_not_end_the_forwarding(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis.from_url(broker_url)
    client.flushall()
    monkeypatch.setattr(forward, "RETRY_S", 0.01)
    faults = iter([RuntimeError("dictionary changed size during iteration")])
    real = Forwarder._renew

    def renew(self: Forwarder, to: redis.Redis) -> None:
        for fault in faults:
            raise fault
        real(self, to)

    monkeypatch.setattr(Forwarder, "_renew", renew)
    forwarder = Forwarder(broker_url, "job", 1)
    forwarder.send([Event(kind=EventKind.NOTE, job_id="job", token=1, rank=0, seq=0, time_s=0.0)])
    assert forwarder.close(60.0)
    assert client.xlen(job_stream("job")) == 1
