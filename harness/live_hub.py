"""One Redis reader per process, fanned out to all who watch.

A subscriber first reads what it missed from the streams themselves, then follows the reader; what it cannot take fast
enough it reads from the streams again. So nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio
from redis.exceptions import RedisError, ResponseError

from harness.broker import client_async
from worker.events import LIVE_KEEP_S

BLOCK_MS = 500
"""A newly watched stream joins the blocking read within this time."""
RETRY_S = 1.0
ANSWER_S = 3.0
"""What takes so much longer than it should is given up: nothing comes from a broker that hangs, or from behind a cut
network, and no error either."""
AWAY_TOLD_S = 3.0
"""Of a broker that is started again at once nobody need hear."""
QUEUE_LENGTH = 2000
_READ_COUNT = 500
_BEHIND_MS = 5_000
_ID = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_NUMBER_MAX = 2**64 - 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One entry of one stream."""

    stream: str
    id: str
    event: str
    """JSON text."""


def id_key(entry_id: str) -> tuple[int, int]:
    """Stream ids in their order: milliseconds, then number. Raises `ValueError` for what the broker takes for none."""
    match = _ID.fullmatch(entry_id)
    key = (int(match[1]), int(match[2] or 0)) if match else (-1, -1)
    if not 0 <= min(key) <= max(key) <= _NUMBER_MAX:
        raise ValueError(f"{entry_id[:40]!r} is not the id of a stream entry")
    return key


def not_to_come(entry_id: str) -> str:
    """The id, or a moment ago where it lies after that."""
    moment_ago = f"{max(0, int(time.time() * 1000) - _BEHIND_MS)}-0"
    return min(entry_id, moment_ago, key=id_key)


class Subscriber:
    """Follows some streams from given positions (exclusive)."""

    def __init__(self, hub: Hub, positions: dict[str, str]) -> None:
        self._hub = hub
        self.positions = dict(positions)
        self._queue: asyncio.Queue[Entry | None] = asyncio.Queue(QUEUE_LENGTH)
        self._behind = True
        """There is something to read from the streams themselves."""

    def offer(self, entry: Entry) -> None:
        """Take an entry from the reader; where the queue is full, remember to read it from the stream."""
        try:
            self._queue.put_nowait(entry)
        except asyncio.QueueFull:
            self._behind = True

    def wake(self) -> None:
        """Have who waits for entries look up, be there none."""
        with suppress(asyncio.QueueFull):  # then it does so anyway
            self._queue.put_nowait(None)

    def read_again(self) -> None:
        """Read from the streams themselves next, from where it stands."""
        self._behind = True

    async def next_entries(self, timeout_s: float) -> list[Entry]:
        """New entries in order, or none after `timeout_s` or where it is woken.

        Raises `RedisError` while the broker is away.
        """
        if self._behind:
            missed = await self._missed()
            if missed:
                return missed
        with suppress(TimeoutError):
            # not wait_for: before Python 3.12 it can swallow the cancellation of a page that went away
            async with asyncio.timeout(timeout_s):
                entry = await self._queue.get()
            waiting = [entry] + [self._queue.get_nowait() for _ in range(self._queue.qsize())]
            return self._advance([entry for entry in waiting if entry is not None])
        return []

    async def _missed(self) -> list[Entry]:
        self._behind = False
        found: list[Entry] = []
        for stream, position in self.positions.items():
            async with _answered(ANSWER_S):
                answer = await self._hub.client.xrange(stream, min=f"({position}", count=_READ_COUNT)
            rows = _rows(stream, answer)
            found += rows
            self._behind = self._behind or len(rows) == _READ_COUNT
        return self._advance(found)

    def _advance(self, entries: list[Entry]) -> list[Entry]:
        """Those that are new, in order; moves the positions."""
        fresh = []
        for entry in sorted(entries, key=lambda entry: id_key(entry.id)):
            if id_key(entry.id) > id_key(self.positions[entry.stream]):
                self.positions[entry.stream] = entry.id
                fresh.append(entry)
        return fresh


class Hub:
    """The reader of one process (of one event loop)."""

    def __init__(self) -> None:
        self.client: redis.asyncio.Redis = client_async()
        self._watchers: dict[str, set[Subscriber]] = defaultdict(set)
        self._positions: dict[str, str] = {}
        self._away_since_s: float | None = None
        self.is_away = False
        """The broker does not answer, and has not for a while. With nobody who watches it is not known: False."""
        self._task: asyncio.Task[None] | None = None

    async def is_cut(self, stream: str, position: str, *, was_heard: bool) -> bool:
        """Whether entries after the position may be gone: streams have a length and an end, and a broker can lose its
        memory. `was_heard`: the position is that of an entry. Raises `RedisError`."""
        if id_key(position)[0] < (time.time() - LIVE_KEEP_S) * 1000:
            return True
        try:
            told: dict[str, Any] = await self.client.xinfo_stream(stream)
        except ResponseError:  # there is no such stream
            return was_heard
        first = _rows(stream, [told["first-entry"]] if told.get("first-entry") else [])
        is_trimmed = told.get("entries-added", 0) > told["length"]  # told by Redis 7 and Valkey
        return (was_heard or is_trimmed) and bool(first) and id_key(first[0].id) > id_key(position)

    def subscribe(self, positions: dict[str, str]) -> Subscriber:
        """Begin to follow. Call `unsubscribe` at the end."""
        subscriber = Subscriber(self, positions)
        for stream, position in positions.items():
            self._watchers[stream].add(subscriber)
            # All who watch the stream share this position, and browsers name theirs: none may lie in the future.
            self._positions.setdefault(stream, not_to_come(position))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_on(), name="live-reader")
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop following; the reader ends with its last follower."""
        for stream in subscriber.positions:
            self._watchers[stream].discard(subscriber)
            if not self._watchers[stream]:
                del self._watchers[stream]
                self._positions.pop(stream, None)

    async def _read_on(self) -> None:
        try:
            while self._positions:
                await self._read()
        finally:
            self._away_since_s, self.is_away = None, False

    async def _read(self) -> None:
        try:
            positions: dict[Any, Any] = dict(self._positions)
            async with _answered(BLOCK_MS / 1000 + ANSWER_S):
                answer: Any = await self.client.xread(positions, count=_READ_COUNT, block=BLOCK_MS)
        except RedisError as error:
            _log.warning("live reader: %s", error)
            self._note(answers=False)
            await asyncio.sleep(RETRY_S)
            return
        self._note(answers=True)
        for entry in _entries(answer):
            if entry.stream in self._positions:
                self._positions[entry.stream] = entry.id
            for subscriber in list(self._watchers.get(entry.stream, ())):
                subscriber.offer(entry)

    def _note(self, *, answers: bool) -> None:
        """Keep whether the broker answers; all who watch look up where that is new."""
        now_s = time.monotonic()
        if answers:
            self._away_since_s = None
        elif self._away_since_s is None:
            self._away_since_s = now_s
        is_away = self._away_since_s is not None and now_s - self._away_since_s >= AWAY_TOLD_S
        if is_away == self.is_away:
            return
        self.is_away = is_away
        for subscriber in {one for watchers in self._watchers.values() for one in watchers}:
            subscriber.wake()


@asynccontextmanager
async def _answered(within_s: float) -> AsyncIterator[None]:
    """Raises `RedisError`, too, where no answer comes."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError as error:
        raise redis.exceptions.TimeoutError(f"the broker does not answer within {within_s:g} s") from error


def _rows(stream: str, rows: Any) -> list[Entry]:
    return [Entry(stream, entry_id, (fields or {}).get("event", "")) for entry_id, fields in rows or ()]


def _entries(answer: Any) -> list[Entry]:
    """Entries of an XREAD answer in either protocol's shape, in their order over all streams."""
    streams = answer.items() if isinstance(answer, dict) else answer or ()
    found = []
    for stream, rows in streams:
        found += _rows(stream, rows[0] if rows and isinstance(rows[0], list) else rows)
    return sorted(found, key=lambda entry: id_key(entry.id))


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


async def is_cut(positions: dict[str, str], heard: Collection[str]) -> bool:
    """Whether some of what came after the positions cannot be read any more; unknown while the broker is away. `heard`
    are the streams whose position is that of an entry."""
    own = hub()
    if own.is_away:
        return False
    with suppress(RedisError):
        async with _answered(ANSWER_S):
            for stream, position in positions.items():
                if await own.is_cut(stream, position, was_heard=stream in heard):
                    return True
    return False


async def follow(positions: dict[str, str], *, idle_s: float) -> AsyncGenerator[list[Entry], None]:
    """Batches of new entries in order; an empty batch after `idle_s` without any.

    While the broker is away batches are empty, the first of them at once where that is known; afterwards it goes on
    where it was.
    """
    own = hub()
    subscriber = own.subscribe(positions)
    try:
        if own.is_away:
            yield []
        while True:
            try:
                entries = await subscriber.next_entries(idle_s)
            except RedisError as error:
                _log.warning("live subscriber: %s", error)
                subscriber.read_again()
                await asyncio.sleep(RETRY_S)
                entries = []
            yield entries
    finally:
        own.unsubscribe(subscriber)
