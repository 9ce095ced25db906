"""Ingest: read streams of events and hand them on: `telemetry` of all runs at once, the rest to `effects` by job.

An entry is acknowledged after its effects are committed; what was read and not acknowledged is read again first.
Acknowledged entries are deleted: a stream holds only what control has still to do, however much a program says.
Any number of control processes do it at once, each on another stream (`streams`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from contextlib import suppress

import redis

from harness.broker import client
from harness.database import DATABASE_AWAY
from harness.full_disk import full_disk_of
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reading import event_read
from harness.jobs.control.streams import (
    AT_WORK_KEY,
    AT_WORK_S,
    FULL_KEY,
    READ_BY_KEY,
    Lease,
    reader_name,
    streams_waiting,
)
from harness.jobs.control.telemetry import telemetry_apply
from worker.events import Event, control_stream

GROUP = "control"
CONSUMER = "control"
"""One name for every control process: the lease lets one read at a time, and it finds what the last one left."""
BATCH = 1000
BATCHES_OF_ONE = 5
"""Then it is the turn of the stream that has waited longest."""
BATCHES_MAX = 50
_here, _again = threading.Lock(), threading.Event()
"""A process reads one stream at a time: its threads would only wait for each other. Who asks meanwhile is heard."""
_log = logging.getLogger(__name__)


def ingest() -> int:
    """Take in the events there are; return how many were read. Leaves out what another process reads now."""
    if not _here.acquire(blocking=False):
        _again.set()
        return 0
    try:
        return _ingest()
    except Exception as error:
        if place := full_disk_of(error):
            with suppress(redis.RedisError):
                client().set(FULL_KEY, place, ex=AT_WORK_S)
        raise
    finally:
        _here.release()


def _ingest() -> int:
    count, left, more = 0, BATCHES_MAX, True
    while left > 0 and more:
        _again.clear()
        more = False
        there = streams_waiting()
        if not there:
            _is_at_work()
        for waiting in there:
            most = min(left, BATCHES_OF_ONE)
            drained = _drain(waiting.number, most) if most else None
            if drained is None:
                continue
            read, batches = drained
            count, left, more = count + read, left - batches, more or batches == most
            _is_at_work()
        more = more or _again.is_set()
    return count


def _is_at_work() -> None:
    """Say so: who looks and can write nothing down is not, nor who finds but what another process reads."""
    with client().pipeline(transaction=False) as pipe:
        pipe.set(AT_WORK_KEY, reader_name(), ex=AT_WORK_S)
        pipe.delete(FULL_KEY)
        pipe.execute()


def _drain(number: int, most: int) -> tuple[int, int] | None:
    """Take in one stream; (entries, batches), the latter at most `most`. None where another process reads it."""
    count = batches = 0
    stream, position = control_stream(number), "0"
    with Lease(number).taken() as lease:
        if not lease.held:
            return None
        while lease.held and batches < most:
            entries = _read(stream, position)
            if not entries and position == ">":
                break
            # "0": what was handed out before and not acknowledged; then what is new.
            if not entries:
                position = ">"
                continue
            _take_in(stream, entries)
            lease.got_on()
            count, batches = count + len(entries), batches + 1
        if batches:
            client().hset(READ_BY_KEY, str(number), f"{time.time():.3f} {reader_name()}")
    return count, batches


def _read(stream: str, position: str) -> list[tuple[str, dict[str, str]]]:
    try:
        answer = client().xreadgroup(GROUP, CONSUMER, {stream: position}, count=BATCH)
    except redis.ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        # First use, or the broker lost its memory.
        client().xgroup_create(stream, GROUP, id="0", mkstream=True)
        return _read(stream, position)
    streams = answer.items() if isinstance(answer, dict) else answer or []
    return [(entry_id, fields or {}) for _, entries in streams for entry_id, fields in _flat(entries)]


def _flat(entries: list) -> list[tuple[str, dict[str, str]]]:  # type: ignore[type-arg]
    """Entries, whatever nesting this version of the client answers with."""
    if entries and isinstance(entries[0], list):
        return [entry for part in entries for entry in part]
    return entries


def _take_in(stream: str, entries: list[tuple[str, dict[str, str]]]) -> None:
    by_job: dict[str, list[Event]] = defaultdict(list)
    for entry_id, fields in entries:
        try:
            event = event_read(fields.get("event", ""))
        except ValueError as error:
            _log.warning("dropped entry %s: %s", entry_id, error)
            continue
        by_job[event.job_id].append(event)
    done = telemetry_apply(by_job)
    for job_id, events in by_job.items():
        if job_id not in done:
            _apply(job_id, events)
    ids = [entry_id for entry_id, _ in entries]
    # Both or neither: an entry that is acknowledged and still there would look like one that waits, for ever.
    with client().pipeline(transaction=True) as pipe:
        pipe.xack(stream, GROUP, *ids)
        pipe.xdel(stream, *ids)
        pipe.execute()


def _apply(job_id: str, events: list[Event]) -> None:
    """All at once; where one of them is poison, one by one without it. A database that is away is not poison."""
    try:
        events_apply(job_id, events)
    except DATABASE_AWAY:
        raise
    except Exception:
        _log.exception("events of job %s: taking them one by one", job_id)
        for event in events:
            try:
                events_apply(job_id, [event])
            except DATABASE_AWAY:
                raise
            except Exception:
                _log.exception("dropped event %s %s of job %s", event.kind, event.seq, job_id)
