"""How often something happened recently, so that rare faults of a long run do not add up to a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

FORGOTTEN_S = 3600.0
"""After so long without another time it counts from one again."""


class Recent:
    """Counts by who it happened to."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: dict[int, tuple[int, float]] = {}
        """Who -> (how often, when last)."""

    def again(self, who: int) -> int:
        """It has happened once more; how often so far."""
        now_s = self._clock()
        count, last_s = self._times.get(who, (0, now_s))
        count = 1 if now_s - last_s > FORGOTTEN_S else count + 1
        self._times[who] = count, now_s
        return count

    def forget(self, who: int) -> None:
        """As if it never had."""
        self._times.pop(who, None)

    def __iter__(self) -> Iterator[int]:
        """To whom it ever happened."""
        return iter(self._times)
