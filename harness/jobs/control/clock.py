"""Tells when the wall clock was set, the host slept, or control itself stood still: then times say nothing about who is
alive."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

JUMP_S = 5.0
"""A step of the wall clock against the monotonic one that is no mere correction."""
SETTLE_S = 30.0
"""Time after a jump in which all who live speak again (heartbeats 5 s, leases 4 s)."""


_log = logging.getLogger(__name__)


@dataclass
class JumpGuard:
    """Pure but for what it remembers; one per process, for all its threads."""

    _offset_s: float | None = None
    _settled_s: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def steady(self, wall_s: float, monotonic_s: float) -> bool:
        """Whether ages by the wall clock can be believed now."""
        with self._lock:
            offset_s = wall_s - monotonic_s
            if self._offset_s is not None and abs(offset_s - self._offset_s) > JUMP_S:
                self._settled_s = monotonic_s + SETTLE_S
            self._offset_s = offset_s
            return monotonic_s >= self._settled_s


PAUSE_S = 8.0
"""A round of control that stood still for longer judges nobody any more: what it knew before is out of date."""


def since_start_s() -> float:
    """Seconds since the host was started, those asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Steady:
    """Whether a round that began steady may still call somebody lost."""

    _is_steady: bool
    _checked_s: float = field(default_factory=since_start_s)

    def recheck(self) -> bool:
        """Whether it may: never again once two calls lay more than `PAUSE_S` apart. Ask after each reading of facts."""
        now_s = since_start_s()
        if self._is_steady and now_s - self._checked_s > PAUSE_S:
            _log.warning("control stood still: nobody is called lost until all had time to speak")
            self._is_steady = False
        self._checked_s = now_s
        return self._is_steady


def moment_within(moment_s: float, earliest: datetime, latest: datetime) -> datetime:
    """The moment, or the nearer end of the span where a node's clock lies outside it."""
    moment_s = min(max(moment_s, earliest.timestamp()), latest.timestamp())
    return max(earliest, datetime.fromtimestamp(moment_s, tz=UTC))
