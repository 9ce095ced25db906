"""Rows of all places side by side, as one kind of job sees them: which place is free now, which one soonest.

Two forms of one interface: `NodeLane` (a gang stays on one node) keeps one sorted array row per node, so that a
thousand nodes are asked in one numpy call; `WideLane` (gangs span nodes) has a handful of wide rows and asks each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scheduler.placing.spans import Row, Want

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Lane(Protocol):
    """All rows of one kind of device, as jobs with one `Want` see them."""

    total: Counts
    """Things per place, busy or not."""

    def fitting(self, width: int, end_s: float, allowed: Mask, liked: Mask | None = None) -> Iterator[int]:
        """Places with `width` usable until `end_s`: the fullest first, so that large gaps stay for wide jobs, of
        equally full ones the `liked`; where gangs span nodes, the weakest sandbox first."""
        ...

    def soonest(self, width: int, allowed: Mask) -> Iterator[tuple[float, int]]:
        """(when, place) in order of time."""
        ...

    def refresh(self, place: int) -> None:
        """The row of a place has changed."""
        ...


class NodeLane:
    """One row per node, `None` where the node has none of the kind."""

    def __init__(self, rows: Sequence[Row | None], models: Sequence[frozenset[str]], want: Want) -> None:
        """Index all rows."""
        self._rows = [row if row and want.met_by(known) else None for row, known in zip(rows, models, strict=True)]
        self._want = want
        self.total = np.array([row.total(want) if row else 0 for row in self._rows], dtype=np.int64)
        width = int(self.total.max(initial=0)) + 1
        steps = [row.steps(want) if row else ([], []) for row in self._rows]
        self._ready = _columns([ready for ready, _ in steps], width, np.inf)
        """[w - 1, place]: when w are free for good."""
        self._gap = _columns([gaps for _, gaps in steps], width, -np.inf)
        """[w - 1, place]: until when w are free from now."""
        self._free = np.array([len(gaps) for _, gaps in steps], dtype=np.int64)
        self._most_free = int(self._free.max(initial=0))
        """No place has more things free now; it may have less, where it is rough."""
        self._is_rough = False

    def fitting(self, width: int, end_s: float, allowed: Mask, liked: Mask | None = None) -> Iterator[int]:
        """See `Lane`."""
        if width > self._most_free:
            return
        (places,) = ((self._gap[min(width, len(self._gap)) - 1] >= end_s) & allowed).nonzero()
        if not len(places):
            if self._is_rough:
                self._most_free, self._is_rough = int(self._free.max()), False
            return
        free = self._free[places] if liked is None else self._free[places] - 0.5 * liked[places]
        best = int(free.argmin())
        yield int(places[best])
        for number in free.argsort(kind="stable"):
            if number != best:
                yield int(places[number])

    def soonest(self, width: int, allowed: Mask) -> Iterator[tuple[float, int]]:
        """See `Lane`."""
        column = np.where(allowed, self._ready[min(width, len(self._ready)) - 1], np.inf)
        if not len(column):
            return
        best = int(column.argmin())
        first_s = float(column[best])
        if not math.isfinite(first_s):
            return
        yield first_s, best
        for place in np.argsort(column, kind="stable"):
            if place != best and np.isfinite(column[place]):
                yield float(column[place]), int(place)

    def usable(self, end_s: float) -> Counts:
        """Of each place the things that are free from now until then."""
        counts: Counts = (self._gap >= end_s).sum(axis=0)
        return counts

    def ready_by(self, start_s: float, allowed: Mask) -> tuple[Counts, Floats]:
        """Of each place the things that are free for good by then, and when the last of them is."""
        ready = (self._ready <= start_s) & allowed
        last_s: Floats = np.where(ready, self._ready, -np.inf).max(axis=0)
        return ready.sum(axis=0), last_s

    def together_s(self, width: int, allowed: Mask) -> float:
        """When so many are free for good on all these places together."""
        ready = self._ready[:, allowed].ravel()
        return float(np.partition(ready, width - 1)[width - 1]) if len(ready) >= width else math.inf

    def refresh(self, place: int) -> None:
        """See `Lane`."""
        row = self._rows[place]
        if row is None:
            return
        ready, gaps = row.steps(self._want)
        free = len(gaps)
        self._ready[: len(ready), place] = ready
        self._gap[:, place] = gaps + [-math.inf] * (len(self._gap) - free)
        self._free[place] = free
        self._most_free, self._is_rough = max(self._most_free, free), True


def _columns(steps: Sequence[list[float]], height: int, filler: float) -> Floats:
    """One column for each list, filled up to one height."""
    rows = [[*items, *[filler] * (height - len(items))] for items in steps]
    return np.ascontiguousarray(np.array(rows, dtype=np.float64).reshape(len(rows), height).T)


class WideLane:
    """A few rows of many devices each."""

    def __init__(self, rows: Sequence[Row | None], models: Sequence[frozenset[str]], want: Want) -> None:
        """Look at all rows."""
        self._rows = [row if row and want.met_by(known) else None for row, known in zip(rows, models, strict=True)]
        self._want = want
        self.total = np.array([row.total(want) if row else 0 for row in self._rows], dtype=np.int64)

    def fitting(self, width: int, end_s: float, allowed: Mask, liked: Mask | None = None) -> Iterator[int]:
        """See `Lane`."""
        usable = {
            place: row.usable(end_s, self._want)
            for place, row in enumerate(self._rows)
            if row and row.free and allowed[place]
        }
        return (place for place in usable if usable[place] >= width)

    def soonest(self, width: int, allowed: Mask) -> Iterator[tuple[float, int]]:
        """See `Lane`."""
        found = [
            (row.ready(width, self._want), place) for place, row in enumerate(self._rows) if row and allowed[place]
        ]
        return iter(sorted(pair for pair in found if np.isfinite(pair[0])))

    def refresh(self, place: int) -> None:
        """Nothing is kept."""
