"""Ingest: read the stream of events and hand them on: `telemetry` of all runs at once, the rest to `effects` by job.

An entry is acknowledged after its effects are committed; what was read and not acknowledged is read again first.
Acknowledged entries are deleted: the stream holds only what control has still to do, however much a program says.
"""

from __future__ import annotations

import logging
from collections import defaultdict

import redis

from harness.broker import client
from harness.database import DATABASE_AWAY
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reading import event_read
from harness.jobs.control.telemetry import telemetry_apply
from worker.events import CONTROL_STREAM, Event

GROUP = "control"
CONSUMER = "control"
"""One name for every control process: the lock lets one read at a time, and it finds what the last one left."""
BATCH = 1000
BATCHES_MAX = 50
LOCK_S = 15
"""A process that dies, or a broker that restarts, leaves the lock behind: so long nothing is taken in. Two readers at
once would do no harm, since an event that was seen before is dropped."""
_log = logging.getLogger(__name__)


def ingest() -> int:
    """Take in all events there are; return how many were read. Does nothing where another process does it now."""
    lock = client().lock("dlh:ingest", timeout=LOCK_S)
    if not lock.acquire(blocking=False):
        return 0
    count = 0
    try:
        position = "0"
        for _ in range(BATCHES_MAX):
            entries = _read(position)
            if not entries and position == ">":
                break
            # "0": what was handed out before and not acknowledged; then what is new.
            if not entries:
                position = ">"
                continue
            _take_in(entries)
            count += len(entries)
            lock.reacquire()
    finally:
        try:
            lock.release()
        except redis.exceptions.LockError:
            _log.warning("ingest took longer than its lock")
    return count


def _read(position: str) -> list[tuple[str, dict[str, str]]]:
    try:
        answer = client().xreadgroup(GROUP, CONSUMER, {CONTROL_STREAM: position}, count=BATCH)
    except redis.ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        # First use, or the broker lost its memory.
        client().xgroup_create(CONTROL_STREAM, GROUP, id="0", mkstream=True)
        return _read(position)
    streams = answer.items() if isinstance(answer, dict) else answer or []
    return [(entry_id, fields or {}) for _, entries in streams for entry_id, fields in _flat(entries)]


def _flat(entries: list) -> list[tuple[str, dict[str, str]]]:  # type: ignore[type-arg]
    """Entries, whatever nesting this version of the client answers with."""
    if entries and isinstance(entries[0], list):
        return [entry for part in entries for entry in part]
    return entries


def _take_in(entries: list[tuple[str, dict[str, str]]]) -> None:
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
    client().xack(CONTROL_STREAM, GROUP, *ids)
    client().xdel(CONTROL_STREAM, *ids)


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
