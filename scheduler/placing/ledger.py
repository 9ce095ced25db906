"""`Ledger`: what is planned on the pool so far: who runs where until when, who is promised what from when.

A policy goes through its jobs in order and enters each one: it starts, or is promised devices later.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from scheduler.data_way import DataWay, Travel
from scheduler.placing.data_times import DataTimes
from scheduler.placing.lanes import Floats, Lane, Mask, NodeLane, WideLane
from scheduler.placing.places import places_of
from scheduler.placing.spans import NOBODY, Want
from scheduler.types import JobView, Option, PoolView

_WAYS = 16
"""So many ways to make room are weighed against each other."""


class _Shape(NamedTuple):
    """A gang of one size and kind as the pool sees it."""

    want: Want
    lane: Lane
    allowed: Mask
    """Places that would fit it if they were idle."""
    anywhere: bool
    """Whether there is one."""


class Ledger:
    """The pool over time. Mutable: it lives within one decision."""

    def __init__(self, jobs: Sequence[JobView], pool: PoolView, now_s: float) -> None:
        """Enter what runs."""
        self.now_s = now_s
        self._wide = pool.spans_nodes
        self.places = places_of(pool, jobs, now_s)
        self._held: dict[str, list[int]] = {}
        """Running job -> places where it holds devices or memory."""
        for index, place in enumerate(self.places):
            rows = [*place.rows.values(), place.memory] if place.memory else place.rows.values()
            for holder in {span.holder for row in rows for span in row.spans if span.holder}:
                self._held.setdefault(holder, []).append(index)
        self._levels = np.array([place.level for place in self.places], dtype=np.int64)
        self._memory = np.array([place.memory_bytes for place in self.places], dtype=np.float64)
        self._gates: dict[str, Floats] = {}
        self._keepers = {
            keep.project
            for node in pool.nodes
            if node.is_kept
            for device in node.devices
            for keep in device.reserved
            if keep.project
        }
        self.keepers_now = {
            project
            for node in pool.nodes
            if node.is_kept and node.takes_work
            for device in node.devices
            if (project := device.keeper(now_s))
        }
        """Projects that devices are kept for now."""
        self._lanes: dict[tuple[str, Want], Lane] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self._with_data: dict[frozenset[str], Mask] = {}
        """Nodes that have some data -> which places they are."""
        self._data = DataTimes(pool)
        self.nodes: dict[str, Mapping[str, int]] = {}
        """Job that starts -> devices on each node, as in `Plan.nodes`."""
        self._ways: dict[DataWay, Floats] = {}
        """Upper ends to each place, where these are nodes."""

    def fits_ever(self, job: JobView, option: Option) -> bool:
        """Whether some present place would fit the job if it were idle."""
        return self._shape(job, option).anywhere

    def name(self, place: int) -> str:
        """As in `Plan.hints`."""
        return self.places[place].name

    def travel(self, job: JobView, option: Option, place: int) -> Travel:
        """The way of the job's data to there."""
        return self._data.to(job, option, self.places[place].name)

    def data_most_s(self, job: JobView, option: Option) -> float:
        """Upper end of the longest of these ways to a place that would fit the job if it were idle."""
        if job.data is None:
            return 0.0
        allowed = self._shape(job, option).allowed
        if self._wide:
            return max((self.travel(job, option, int(place)).high_s for place in np.flatnonzero(allowed)), default=0.0)
        ways = self._ways.get(job.data)
        if ways is None:
            ways = self._ways[job.data] = self._data.high_to_each(job.data, [place.name for place in self.places])
        return float(ways[allowed].max(initial=0.0))

    def fits_now(self, job: JobView, option: Option, end_s: float, *, own: bool = False) -> int | None:
        """A place where the job can run from now to `end_s` and delay nobody, of those the one where it was lost least;
        None where there is none. `own`: only on what is kept for its project now."""
        shape, gate = self._shape(job, option, own=own), self._gates.get(option.kind)
        allowed = shape.allowed if gate is None else shape.allowed & (gate >= end_s)
        fitting = (
            place
            for place in shape.lane.fitting(option.count, end_s, allowed, self._liked(job))
            if not option.memory_bytes or self._has_memory(place, option, end_s)
        )
        return min(fitting, key=partial(self._losses, job), default=None) if job.avoid else next(fitting, None)

    def _has_memory(self, place: int, option: Option, end_s: float) -> bool:
        memory = self.places[place].memory
        return memory is not None and memory.usable(end_s, Want()) >= option.memory_bytes

    def _losses(self, job: JobView, place: int) -> int:
        """How often the job was lost there; which nodes of several it gets is decided later."""
        return job.avoid.get(self.places[place].name, 0)

    def soonest(self, job: JobView, option: Option) -> tuple[float, int | None]:
        """(when the job can start for sure behind everything that is planned, where); infinite: nobody can tell."""
        best: tuple[float, int | None] = (math.inf, None)
        shape, gate = self._shape(job, option), self._gates.get(option.kind)
        allowed = shape.allowed if gate is None else shape.allowed & (gate > self.now_s)
        places = shape.lane.soonest(option.count, allowed)
        if not option.memory_bytes:
            return next(places, best)
        for ready_s, place in places:
            if ready_s >= best[0]:
                break
            memory = self.places[place].memory
            if memory:
                ready_s = max(ready_s, memory.ready(option.memory_bytes, Want()))
            if ready_s < best[0]:
                best = (ready_s, place)
        return best

    def start(self, job: JobView, option: Option, place: int, end_s: float) -> None:
        """The job starts now."""
        where = self.places[place]
        where.rows[option.kind].start(option.count, end_s, self._shape(job, option).want, job.job_id)
        if option.memory_bytes and where.memory:
            where.memory.start(option.memory_bytes, end_s, Want(), job.job_id)
        self._refresh(option.kind, place)

    def reserve(self, job: JobView, option: Option, place: int, start_s: float, end_s: float) -> None:
        """The job is promised devices from `start_s`."""
        where = self.places[place]
        where.rows[option.kind].reserve(option.count, start_s, end_s, self._shape(job, option).want)
        if option.memory_bytes and where.memory:
            where.memory.reserve(option.memory_bytes, start_s, end_s, Want())
        self._refresh(option.kind, place)

    def gate(self, job: JobView, option: Option, start_s: float) -> None:
        """Later jobs that would run past `start_s` stay off every place that the job could use."""
        allowed = self._could_use(job, option)
        lacks_memory = option.memory_bytes and self._has_devices(job, option)
        kinds = {kind for place in self.places for kind in place.rows} if lacks_memory else {option.kind}
        for kind in kinds:
            gate = self._gate(kind)
            gate[allowed] = np.minimum(gate[allowed], start_s)

    def _could_use(self, job: JobView, option: Option) -> Mask:
        """Places where it could lie if they were idle."""
        return self._shape(job, option).allowed

    def _has_devices(self, job: JobView, option: Option) -> bool:
        """Whether they are free now."""
        shape = self._shape(job, option)
        return any(True for _ in shape.lane.fitting(option.count, self.now_s, shape.allowed))

    def release(self, job_id: str) -> None:
        """A running job is paused."""
        for index in self._at(job_id):
            place = self.places[index]
            for kind, row in place.rows.items():
                row.release(job_id)
                self._refresh(kind, index)
            if place.memory:
                place.memory.release(job_id)

    def _at(self, job_id: str) -> Sequence[int]:
        """Places where a running job holds something."""
        return self._held.get(job_id, ())

    def victims(
        self,
        job: JobView,
        option: Option,
        end_s: float,
        candidates: Sequence[str],
        enough: Callable[[Collection[str]], bool],
    ) -> tuple[int, list[str]] | None:
        """(place, jobs to pause so that the job can start there now): as few as will do, the first candidates first.

        `enough` says whether anything else that the job needs is there once some jobs have gone.
        """
        allowed = self._shape(job, option).allowed & (self._gate(option.kind) >= end_s)
        everywhere = set() if enough([]) else set(candidates)
        by_place: dict[int, list[str]] = {}
        for name in candidates:
            for place in self._at(name):
                by_place.setdefault(place, []).append(name)
        ways: list[tuple[int, list[str]]] = []
        for place in sorted(by_place, key=lambda place: (self._losses(job, place), place)):
            if not allowed[place]:
                continue
            here = [name for name in candidates if name in everywhere] if everywhere else by_place[place]
            chosen = least_gone(here, [partial(self._would_fit, job, option, place, end_s), enough])
            if chosen is not None:
                ways.append((place, chosen))
            if len(ways) == _WAYS or (ways and len(ways[-1][1]) == 1):
                break
        return min(ways, key=lambda way: len(way[1]), default=None)

    def _would_fit(self, job: JobView, option: Option, place: int, end_s: float, gone: Collection[str]) -> bool:
        where = self.places[place]
        if where.rows[option.kind].usable(end_s, self._shape(job, option).want, gone) < option.count:
            return False
        return not option.memory_bytes or bool(
            where.memory and where.memory.usable(end_s, Want(), gone) >= option.memory_bytes
        )

    def _liked(self, job: JobView) -> Mask | None:
        """Places that have the job's data; None where it makes no difference."""
        if not job.data_on:
            return None
        found = self._with_data.get(job.data_on)
        if found is None:
            names = [place.name in job.data_on for place in self.places]
            found = self._with_data[job.data_on] = np.array(names, dtype=np.bool_)
        return found

    def _shape(self, job: JobView, option: Option, *, own: bool = False) -> _Shape:
        """What all jobs that ask for the same share."""
        project = job.project if job.project in self._keepers else ""
        level, memory_bytes = job.minimum_sandbox_level, option.memory_bytes
        key = (option.kind, option.model_name, option.count, memory_bytes, level, project, option.parts, own)
        found = self._shapes.get(key)
        if found is None:
            want = self._want(job, option, own=own)
            lane = self._lane(option.kind, want)
            allowed = (self._levels >= level) & (lane.total >= option.count) & (self._memory >= memory_bytes)
            found = self._shapes[key] = _Shape(want, lane, allowed, bool(allowed.any()))
        return found

    def _want(self, job: JobView, option: Option, *, own: bool = False) -> Want:
        project = job.project if job.project in self._keepers else ""
        return Want("" if option.parts else option.model_name, project, option.parts, own)

    def _lane(self, kind: str, want: Want) -> Lane:
        lane = self._lanes.get((kind, want))
        if lane is None:
            rows = [place.rows.get(kind) for place in self.places]
            models = [place.models.get(kind, NOBODY) for place in self.places]
            lane = WideLane(rows, models, want) if self._wide else NodeLane(rows, models, want)
            self._lanes[kind, want] = lane
        return lane

    def _gate(self, kind: str) -> Floats:
        if kind not in self._gates:
            self._gates[kind] = np.full(len(self.places), np.inf)
        return self._gates[kind]

    def _refresh(self, kind: str, place: int) -> None:
        for (lane_kind, _), lane in self._lanes.items():
            if lane_kind == kind:
                lane.refresh(place)


def least_gone(candidates: Sequence[str], tests: Sequence[Callable[[Collection[str]], bool]]) -> list[str] | None:
    """The least of the candidates that passes, the last ones spared first; None where all of them do not. Who passes
    does so with more candidates, too."""

    def passes(gone: Collection[str]) -> bool:
        return all(test(gone) for test in tests)

    if not passes(candidates):
        return None
    # As many of the first as are needed, found by halves: of a thousand, each test looks at a thousand.
    needed = bisect_left(range(len(candidates)), True, key=lambda count: passes(candidates[:count]))
    chosen = list(candidates[:needed])
    for name in reversed(candidates[: max(0, needed - 1)]):
        fewer = [other for other in chosen if other != name]
        if passes(fewer):
            chosen = fewer
    return chosen
