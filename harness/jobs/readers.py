"""How far the reading of runs' events is, and which control processes do that and schedule. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from django.conf import settings
from django.core.cache import cache

from harness.broker import client
from harness.full_disk import INSTALLATION, is_full_here
from harness.jobs.control.streams import (
    AT_WORK_KEY,
    AT_WORK_S,
    DECIDED_BY_KEY,
    FULL_KEY,
    READ_BY_KEY,
    id_of,
    lease_name,
)
from harness.pool.broker_users import broker_trouble
from worker.events import EVENT_STREAMS_MAX, control_stream

_STANDSTILL_KEY = "control-standstill"
LOOKED_S = 10
"""A portal process looks so often whether control is silent, however many pages ask."""


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """One stream of events."""

    number: int
    waiting: int
    """Events that are not taken in yet."""
    behind_s: float
    """Age of the oldest of them; 0: none."""
    reader: str
    """Control process (`host/process id`) that reads it, or did last; empty: none yet."""
    read_at_s: float | None
    """When that one last took something in (Unix time, by its clock)."""


@dataclass(frozen=True, kw_only=True)
class Standstill:
    """No control process takes in what nodes report: no job starts, and pages show what was."""

    full: str
    """Whose disk is full, for that reason: `installation`, `database` or `broker`; empty: none works for a minute."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """All of them."""

    streams: tuple[StreamState, ...]
    """Those that new attempts write to, and others that hold events."""
    readers: tuple[str, ...]
    """Control processes that read a stream now, or took events in within the last minute."""
    decided_by: str = ""
    """Control process that decided last which jobs run; empty: none since the broker started."""
    decided_at_s: float | None = None
    """When that was (Unix time, by its clock)."""

    @property
    def waiting(self) -> int:
        """Events that are not taken in yet."""
        return sum(stream.waiting for stream in self.streams)

    @property
    def behind_s(self) -> float:
        """Of the stream that is farthest behind."""
        return max((stream.behind_s for stream in self.streams), default=0.0)


def standstill() -> Standstill | None:
    """Why control takes nothing in, as it was ten seconds ago at the earliest; None: it does.

    None, too, where the broker does not answer, or is not up for a minute itself: then nobody can tell.
    """
    looked = cache.get(_STANDSTILL_KEY)
    if looked is None:
        looked = _looked()
        cache.set(_STANDSTILL_KEY, looked, timeout=LOOKED_S)
    is_silent, full = looked
    return Standstill(full=full) if is_silent or full else None


def _looked() -> tuple[bool, str]:
    """(whether no control process has taken in for a minute what there was, whose disk is full)."""
    try:
        with client().pipeline(transaction=False) as pipe:
            pipe.exists(AT_WORK_KEY)
            pipe.info("server")
            pipe.get(FULL_KEY)
            at_work, server, full = pipe.execute()
    except redis.RedisError:
        return False, ""
    is_silent = not at_work and server["uptime_in_seconds"] > AT_WORK_S
    # A broker on the same disk keeps no word of control about it.
    return is_silent, full or (INSTALLATION if is_silent and is_full_here() else "")


def reading_state() -> Reading:
    """How it stands now. Raises `Unavailable` where the broker does not answer, or refuses us."""
    numbers = range(EVENT_STREAMS_MAX)
    try:
        with client().pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.hgetall(READ_BY_KEY)
            pipe.get(DECIDED_BY_KEY)
            for number in numbers:
                pipe.xlen(control_stream(number))
                pipe.xrange(control_stream(number), count=1)
                pipe.get(lease_name(number))
            (seconds, micros), read_by, decided, *answers = pipe.execute()
    except redis.RedisError as error:
        raise broker_trouble(error) from error
    now_s = seconds + micros / 1e6
    found = zip(numbers, answers[0::3], answers[1::3], answers[2::3], strict=True)
    states = [_state(*told, str(read_by.get(str(told[0]), "")), now_s) for told in found]
    reads = [bool(holder) for holder in answers[2::3]]
    at_work = {state.reader for state, now in zip(states, reads, strict=True) if now or _was_lately(state, now_s)}
    shown = [state for state in states if state.number < settings.EVENT_STREAMS or state.waiting]
    decided_at, _, decided_by = (decided or "").partition(" ")
    return Reading(
        streams=tuple(shown),
        readers=tuple(sorted(at_work)),
        decided_by=decided_by,
        decided_at_s=float(decided_at) if decided_at else None,
    )


def _was_lately(state: StreamState, now_s: float) -> bool:
    return state.read_at_s is not None and now_s - state.read_at_s < AT_WORK_S


def _state(number: int, waiting: int, rows: list[Any], holder: str | None, read_by: str, now_s: float) -> StreamState:
    at, _, last = read_by.partition(" ")
    return StreamState(
        number=number,
        waiting=waiting,
        behind_s=max(0.0, now_s - id_of(rows[0][0])[0] / 1000) if rows else 0.0,
        reader=holder.rpartition("/")[0] if holder else last,
        read_at_s=float(at) if at else None,
    )
