"""`Load`: how much of some like things is planned for, as a share of them."""

from __future__ import annotations

import math
from array import array

import numpy as np

_EPSILON = 1e-9
"""Sums of shares are not that wrong."""


class Load:
    """What is planned for, as a sum: it is entered often, and asked as often at most."""

    __slots__ = (
        "_above_until_s", "_all_now", "_below", "_ends_s", "_entered_s", "_now_s", "_starts_s", "_widths",
    )  # fmt: skip

    def __init__(self, now_s: float) -> None:
        """Nothing is planned."""
        self._now_s = now_s
        self._widths, self._starts_s, self._ends_s = array("d"), array("d"), array("d")
        self._all_now = True
        """Nothing was entered for later."""
        self._above_until_s: dict[float, float] = {}
        """Share -> moment until which more than that is held; see `is_above`."""
        self._entered_s = 0.0
        """Device seconds of all entries that end."""
        self._below: dict[tuple[float, int], tuple[float, float]] = {}
        """(share, doublings of the time until a moment) -> (moment from which less is held, `_entered_s` below
        which that is certain)."""

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """Enter `width` from `start_s` to `end_s`."""
        start_s = max(start_s, self._now_s)
        self._widths.append(width)
        self._starts_s.append(start_s)
        self._ends_s.append(end_s)
        self._all_now = self._all_now and start_s <= self._now_s
        if math.isinf(end_s):
            self._below.clear()
        else:
            self._entered_s += width * (end_s - start_s)

    def is_above(self, limit: float, total: float, until_s: float) -> bool:
        """Whether `used_share` is more than a limit, below 1.

        What starts now only becomes less with time, and entries only become more: a share that was above the limit
        until some moment stays above it until all earlier ones, and one that was below it until all later ones, as long
        as no more is entered than was missing.
        """
        if until_s <= self._above_until_s.get(limit, -math.inf) or math.isinf(until_s):
            return True
        key = (limit, math.frexp(until_s - self._now_s)[1])
        since_s, most_s = self._below.get(key, (math.inf, 0.0))
        if since_s <= until_s and self._entered_s < most_s:
            return False
        share = self.used_share(total, until_s)
        if self._all_now and share > limit * (1.0 + _EPSILON):
            self._above_until_s[limit] = until_s
        elif self._all_now and share < limit * (1.0 - _EPSILON):
            missing_s = (limit * (1.0 - _EPSILON) - share) * total * (until_s - self._now_s)
            self._below[key] = (until_s, self._entered_s + missing_s)
        return share > limit

    def used_share(self, total: float, until_s: float) -> float:
        """Share of `total` that is held from now to `until_s`."""
        span_s = until_s - self._now_s
        if span_s <= 0 or total <= 0 or math.isinf(until_s):
            return 1.0
        if not self._widths:
            return 0.0
        held_s = np.minimum(np.frombuffer(self._ends_s), until_s)
        held_s -= np.frombuffer(self._starts_s)
        np.maximum(held_s, 0.0, out=held_s)
        return float(np.frombuffer(self._widths) @ held_s) / (total * span_s)
