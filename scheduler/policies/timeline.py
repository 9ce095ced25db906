"""`Timeline`: how many of some like things are free from now on, as a step function of time.

`Brief` is the same as `Timeline` for few things: on a node of eight devices lists are faster than arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

import numpy as np

_FIRST_SIZE = 32
_FEW = 4
"""So many entries are made one by one; of more, all steps are counted anew."""
EPSILON_S = 1e-6


class Timeline:
    """Free things over time. Step i lasts from `times[i]` to `times[i + 1]`, the last one for ever."""

    __slots__ = ("_first", "_floor", "_free", "_is_rough", "_least", "_steps", "_taken", "free_now")

    def __init__(self, now_s: float, total: float) -> None:
        """All of them are free."""
        self._steps = [now_s]
        """`_times`, but for what was taken since somebody asked for these."""
        self._taken: list[tuple[float, float, float]] = []
        """(how many, start, end) of that: in a pool with room left nobody asks, and then nobody counts."""
        self._free = np.empty(_FIRST_SIZE)
        """Longer than `_steps`: what is beyond means nothing yet."""
        self._free[0] = total
        self._first = total
        """Free in the first step."""
        self._floor = total
        """Free at every moment, or less than that where it is rough."""
        self._is_rough = False
        self._least: list[float] = []
        """Of each step after the first: free there and in all between; empty: not known since a `take`."""
        self.free_now = total
        """Free in the first step, and not lent."""

    @property
    def _times(self) -> list[float]:
        """Starts of all steps; `_free` is up to date then."""
        if len(self._taken) > _FEW:
            self._count_anew()
        elif self._taken:
            for width, start_s, end_s in self._taken:
                self._enter(width, start_s, end_s)
            self._taken = []
        return self._steps

    @property
    def floor(self) -> float:
        """Free at every moment."""
        if self._is_rough:
            size = len(self._times)
            self._floor = float(np.minimum.reduce(self._free[:size]))
            self._is_rough = False
        return self._floor

    @property
    def at_last(self) -> float:
        """Free in the last step."""
        last = len(self._times) - 1
        return float(self._free[last])

    def earliest(self, width: float, run_s: float, latest_s: float, from_s: float = -math.inf) -> float:
        """First start from `from_s` on such that `width` are free for all of `run_s`; infinite after `latest_s`."""
        now_s = self._steps[0]
        start = max(now_s, from_s)
        if latest_s <= now_s and self.free_now < width:
            return math.inf
        if width <= self._floor or width <= self.floor:
            return start if start <= latest_s else math.inf
        times = self._times
        step = 0 if from_s <= times[0] else bisect_right(times, from_s) - 1
        fits = self._free[step : len(times)] >= width
        first = 0
        while True:
            rest = fits[first:]
            first += int(rest.argmax())
            if not fits[first]:
                return math.inf
            start = max(start, times[step + first])
            if start > latest_s:
                return math.inf
            gap = int(fits[first:].argmin())
            if fits[first + gap] or times[step + first + gap] >= start + run_s - EPSILON_S:
                return start
            first += gap

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """Hold `width` from `start_s` to `end_s`; the caller has looked that they are free."""
        if end_s <= start_s:
            return
        self._taken.append((width, start_s, end_s))
        # The least of the steps is looked for when somebody asks.
        self._floor -= width
        self._is_rough = True
        self._least = []
        if start_s <= self._steps[0]:
            self._first -= width
            self.free_now = self._first

    def _enter(self, width: float, start_s: float, end_s: float) -> None:
        first = self._step(start_s)
        last = len(self._steps) if math.isinf(end_s) else self._step(end_s)
        self._free[first:last] -= width

    def _count_anew(self) -> None:
        """Make the steps of all that was there and all that was taken at once."""
        size = len(self._steps)
        widths, starts_s, ends_s = np.array(self._taken).T
        ends = np.isfinite(ends_s)
        moments_s = np.concatenate([self._steps, np.maximum(starts_s, self._steps[0]), ends_s[ends]])
        changes = np.concatenate([np.diff(self._free[:size], prepend=0.0), -widths, widths[ends]])
        times_s, step = np.unique(moments_s, return_inverse=True)
        self._free = np.bincount(step, weights=changes).cumsum()
        self._steps = times_s.tolist()
        self._taken = []

    def give(self, width: float, start_s: float, end_s: float) -> None:
        """Undo a `take`, or a part of its time."""
        floor = self._floor
        self.take(-width, start_s, end_s)
        self._floor = min(floor, self._floor)

    def steps(self, start_s: float, end_s: float) -> list[tuple[float, float, float]]:
        """(start, end, how many are free) of each step between two moments."""
        times = self._times
        spans = zip(times, [*times[1:], math.inf], self._free[: len(times)], strict=True)
        found = ((max(first_s, start_s), min(last_s, end_s), float(free)) for first_s, last_s, free in spans)
        return [step for step in found if step[0] < step[1]]

    def least(self, start_s: float, end_s: float) -> float:
        """Free at every moment from then to then; the second is later."""
        times = self._times
        first = max(0, bisect_right(times, start_s) - 1)
        return float(np.minimum.reduce(self._free[first : max(first + 1, bisect_left(times, end_s))]))

    def next_s(self, time_s: float) -> float:
        """The first moment after that at which the number changes; infinite: none."""
        times = self._times
        step = bisect_right(times, time_s)
        return times[step] if step < len(times) else math.inf

    def lend(self, width: float) -> None:
        """Give things away until the next decision, once all is planned: they are free for nobody else now."""
        self.free_now -= width

    def ready(self, most: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """[w]: since when at least w things are free for good, for w from 0 to `most`; infinite: never."""
        times = self._times
        for_good = np.minimum.accumulate(self._free[: len(times)][::-1])[::-1]
        steps = for_good.searchsorted(np.arange(most + 1))
        return np.append(times, np.inf)[steps]

    def stays_free(self, width: float, for_s: float) -> bool:
        """Whether `width` are free now, and for so long."""
        if self.free_now < width or for_s <= 0:
            return self.free_now >= width
        times = self._times
        if not self._least:
            self._least = np.minimum.accumulate(self._free[1 : len(times)]).tolist()
        steps = bisect_left(times, times[0] + for_s)
        return steps < 2 or self._least[steps - 2] >= width

    def _step(self, time_s: float) -> int:
        """Index of the step that starts at `time_s`; made if there is none."""
        times, size = self._steps, len(self._steps)
        if time_s <= times[0]:
            return 0
        index = bisect_left(times, time_s)
        if index < size and times[index] == time_s:
            return index
        if size == len(self._free):
            self._free = np.concatenate([self._free, np.empty(size)])
        self._free[index + 1 : size + 1] = self._free[index:size]
        self._free[index] = self._free[index - 1]
        times.insert(index, time_s)
        return index


class Brief:
    """As `Timeline`, of few steps."""

    __slots__ = ("_free", "_times", "floor", "free_now")

    def __init__(self, now_s: float, total: float) -> None:
        """All of them are free."""
        self._times = [now_s]
        self._free = [total]
        self.floor = total
        """Free at every moment."""
        self.free_now = total
        """Free in the first step, and not lent."""

    def stays_free(self, width: float, for_s: float) -> bool:
        """See `Timeline.stays_free`."""
        if self.free_now < width:
            return False
        steps = bisect_left(self._times, self._times[0] + for_s)
        return all(free >= width for free in self._free[1:steps])

    @property
    def at_last(self) -> float:
        """See `Timeline.at_last`."""
        return self._free[-1]

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
            if first == size or times[first] >= start + run_s - EPSILON_S:
                return start

    def take(self, width: float, start_s: float, end_s: float) -> None:
        """See `Timeline.take`."""
        if end_s <= start_s:
            return
        first = self._step(start_s) if start_s > self._times[0] else 0
        last = len(self._times) if math.isinf(end_s) else self._step(end_s)
        held = [count - width for count in self._free[first:last]]
        self._free[first:last] = held
        self.floor = min(self.floor, *held)
        if first == 0:
            self.free_now = held[0]

    def give(self, width: float, start_s: float, end_s: float) -> None:
        """See `Timeline.give`."""
        self.take(-width, start_s, end_s)
        self.floor = min(self._free)

    def steps(self, start_s: float, end_s: float) -> list[tuple[float, float, float]]:
        """See `Timeline.steps`."""
        spans = zip(self._times, [*self._times[1:], math.inf], self._free, strict=True)
        found = ((max(first_s, start_s), min(last_s, end_s), free) for first_s, last_s, free in spans)
        return [step for step in found if step[0] < step[1]]

    def least(self, start_s: float, end_s: float) -> float:
        """See `Timeline.least`."""
        first = max(0, bisect_right(self._times, start_s) - 1)
        return min(self._free[first : max(first + 1, bisect_left(self._times, end_s))])

    def next_s(self, time_s: float) -> float:
        """See `Timeline.next_s`."""
        step = bisect_right(self._times, time_s)
        return self._times[step] if step < len(self._times) else math.inf

    def lend(self, width: float) -> None:
        """See `Timeline.lend`."""
        self.free_now -= width

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
