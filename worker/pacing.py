"""When and how a run changes the split of its batch: from the seconds that each rank works per step.

A rank's law t(B) is straight between the numbers of rows that it really had, and beyond them as the nearest two; with
one number known it is the estimator's line through that point, without one a = 0. Where the seconds of an unchanged
split change, the device has changed: all that is known of it is scaled. A split changes only where that pays
more than it may be chance, looked at after 8, 16, 32, ... steps, then every 256, and a bounded number of times until a
device changes. On like devices nothing is looked at before one of them is surely and lastingly slower than the others.
Pure: no clock, no torch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from worker.shares import Line, SecondsOf, equal_finish, finish_s
from worker.words import duration_words, percent_words, step_words

LEAST_GAIN = 0.01
"""A change that makes steps faster by less is not worth its words."""
FIRST_STEPS = 8
MOST_STEPS = 256
"""So many are kept, and between two looks there are no more."""
SETTLING_STEPS = 1
"""After a change: caches and memory pools take the new size in the first step."""
LEAST_WATCHED_S = 0.2
"""Shorter looks measure the scheduler of the operating system."""
CHANCE = 2.0
"""Standard errors that a gain must exceed."""
CHANGED = 1.25
"""A device whose newest 8 steps take that much longer or shorter than before, twice in a row, has changed."""
MOST_CORRECTIONS = 6
"""Until a device changes."""
LEAST_APART = 0.08
"""Two numbers of rows that differ by less say nothing of a slope."""
LASTING_APART = 1.2
"""Of like devices the slowest works that many times as long as the fastest, so that a quarter is surely seen, ..."""
LASTING_GAIN = 0.1
"""... shares by speed would make steps faster by that much, ..."""
LASTING_WINDOWS, LASTING_WINDOW_S = 10, 30.0
"""... and both hold in so many stretches of work on end, with the same rank the slowest: what others do on a host is
over sooner. A stretch has `FIRST_STEPS` steps at least."""
LASTING_EVERY_S = 0.5
"""Of steps that are shorter, one is taken each time that so much work went by."""
LASTING_CHANCE = 5.0
"""Standard errors that the two must lie apart: a run may have thousands of stretches, and bits that repeat are dear."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """A change of the split and why."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    work_s: tuple[float, ...]
    """Seconds per step that each rank worked at `before`."""
    expected_s: float
    """Of the last rank at `after`."""
    lasting_s: float = 0.0
    """The devices are alike, and one of them has been slower for so long; 0: they are not alike."""

    @property
    def gain(self) -> float:
        """Share by which steps get faster, what ranks send each other left out."""
        return max(self.work_s) / self.expected_s - 1.0

    @property
    def reason(self) -> str:
        """In words."""
        slow = max(range(len(self.work_s)), key=self.work_s.__getitem__)
        fast = min(range(len(self.work_s)), key=self.work_s.__getitem__)
        slow_s, fast_s = step_words(self.work_s[slow]), step_words(self.work_s[fast])
        alike = "The devices are alike by name, but one has been slower for {}: rows go by speed from now on. "
        return (alike.format(duration_words(self.lasting_s)) if self.lasting_s else "") + (
            f"Rank {slow} worked {slow_s} on its {self.before[slow]} rows of a step, rank {fast} {fast_s} on "
            f"{self.before[fast]}. From now on the ranks take {' + '.join(map(str, self.after))} rows, expected to end "
            f"together after {step_words(self.expected_s)} ({percent_words(self.gain, 0)} faster)."
        )


class Corrector:
    """Watches the steps of a run. Ask it on one rank and tell the others: their clocks differ."""

    def __init__(
        self,
        split: Sequence[int],
        *,
        lines: Sequence[Line] = (),
        least: int = 1,
        most: Sequence[int] = (),
        alike: bool = False,
    ) -> None:
        """`alike`: the devices are; the first correction waits for a lasting difference."""
        self.split = tuple(split)
        self._lasting = Lasting() if alike else None
        self._least, self._most = least, tuple(most)
        self._lines: list[Line | None] = list(lines) or [None] * len(self.split)
        self._points: list[dict[int, float]] = [{} for _ in self.split]
        """Rows -> seconds of each rank at other numbers of rows it has had."""
        self._known: tuple[float, ...] = ()
        """Seconds at this split as they were last looked at."""
        self._steps: list[tuple[float, ...]] = []
        self._corrections = self._settling = self._off = self._untold = 0
        self._next_look = FIRST_STEPS

    def observe(self, work_s: Sequence[float], steps: int = 1) -> Correction | None:
        """Take one regular step: seconds that each rank worked. A correction is only proposed: see `adopt`.

        `steps`: made since the last one that was told here, it included.
        """
        self._untold += steps
        if not all(math.isfinite(value) and value > 0 for value in work_s):
            return None
        steps, self._untold = self._untold, 0
        if self._settling > 0:
            self._settling -= 1
            return None
        if self._lasting is not None:
            return self._look_lasting(self._lasting, work_s, steps)
        self._steps.append(tuple(work_s))
        if self._has_changed():
            self._steps = self._steps[-FIRST_STEPS:]
            self._corrections, self._off = 0, 0
        elif len(self._steps) < self._next_look or not self._long_enough():
            return None
        self._steps = self._steps[-MOST_STEPS:]
        self._next_look = 2 * len(self._steps)
        return self._look()

    def adopt(self, split: Sequence[int]) -> None:
        """From the next step on the ranks take these rows."""
        self.split = tuple(split)
        self._corrections += 1
        self._known, self._steps, self._settling, self._off = (), [], SETTLING_STEPS, 0
        self._next_look, self._lasting = FIRST_STEPS, None

    def _look_lasting(self, lasting: Lasting, work_s: Sequence[float], steps: int) -> Correction | None:
        """On like devices: look once a lasting difference is sure."""
        if not lasting.observe(work_s, steps):
            return None
        self._steps = lasting.steps[-MOST_STEPS:]
        found = self._look()
        return found and replace(found, lasting_s=lasting.seconds)

    def _long_enough(self) -> bool:
        watched_s = sum(max(step) for step in self._steps)
        return watched_s >= LEAST_WATCHED_S or len(self._steps) >= MOST_STEPS

    def _has_changed(self) -> bool:
        """Whether a device became slower or faster since this split was last looked at."""
        if not self._known or len(self._steps) % FIRST_STEPS:
            return False
        newest = [median(column) for column in zip(*self._steps[-FIRST_STEPS:], strict=True)]
        ratios = [new / old for new, old in zip(newest, self._known, strict=True)]
        self._off = self._off + 1 if any(not 1 / CHANGED <= ratio <= CHANGED for ratio in ratios) else 0
        return self._off >= 2

    def _look(self) -> Correction | None:
        """Fit the lines anew and see whether another split pays."""
        columns = list(zip(*self._steps, strict=True))
        now = tuple(median(column) for column in columns)
        before, self._known = self._known, now
        if before:
            self._rescale([new / old for new, old in zip(now, before, strict=True)])
        laws = self._fit(now)
        if self._corrections >= MOST_CORRECTIONS:
            return None
        try:
            after = equal_finish(laws, sum(self.split), least=self._least, most=self._most)
        except ValueError:  # more rows than fit in the memory, as estimated: the run goes on as it is
            return None
        found = Correction(before=self.split, after=after, work_s=now, expected_s=finish_s(laws, after))
        chance = max(_standard_error(column) / seconds for column, seconds in zip(columns, now, strict=True))
        return found if after != self.split and found.gain > max(LEAST_GAIN, CHANCE * chance) else None

    def _rescale(self, ratios: Sequence[float]) -> None:
        """At an unchanged split a device took so many times as long as before: so it would have at other rows."""
        self._lines = [line and line.scaled(ratio) for line, ratio in zip(self._lines, ratios, strict=True)]
        self._points = [
            {rows: seconds * ratio for rows, seconds in points.items()}
            for points, ratio in zip(self._points, ratios, strict=True)
        ]

    def _fit(self, now: Sequence[float]) -> list[SecondsOf]:
        """A law per rank through its newest point and those that go with it."""
        curves: list[SecondsOf] = []
        for rank, (rows, seconds) in enumerate(zip(self.split, now, strict=True)):
            points = self._points[rank] = _with_newest(self._points[rank], rows, seconds)
            curves.append(Curve(points) if len(points) > 1 else _through(rows, seconds, self._lines[rank]))
        return curves


class Lasting:
    """Whether one of the ranks on like devices has surely worked longer than another for long."""

    def __init__(self) -> None:
        self._windows: deque[tuple[float, list[tuple[float, ...]]]] = deque(maxlen=LASTING_WINDOWS)
        """Stretches on end in which the same rank was far behind: seconds of work, and steps of it."""
        self._slowest = -1
        self._newest: list[tuple[float, ...]] = []
        self._newest_s = self._since_s = 0.0
        """Seconds of work of the stretch, and since the last of its steps that was taken."""

    @property
    def steps(self) -> list[tuple[float, ...]]:
        """Of all stretches."""
        return [step for _, steps in self._windows for step in steps]

    @property
    def seconds(self) -> float:
        """Of work, in all stretches."""
        return sum(seconds for seconds, _ in self._windows)

    def observe(self, work_s: Sequence[float], steps: int = 1) -> bool:
        """Take one step, which stands for so many; true at the end of a stretch that makes it sure."""
        self._newest_s += steps * max(work_s)
        self._since_s += steps * max(work_s)
        if self._since_s >= LASTING_EVERY_S:
            self._newest.append(tuple(work_s))
            self._since_s = 0.0
        if self._newest_s < LASTING_WINDOW_S or len(self._newest) < FIRST_STEPS:
            return False
        slowest = _far_behind(self._newest)
        if slowest is None or slowest != self._slowest:
            self._windows.clear()
        if slowest is not None:
            self._windows.append((self._newest_s, self._newest))
        self._slowest = -1 if slowest is None else slowest
        self._newest, self._newest_s = [], 0.0
        return len(self._windows) == LASTING_WINDOWS and _surely_apart(self.steps)


def _far_behind(steps: Sequence[tuple[float, ...]]) -> int | None:
    """The slowest rank, where it takes far longer than the fastest and shares by speed would pay; else None."""
    now = [median(column) for column in zip(*steps, strict=True)]
    slowest_s = max(now)
    gain = slowest_s * sum(1.0 / seconds for seconds in now) / len(now) - 1.0
    return now.index(slowest_s) if slowest_s >= LASTING_APART * min(now) and gain >= LASTING_GAIN else None


def _surely_apart(steps: Sequence[tuple[float, ...]]) -> bool:
    """Whether the slowest rank and the fastest differ by more than noise explains."""
    columns = list(zip(*steps, strict=True))
    slow, fast = max(columns, key=median), min(columns, key=median)
    chance = math.hypot(_standard_error(slow) / median(slow), _standard_error(fast) / median(fast))
    return math.log(median(slow) / median(fast)) > LASTING_CHANCE * chance


class Curve:
    """Straight between measured points, beyond them as the nearest two; rises with the rows."""

    def __init__(self, points: Mapping[int, float]) -> None:
        self._points = sorted(points.items())

    def __call__(self, rows: int) -> float:
        """Seconds for so many rows."""
        last = len(self._points) - 1
        place = min(max(bisect_left(self._points, (rows,)), 1), last)
        (left, left_s), (right, right_s) = self._points[place - 1], self._points[place]
        row_s = (right_s - left_s) / (right - left)
        if rows < self._points[0][0]:
            row_s = min(row_s, left_s / left)  # nothing takes less than no time
        return left_s + row_s * (rows - left)


def _with_newest(points: Mapping[int, float], rows: int, seconds: float) -> dict[int, float]:
    """The newest point, and the older ones that lie far enough from it and do not contradict it."""
    found = {
        other: then
        for other, then in points.items()
        if abs(other - rows) >= LEAST_APART * max(other, rows) and (then < seconds if other < rows else then > seconds)
    }
    return {**found, rows: seconds}


def _through(rows: int, seconds: float, shape: Line | None) -> Line:
    """The line of this shape through a measurement; without a shape the one through nothing."""
    if shape is None or shape(rows) <= 0:
        return Line(0.0, seconds / rows)
    return shape.scaled(seconds / shape(rows))


def _standard_error(column: Sequence[float]) -> float:
    """Of the median, from the median deviation: 1.4826 MAD is the deviation, 1.2533 / sqrt(n) of it the median's."""
    middle = median(column)
    deviation = 1.4826 * median(abs(value - middle) for value in column)
    return 1.2533 * deviation / math.sqrt(len(column))
