"""`DataTimes`: how long the data of jobs are on their way to the places of one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scheduler.data_way import HERE, LEAST_S, DataWay, Travel
from scheduler.placing.places import level_name
from scheduler.types import JobView, Option, PoolView, count_of

Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]
Numbers = np.ndarray[tuple[int], np.dtype[np.intp]]
_Devices = tuple[str, str, object]


class DataTimes:
    """A place is a node; where gangs span nodes, all of one sandbox level. Lives within one decision."""

    def __init__(self, pool: PoolView) -> None:
        """Nothing is looked at before a job asks."""
        self._pool = pool
        self._numbers: dict[str, int] = {}
        """Node -> its place in what follows."""
        self._inverse: dict[int, tuple[Mapping[str, float], Seconds]] = {}
        """Identity of rates -> (themselves, seconds per byte to each node)."""
        self._spreads: dict[int, tuple[Mapping[str, float], Seconds]] = {}
        """Identity of spreads -> (themselves, that of each node)."""
        self._seconds: dict[DataWay, tuple[Seconds, Seconds]] = {}
        """To each node: middle and upper end."""
        self._levels: dict[tuple[str, _Devices], Numbers] = {}
        """Nodes of a level that have such devices."""
        self._known: dict[tuple[DataWay, str, _Devices], Travel] = {}

    def to(self, job: JobView, option: Option, place: str) -> Travel:
        """The way of the job's data. Of several nodes that with the longest way counts, since nobody knows
        yet which ones it gets; a job that runs has its data where it runs."""
        data = job.data
        if data is None:
            return HERE
        if not self._pool.spans_nodes:
            return HERE if job.running is not None and place in job.running.nodes else data.to(place)
        devices = (option.kind, option.model_name, option.parts)
        found = self._known.get((data, place, devices))
        if found is None:
            level = self._level(place, option, devices)
            mid_s, high_s = (float(ways[level].max(initial=0.0)) for ways in self._to_nodes(data))
            found = self._known[data, place, devices] = Travel(mid_s, high_s)
        return found

    def high_to_each(self, data: DataWay, nodes: Sequence[str]) -> Seconds:
        """Its upper end for many nodes at once, to which the data go."""
        _, ways = self._to_nodes(data)
        return ways[[self._numbers[name] for name in nodes]]

    def _to_nodes(self, data: DataWay) -> tuple[Seconds, Seconds]:
        found = self._seconds.get(data)
        if found is not None:
            return found
        if not self._numbers:
            self._numbers = {node.name: number for number, node in enumerate(self._pool.nodes)}
        seconds = data.size_bytes * self._of_each(self._inverse, data.bytes_per_s, lambda rate: 1.0 / rate, 0.0)
        for name, share in data.arrived.items():
            if name in self._numbers:
                seconds[self._numbers[name]] *= 1.0 - share
        seconds[[self._numbers[name] for name in data.on if name in self._numbers]] = 0.0
        seconds[seconds < LEAST_S] = 0.0
        both = self._seconds[data] = (seconds, seconds * self._of_each(self._spreads, data.spread, float, 1.0))
        return both

    def _of_each(
        self,
        found: dict[int, tuple[Mapping[str, float], Seconds]],
        told: Mapping[str, float],
        figure: Callable[[float], float],
        else_: float,
    ) -> Seconds:
        """A figure of each node, made once of what all data share."""
        known = found.get(id(told))
        if known is None:
            figures = [figure(told[name]) if name in told else else_ for name in self._numbers]
            known = found[id(told)] = (told, np.array(figures))
        return known[1]

    def _level(self, place: str, option: Option, devices: _Devices) -> Numbers:
        found = self._levels.get((place, devices))
        if found is None:
            numbers = [
                number
                for number, node in enumerate(self._pool.nodes)
                if node.takes_work and level_name(node.sandbox_level) == place and count_of(node.counts, option)
            ]
            found = self._levels[place, devices] = np.array(numbers, dtype=np.intp)
        return found
