"""How fast bytes arrive, and whether that is too slow to go on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from harness.fetches.trouble import FetchTrouble

WINDOW_S = 8.0
SLOW_S = 60.0
SLOW_BYTES = 256 << 10
"""Less than this in `SLOW_S`, and the slot is given to somebody else."""


class Pace:
    """Of one connection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._points = deque([(clock(), 0)])
        self._checked_s, self._checked_bytes = clock(), 0
        self.arrived_bytes = 0

    def add(self, count: int) -> None:
        """So many bytes have come. Raises `FetchTrouble` where it has been too slow for too long."""
        now_s = self._clock()
        self.arrived_bytes += count
        self._points.append((now_s, self.arrived_bytes))
        while len(self._points) > 2 and now_s - self._points[0][0] > WINDOW_S:
            self._points.popleft()
        if now_s - self._checked_s < SLOW_S:
            return
        if self.arrived_bytes - self._checked_bytes < SLOW_BYTES:
            raise FetchTrouble(
                "too_slow", f"The server sends less than {SLOW_BYTES >> 10} KiB per minute; the fetch was given up."
            )
        self._checked_s, self._checked_bytes = now_s, self.arrived_bytes

    @property
    def rate_bytes_s(self) -> float:
        """Over the last few seconds."""
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0
