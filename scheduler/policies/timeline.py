"""`Timeline`: how many of some like things are free from now on, as a step function of time; `Load`: their use.

`Brief` is the same as `Timeline` for few things: on a node of eight devices lists are faster than arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np

_FIRST_SIZE = 32
_EPSILON_S = 1e-6


class Timeline:
    """Free things over time. Step i lasts from `times[i]` to `times[i + 1]`, the last one for ever."""

    __slots__ = ("_free", "_size", "_times", "floor")

    def __init__(self, now_s: float, total: float) -> None:
        """All of them are free."""
        self._times = np.empty(_FIRST_SIZE)
        self._free = np.empty(_FIRST_SIZE)
        self._times[0], self._free[0] = now_s, total
        self._size = 1
        self.floor = total
        """Free at every moment."""

    @property
    def free_now(self) -> float:
        """Free in the first step."""
        return float(self._free[0])

    def earliest(self, width: float, run_s: float, latest_s: float, from_s: float = -math.inf) -> float:
        """First start from `from_s` on such that `width` are free for all of `run_s`; infinite after `latest_s`."""
        times, free, size = self._times, self._free, self._size
        start = max(float(times[0]), from_s)
        if width <= self.floor:
            return start if start <= latest_s else math.inf
        if latest_s <= times[0] and free[0] < width:
            return math.inf
        step = 0 if from_s <= times[0] else int(times[:size].searchsorted(from_s, "right")) - 1
        fits = free[step:size] >= width
        first = 0
        while True:
            rest = fits[first:]
            first += int(rest.argmax())
            if not fits[first]:
                return math.inf
            start = max(start, float(times[step + first]))
            if start > latest_s:
                return math.inf
            gap = int(fits[first:].argmin())
            if fits[first + gap] or times[step + first + gap] >= start + run_s - _EPSILON_S:
                return start
            first += gap

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """Hold `width` from `start_s` to `end_s`; the caller has looked that they are free."""
        if end_s <= start_s:
            return
        first = self._step(start_s)
        last = self._size if math.isinf(end_s) else self._step(end_s)
        held = self._free[first:last]
        held -= width
        self.floor = min(self.floor, float(np.minimum.reduce(held)))

    def settle(self) -> None:
        """Work `floor` out anew, after `take` of less than nothing."""
        self.floor = float(self._free[: self._size].min())

    def ready(self, most: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """[w]: since when at least w things are free for good, for w from 0 to `most`; infinite: never."""
        free = self._free[: self._size]
        for_good = np.minimum.accumulate(free[::-1])[::-1]
        steps = for_good.searchsorted(np.arange(most + 1))
        return np.append(self._times[: self._size], np.inf)[steps]

    def _step(self, time_s: float) -> int:
        """Index of the step that starts at `time_s`; made if there is none."""
        size = self._size
        if time_s <= self._times[0]:
            return 0
        index = int(self._times[:size].searchsorted(time_s))
        if index < size and self._times[index] == time_s:
            return index
        if size == len(self._times):
            self._times = np.concatenate([self._times, np.empty(size)])
            self._free = np.concatenate([self._free, np.empty(size)])
        self._times[index + 1 : size + 1] = self._times[index:size]
        self._free[index + 1 : size + 1] = self._free[index:size]
        self._times[index] = time_s
        self._free[index] = self._free[index - 1]
        self._size = size + 1
        return index


class Brief:
    """As `Timeline`, of few steps."""

    __slots__ = ("_free", "_times", "floor")

    def __init__(self, now_s: float, total: float) -> None:
        """All of them are free."""
        self._times = [now_s]
        self._free = [total]
        self.floor = total
        """Free at every moment."""

    @property
    def free_now(self) -> float:
        """Free in the first step."""
        return self._free[0]

    def earliest(self, width: float, run_s: float, latest_s: float, from_s: float = -math.inf) -> float:
        """See `Timeline.earliest`."""
        times, free = self._times, self._free
        start, size = max(times[0], from_s), len(times)
        if width <= self.floor:
            return start if start <= latest_s else math.inf
        first = 0 if from_s <= times[0] else bisect_right(times, from_s) - 1
        while True:
            while first < size and free[first] < width:
                first += 1
            if first == size:
                return math.inf
            start = max(start, times[first])
            if start > latest_s:
                return math.inf
            while first < size and free[first] >= width:
                first += 1
            if first == size or times[first] >= start + run_s - _EPSILON_S:
                return start

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """See `Timeline.take`."""
        if end_s <= start_s:
            return
        first = self._step(start_s)
        last = len(self._times) if math.isinf(end_s) else self._step(end_s)
        held = [count - width for count in self._free[first:last]]
        self._free[first:last] = held
        self.floor = min(self.floor, *held)

    def ready(self, most: int) -> list[float]:
        """See `Timeline.ready`."""
        found = [math.inf] * (most + 1)
        for_good = math.inf
        for time_s, free in zip(reversed(self._times), reversed(self._free), strict=True):
            for_good = min(for_good, free)
            count = max(0, min(most, math.floor(for_good)) + 1)
            found[:count] = [time_s] * count
        return found

    def _step(self, time_s: float) -> int:
        times = self._times
        if time_s <= times[0]:
            return 0
        index = bisect_left(times, time_s)
        if index == len(times) or times[index] != time_s:
            times.insert(index, time_s)
            self._free.insert(index, self._free[index - 1])
        return index


class Load:
    """What is planned for, as a sum: it is asked seldom, and entered often."""

    __slots__ = ("_now_s", "_rows", "_size")

    def __init__(self, now_s: float) -> None:
        """Nothing is planned."""
        self._now_s = now_s
        self._rows = np.empty((3, _FIRST_SIZE))
        """Width, start, end."""
        self._size = 0

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """Enter `width` from `start_s` to `end_s`."""
        if self._size == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)], axis=1)
        self._rows[:, self._size] = (width, start_s, end_s)
        self._size += 1

    def used_share(self, total: float, until_s: float) -> float:
        """Share of `total` that is held from now to `until_s`."""
        span_s = until_s - self._now_s
        if span_s <= 0 or total <= 0 or math.isinf(until_s):
            return 1.0
        width, start_s, end_s = self._rows[:, : self._size]
        held_s = np.minimum(end_s, until_s) - np.maximum(start_s, self._now_s)
        return float(width @ np.maximum(held_s, 0.0)) / (total * span_s)
