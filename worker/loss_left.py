"""When a loss has left for good: it ends a sweep of a range test, and tells afterwards why a sweep was short.

Pure: the node asks after each step, `scheduler.rates.interval` of the losses that were noted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

AVERAGE_DECAY = 0.8
START_STEPS = 10
"""The average after so many steps is the start: the rates until then are too small to do anything."""
LEFT_FALLS = 1.5
"""The loss has left for good when its average is above the start by this many of its falls so far ..."""
LEFT_SHARE = 0.5
"""... and by this share of the start."""


class LossWatch:
    """The losses of one sweep, step by step."""

    def __init__(self) -> None:
        self._steps = 0
        self._average, self._start, self._lowest = math.nan, math.nan, math.inf

    def has_left(self, value: float) -> bool:
        """Whether the loss has left with this one, of the next step."""
        if not math.isfinite(value):
            return True
        self._steps += 1
        first = math.isnan(self._average)
        self._average = value if first else AVERAGE_DECAY * self._average + (1.0 - AVERAGE_DECAY) * value
        if self._steps <= START_STEPS:
            self._start = self._average
        self._lowest = min(self._lowest, self._average)
        limit = max(LEFT_FALLS * (self._start - self._lowest), LEFT_SHARE * abs(self._start))
        return self._average > self._start + limit


def left_at_end(losses: Iterable[float]) -> bool:
    """Whether the loss of a sweep had left when it ended."""
    watch, left = LossWatch(), False
    for value in losses:
        left = watch.has_left(value)
    return left
