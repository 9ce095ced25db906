"""Tells when the wall clock was set, or the host slept: times in the database then say nothing about who is alive."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

JUMP_S = 5.0
"""A step of the wall clock against the monotonic one that is no mere correction."""
SETTLE_S = 30.0
"""Time after a jump in which all who live speak again (heartbeats 5 s, leases 4 s)."""


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
