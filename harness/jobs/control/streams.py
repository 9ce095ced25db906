"""The streams of events: which of them wait, and who reads one. Of one stream one process reads at a time.

A job's events all lie in one stream (`RunPlan.event_stream`), so the order within an attempt is that of its stream. No
process has streams of its own: whoever is free takes the one whose oldest event has waited longest, so that any
number of control processes share the work, and what a dead one left is taken up by the next.
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis
from redis.exceptions import LockError
from redis.lock import Lock

from harness.broker import client
from harness.lease_renewer import LeaseRenewer
from worker.events import EVENT_STREAMS_MAX, control_stream

LEASE_S = 6.0
"""Of a reader that died nobody reads the stream for so long. Two readers at once would do no harm: of what both took in
the second finds its marks moved (`marks`), and takes in nothing."""
RENEW_EVERY_S = 1.5
MOST_RENEWALS = 80
"""Two minutes for one batch, which takes a fraction of a second; a database that is away ends it sooner."""
READ_BY_KEY = "dlh:ingest:by"
"""Hash: stream -> who read it last, for people."""
DECIDED_BY_KEY = "dlh:scheduler:by"
"""Who decided last which jobs run, and when, for people."""
AT_WORK_KEY, AT_WORK_S = "dlh:ingest:at-work", 60
"""Which process took in a stream last, or found that nothing waited, for so long: gone where none does. By the broker's
clock alone."""
BEHIND_S = 5.0
"""Words that wait for longer are behind: a reader takes them in every second."""
FULL_KEY = "dlh:ingest:full"
"""Whose disk is full (`harness.full_disk`), as who tried last to take events in found; else it is not there."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A stream that holds events."""

    number: int
    first: tuple[int, int]
    """Id of the oldest: milliseconds of Unix time by the broker's clock, and a count."""


def lease_name(number: int) -> str:
    """The lock of a stream; that of the first is the one that releases with a single stream know."""
    return f"dlh:ingest:{number}" if number else "dlh:ingest"


def reader_name() -> str:
    """This process."""
    return f"{socket.gethostname()}/{os.getpid()}"


def streams_waiting() -> list[Waiting]:
    """Streams with events, the one whose oldest has waited longest first. Raises `redis.RedisError`.

    It looks at all that there may be: an attempt keeps its stream, whatever the settings are by now.
    """
    with client().pipeline(transaction=False) as pipe:
        for number in range(EVENT_STREAMS_MAX):
            pipe.xrange(control_stream(number), count=1)
        answers = pipe.execute()
    found = [Waiting(number=number, first=id_of(rows[0][0])) for number, rows in enumerate(answers) if rows]
    return sorted(found, key=lambda waiting: waiting.first)


def is_behind(number: int, *, steady: bool) -> bool:
    """Whether words of a stream have waited for a while and are being taken in, or may soon be: what else tells of its
    runs would overtake them. `steady`: there was time to begin since control could not be heard."""
    try:
        with client().pipeline(transaction=False) as pipe:
            pipe.xrange(control_stream(number), count=1)
            pipe.time()
            pipe.hget(READ_BY_KEY, str(number))
            rows, (now_s, _), read = pipe.execute()
    except redis.RedisError:
        return False
    if not rows or now_s - id_of(rows[0][0])[0] / 1000 < BEHIND_S:
        return False
    return not steady or (read is not None and abs(time.time() - float(read.partition(" ")[0])) < AT_WORK_S)


def id_of(text: str) -> tuple[int, int]:
    """Of an entry, in order: milliseconds of Unix time, and a count."""
    at_ms, _, count = text.partition("-")
    return int(at_ms), int(count)


class Lease:
    """The right to read a stream, while `held`."""

    def __init__(self, number: int) -> None:
        """Nothing is taken yet."""
        self.number, self.held = number, False
        self._lock = Lock(client(), lease_name(number), timeout=LEASE_S, thread_local=False)
        self._renewer = LeaseRenewer(self._renewed, every_s=RENEW_EVERY_S, most=MOST_RENEWALS)

    def got_on(self) -> None:
        """A batch was taken in."""
        self._renewer.got_on()

    def _renewed(self) -> bool:
        try:
            self._lock.reacquire()
        except LockError:
            self.held = False
        except redis.RedisError as error:
            _log.warning("cannot renew the lease of stream %d yet: %s", self.number, error)
        return self.held

    @contextmanager
    def taken(self) -> Iterator[Lease]:
        """Hold it for the block, unless another process does (`held` is False then)."""
        self.held = self._lock.acquire(blocking=False, token=f"{reader_name()}/{uuid.uuid4().hex}")
        if not self.held:
            yield self
            return
        try:
            with self._renewer:
                yield self
        finally:
            self.held = False
            try:
                self._lock.release()
            except LockError:
                _log.warning("reading stream %d took longer than its lease", self.number)
