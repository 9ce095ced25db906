"""`SpanningLedger`: `Ledger` of a pool whose gangs may span nodes, where some jobs have to stay on one.

There the devices of a level are counted together, which says nothing of who has to have them on one node. So all that
is planned is entered node by node: who stays on one gets a node, and a gang gets so many devices of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from scheduler.data_way import Travel
from scheduler.placing.data_times import DataTimes
from scheduler.placing.lanes import Counts, Floats, Mask, NodeLane
from scheduler.placing.ledger import Ledger, least_gone
from scheduler.placing.places import level_name
from scheduler.placing.spans import NOBODY, Want
from scheduler.placing.spreads import spreads
from scheduler.types import Capacity, JobView, Option, PoolView

_MOST_MOMENTS = 64
"""Moments that are tried for a gang that asks for memory."""


class _Part(NamedTuple):
    """Like devices of a gang on one node."""

    place: int
    want: Want
    width: int


def ledger_of(capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> Ledger:
    """The pool over time, as its jobs need it."""
    made = SpanningLedger if capacity.spans_nodes and capacity.asks_one_node else Ledger
    return made(jobs, capacity.pool, now_s)


class SpanningLedger(Ledger):
    """Places are nodes; after them come the levels, for gangs that lie on several."""

    def __init__(self, jobs: Sequence[JobView], pool: PoolView, now_s: float) -> None:
        """Enter what runs."""
        super().__init__(jobs, replace(pool, spans_nodes=False), now_s)
        self._span_level = pool.span_level
        self._apart = DataTimes(pool)
        self._on_level = {len(self.places) + number: int(level) for number, level in enumerate(np.unique(self._levels))}
        """Place -> sandbox level, the weakest first."""
        near = {node.name: node.near for node in pool.nodes}
        self._racks = [near[place.name] for place in self.places]
        self._own: dict[tuple[str, int], list[_Part]] = {}
        """(job, level) -> where it may lie on what is kept for its project."""

    def fits_ever(self, job: JobView, option: Option) -> bool:
        """See `Ledger.fits_ever`."""
        if not self._may_span(job, option):
            return super().fits_ever(job, option)
        return any(self._fits_idle(job, option, level) for _, level in self._levels_for(job))

    def _fits_idle(self, job: JobView, option: Option, level: int) -> bool:
        """Whether its nodes would do; of like devices it is known already that they have the memory (`shown`)."""
        here = self._levels == level
        lanes = self._lanes_of(job, option)
        if not (option.parts and option.memory_bytes):
            return all(lane.total[here].sum() >= width for _, lane, width in lanes)
        idle = ((want, np.where(here, lane.total, 0), np.zeros(len(here)), width) for want, lane, width in lanes)
        return self._spread(job, option, idle, lambda place: self.places[place].memory_bytes) is not None

    def name(self, place: int) -> str:
        """See `Ledger.name`."""
        level = self._on_level.get(place)
        return level_name(int(self._levels[place]) if level is None else level)

    def travel(self, job: JobView, option: Option, place: int) -> Travel:
        """See `Ledger.travel`."""
        if place not in self._on_level:
            return super().travel(job, option, place)
        return self._apart.to(job, option, self.name(place))

    def data_most_s(self, job: JobView, option: Option) -> float:
        """See `Ledger.data_most_s`."""
        if job.data is None or not self._may_span(job, option):
            return super().data_most_s(job, option)
        return max((self.travel(job, option, place).high_s for place, _ in self._levels_for(job)), default=0.0)

    def fits_now(self, job: JobView, option: Option, end_s: float, *, own: bool = False) -> int | None:
        """See `Ledger.fits_now`."""
        if not self._may_span(job, option):
            return super().fits_now(job, option, end_s, own=own)
        for place, level in self._levels_for(job):
            if parts := self._now(job, option, end_s, level, own=own):
                if own:
                    self._own[job.job_id, place] = parts
                return place
        return None

    def soonest(self, job: JobView, option: Option) -> tuple[float, int | None]:
        """See `Ledger.soonest`."""
        best: tuple[float, int | None] = (math.inf, None)
        if not self._may_span(job, option):
            return super().soonest(job, option)
        for place, level in self._levels_for(job):
            ready_s = self._soonest_on(job, option, level)
            if ready_s < best[0]:
                best = (ready_s, place)
        return best

    def _soonest_on(self, job: JobView, option: Option, level: int) -> float:
        here = self._open_on(level, option.kind)
        ready_s = max(lane.together_s(width, here) for _, lane, width in self._lanes_of(job, option))
        if not option.memory_bytes or math.isinf(ready_s) or self._later(job, option, ready_s, level):
            return ready_s
        return self._soonest_with_memory(job, option, level, ready_s)

    def _soonest_with_memory(self, job: JobView, option: Option, level: int, ready_s: float) -> float:
        """The first moment after that when there is memory beside the devices."""
        here = np.flatnonzero(self._open_on(level, option.kind))
        rows = [row for place in here for row in (self.places[place].rows.get(option.kind), self.places[place].memory)]
        moments = {span.ready_s for row in rows if row for span in row.spans if ready_s < span.ready_s < math.inf}
        ahead = sorted(moments)
        tried = ahead if len(ahead) <= _MOST_MOMENTS else [*ahead[:_MOST_MOMENTS], ahead[-1]]
        return next((moment for moment in tried if self._later(job, option, moment, level)), math.inf)

    def start(self, job: JobView, option: Option, place: int, end_s: float) -> None:
        """See `Ledger.start`."""
        if place not in self._on_level:
            super().start(job, option, place, end_s)
            self.nodes[job.job_id] = {self.places[place].name: option.count}
            return
        found = self._own.pop((job.job_id, place), None) or self._now(job, option, end_s, self._on_level[place])
        parts = _sure(found)
        for part in parts:
            self.places[part.place].rows[option.kind].start(part.width, end_s, part.want, job.job_id)
        widths = _widths(parts)
        for at, width in widths.items():
            if option.memory_bytes and (memory := self.places[at].memory):
                memory.start(_share_bytes(option, width), end_s, Want(), job.job_id)
            self._refresh(option.kind, at)
        self.nodes[job.job_id] = {self.places[at].name: width for at, width in widths.items()}

    def reserve(self, job: JobView, option: Option, place: int, start_s: float, end_s: float) -> None:
        """See `Ledger.reserve`."""
        if place not in self._on_level:
            super().reserve(job, option, place, start_s, end_s)
            return
        level = self._on_level[place]
        # Of a mixture a part may lie where another has to once that is free as well: where it could lie before, it can.
        found = self._later(job, option, start_s, level)
        parts = _sure(found or self._later(job, option, self._soonest_on(job, option, level), level))
        for part in parts:
            self.places[part.place].rows[option.kind].reserve(part.width, start_s, end_s, part.want)
        for at, width in _widths(parts).items():
            if option.memory_bytes and (memory := self.places[at].memory):
                memory.reserve(_share_bytes(option, width), start_s, end_s, Want())
            self._refresh(option.kind, at)

    def victims(
        self,
        job: JobView,
        option: Option,
        end_s: float,
        candidates: Sequence[str],
        enough: Callable[[Collection[str]], bool],
    ) -> tuple[int, list[str]] | None:
        """See `Ledger.victims`."""
        if not self._may_span(job, option):
            return super().victims(job, option, end_s, candidates, enough)
        needs_all, ways = not enough([]), []
        for place, level in self._levels_for(job):
            here = [name for name in candidates if needs_all or any(self._levels[at] == level for at in self._at(name))]
            fits = partial(self._would_fit_apart, job, option, end_s, level)
            if (chosen := least_gone(here, [fits, enough])) is not None:
                ways.append((place, chosen))
        return min(ways, key=lambda way: len(way[1]), default=None)

    def _would_fit_apart(self, job: JobView, option: Option, end_s: float, level: int, gone: Collection[str]) -> bool:
        if option.memory_bytes:
            return self._now(job, option, end_s, level, gone=gone) is not None
        usable = self._usable(job, option, end_s, level, gone)
        return all(int(counts.sum()) >= width for _, counts, width in usable)

    def _could_use(self, job: JobView, option: Option) -> Mask:
        if not self._may_span(job, option):
            return super()._could_use(job, option)
        there = [lane.total > 0 for _, lane, _ in self._lanes_of(job, option)]
        could: Mask = np.logical_or.reduce(there) & (self._levels >= job.minimum_sandbox_level)
        return could

    def _has_devices(self, job: JobView, option: Option) -> bool:
        if not self._may_span(job, option):
            return super()._has_devices(job, option)
        bare = replace(option, memory_bytes=0)
        return any(self._would_fit_apart(job, bare, self.now_s, level, NOBODY) for _, level in self._levels_for(job))

    def _may_span(self, job: JobView, option: Option) -> bool:
        return option.count > 1 and option.may_span(job.minimum_sandbox_level, self._span_level)

    def _levels_for(self, job: JobView) -> Iterator[tuple[int, int]]:
        """(place, level), the weakest that will do first."""
        return ((place, level) for place, level in self._on_level.items() if level >= job.minimum_sandbox_level)

    def _lanes_of(self, job: JobView, option: Option, *, own: bool = False) -> list[tuple[Want, NodeLane, int]]:
        """What like devices of a gang want, where they are, and how many."""
        want = self._want(job, option, own=own)
        return [
            (one, cast(NodeLane, self._lane(option.kind, one)), count)
            for one, count in want.alone() or [(want, option.count)]
        ]

    def _open_on(self, level: int, kind: str, until_s: float = -math.inf) -> Mask:
        """Nodes of a level that are not closed for whoever runs until then, nor now."""
        here: Mask = self._levels == level
        gate = self._gates.get(kind)
        return here if gate is None else here & (gate >= until_s) & (gate > self.now_s)

    def _usable(
        self, job: JobView, option: Option, end_s: float, level: int, gone: Collection[str], *, own: bool = False
    ) -> Iterator[tuple[Want, Counts, int]]:
        """Of each part of a gang: how many devices each node has for it from now to then, and how many it needs."""
        here = self._open_on(level, option.kind, end_s)
        left = {at for name in gone for at in self._at(name) if here[at]}
        for want, lane, width in self._lanes_of(job, option, own=own):
            counts: Counts = np.where(here, lane.usable(end_s), 0)
            for at in left:
                counts[at] = self.places[at].rows[option.kind].usable(end_s, want, gone) if lane.total[at] else 0
            yield want, counts, width

    def _now(
        self, job: JobView, option: Option, end_s: float, level: int, *, own: bool = False,
        gone: Collection[str] = NOBODY,
    ) -> list[_Part] | None:  # fmt: skip
        """Where a gang lies from now to then, once `gone` have left; None: it cannot."""

        def free_bytes(place: int) -> int:
            memory = self.places[place].memory
            return memory.usable(end_s, Want(), gone) if memory else 0

        usable = self._usable(job, option, end_s, level, gone, own=own)
        return self._spread(
            job, option, ((want, counts, np.zeros(len(counts)), width) for want, counts, width in usable), free_bytes
        )

    def _later(self, job: JobView, option: Option, start_s: float, level: int) -> list[_Part] | None:
        """Where it lies from then on, behind all that is planned: on what is free last, to leave others the rest."""

        def free_bytes(place: int) -> int:
            memory = self.places[place].memory
            return memory.ready_by(start_s) if memory else 0

        here = self._open_on(level, option.kind)
        ready = ((want, *lane.ready_by(start_s, here), width) for want, lane, width in self._lanes_of(job, option))
        return self._spread(job, option, ready, free_bytes)

    def _spread(
        self,
        job: JobView,
        option: Option,
        wanted: Iterable[tuple[Want, Counts, Floats, int]],
        free_bytes: Callable[[int], int],
    ) -> list[_Part] | None:
        """Each part: what it wants, what nodes have of it and since when, how many."""
        found: list[_Part] = []
        given: Counter[int] = Counter()
        losses = partial(self._losses, job)
        for want, counts, since_s, width in wanted:

            def most(place: int, counts: Counts = counts) -> int:
                held = int(counts[place])
                return min(held, option.devices_in(free_bytes(place)) - given[place]) if option.memory_bytes else held

            ways = spreads(counts, since_s, width, most=most, losses=losses, racks=self._racks)
            if job.avoid:
                way = min(ways, key=lambda way: max(losses(place) for place, _ in way), default=None)
            else:
                way = next(ways, None)
            if way is None:
                return None
            found += [_Part(place, want, taken) for place, taken in way]
            given.update(dict(way))
        return found


def _sure(parts: list[_Part] | None) -> list[_Part]:
    if parts is None:
        raise ValueError("too few devices are free")
    return parts


def _widths(parts: Iterable[_Part]) -> Counter[int]:
    """Devices on each node."""
    widths: Counter[int] = Counter()
    for part in parts:
        widths[part.place] += part.width
    return widths


def _share_bytes(option: Option, width: int) -> int:
    return -(-option.memory_bytes * width // option.count)
