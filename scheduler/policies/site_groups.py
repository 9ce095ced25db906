"""`GangSite`: what one gang may use together. `Group`: all sites of one kind and model, and which of them to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from scheduler.data_way import DataWay
from scheduler.placing.buckets import Buckets
from scheduler.placing.data_times import DataTimes, Seconds
from scheduler.placing.places import level_name
from scheduler.policies.timeline import Brief, Timeline
from scheduler.policies.whole_devices import WholeDevices
from scheduler.types import DeviceKey, Option

FEW = 8
"""Up to so many sites are looked at one by one; of more, only the one that is ready first."""


@dataclass(slots=True)
class GangSite:
    """Devices that one gang may use together."""

    name: str
    """Of the node; empty for several."""
    key: DeviceKey
    level: int
    total: int
    devices: Timeline | Brief
    memory_bytes: int = 0
    memory: Timeline | None = None
    """None where no job asks for any."""
    whole: WholeDevices | None = None
    """None where no device is kept for others."""
    hint: str = field(init=False)
    """What `assign` looks at first: the node, or the sandbox level where gangs span nodes."""

    def __post_init__(self) -> None:
        """Name it once: a plan asks for each job."""
        self.hint = self.name or level_name(self.level)

    def is_sure(self, width: int, memory_bytes: int) -> bool:
        """Whether a gang may certainly begin there as soon as its devices are free for good."""
        has_memory = not memory_bytes or self.memory is None or self.memory.floor >= memory_bytes
        return has_memory and (self.whole is None or self.whole.is_sure(width))

    def has_ever(self, memory_bytes: int) -> bool:
        """Whether it has so much memory while nobody runs there."""
        return self.memory is None or self.memory_bytes >= memory_bytes

    def may_have(self, memory_bytes: int) -> bool:
        """Whether it has so much memory for a gang, once what is planned is over."""
        return not memory_bytes or self.memory is None or self.memory.at_last >= memory_bytes


Line = Timeline | Brief | WholeDevices
Parts = tuple[tuple[GangSite, int], ...]
"""Sites of one node (or level), and the devices that a gang has in each."""


def beside(parts: Parts, option: Option, tokens: Timeline | None) -> list[tuple[Line, float]]:
    """(what, how much of it) has to be free at once with the devices of the first site of a gang."""
    site = parts[0][0]
    if not (len(parts) > 1 or site.whole or tokens or option.memory_bytes):
        return []
    found: list[tuple[Line, float]] = []
    if len(parts) > 1:
        found += [(other.devices, width) for other, width in parts[1:]]
    if len(parts) > 1 or site.whole:
        found += [(one.whole, width) for one, width in parts if one.whole]
    if tokens:
        found.append((tokens, option.count))
    if option.memory_bytes and site.memory:
        found.append((site.memory, option.memory_bytes))
    return found


def all_free_s(
    parts: Parts, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
) -> float:
    """When all that a gang needs is free at once, from `from_s` on; infinite where it is not by `latest_s`."""
    site, width = parts[0]
    start_s = site.devices.earliest(width, run_s, latest_s, from_s)
    others = beside(parts, option, tokens) if start_s < math.inf else ()
    while others and start_s < math.inf:
        later_s = max(line.earliest(amount, run_s, latest_s, start_s) for line, amount in others)
        if later_s <= start_s:
            return start_s
        start_s = site.devices.earliest(width, run_s, latest_s, later_s)
    return start_s


def mixture_of(sites: Sequence[GangSite], option: Option) -> Parts:
    """Where a gang over several models could go among the sites of one place; nothing where they have not enough.

    Of an open model: most from where most is free, counted without those that are held where these are enough.
    """
    if option.parts:
        by_key = {site.key: site for site in sites}
        named = [(by_key.get((option.kind, name)), count) for name, count in option.parts]
        found = tuple((site, count) for site, count in named if site is not None and site.total >= count)
        return found if len(found) == len(named) else ()
    kind = [site for site in sites if site.key[0] == option.kind]
    free = _filled([(site, int(site.devices.free_now)) for site in kind], option.count)
    return free or _filled([(site, site.total) for site in kind], option.count)


def _filled(sites: Sequence[tuple[GangSite, int]], count: int) -> Parts:
    found = []
    for site, most in sorted(sites, key=lambda pair: (-pair[1], pair[0].key)):
        taken = min(most, count)
        if taken > 0:
            found.append((site, taken))
            count -= taken
    return () if count else tuple(found)


class Group:
    """All sites of one kind and model."""

    def __init__(self, sites: Sequence[GangSite]) -> None:
        """Nothing is planned yet."""
        self.sites = list(sites)
        self.most = max(site.total for site in sites)
        self.is_large = len(self.sites) > FEW
        if self.is_large:
            self._index = {id(site): index for index, site in enumerate(self.sites)}
            self._on: dict[frozenset[str], frozenset[int]] = {frozenset(): frozenset()}
            self._by_free = Buckets((index, max(0, int(site.devices.floor))) for index, site in enumerate(self.sites))
            """Sites by how many devices are free from now on for good."""
            self._ready = np.empty((self.most + 1, len(self.sites)))
            """[w, site]: since when w devices are free for good."""
            self._stale = set(range(len(self.sites)))
            """Sites that have changed since."""
            self._free_now = np.empty(len(self.sites))
            self._most_now = float(self.most)
            """No site has more devices free now: what is planned never comes back."""
            self._ways: dict[DataWay, Seconds] = {}
            """Seconds until some data are at each site, by upper ends."""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {site.name: index for index, site in enumerate(self.sites)}

    @cached_property
    def _levels(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([site.level for site in self.sites])

    @cached_property
    def _memory(self) -> Seconds:
        return np.array([site.memory_bytes if site.memory else math.inf for site in self.sites])

    def may_start_now(self, width: int) -> bool:
        """Whether so many devices could be free now in some site; False is certain."""
        if self.is_large:
            return width <= self._most_now
        return any(site.devices.free_now >= width for site in self.sites)

    def candidates(
        self, width: int, level: int, data_on: frozenset[str] = frozenset(), memory_bytes: int = 0
    ) -> Iterable[GangSite]:
        """Sites to try, in this order: of equally full ones those `data_on` first, which have the job's data."""
        if width > self.most:
            return ()
        if self.is_large:
            return self._free_or_soonest(width, level, data_on, memory_bytes)
        fitting = self.fitting(width, level)
        if len(fitting) > 1 and data_on:
            fitting.sort(key=lambda site: site.name not in data_on)
        return sorted(fitting, key=lambda site: site.devices.floor) if len(fitting) > 1 else fitting

    def fitting(self, width: int, level: int) -> list[GangSite]:
        """All sites that would fit the gang if they were idle."""
        return [site for site in self.sites if site.level >= level and site.total >= width]

    def _free_or_soonest(
        self, width: int, level: int, data_on: frozenset[str], memory_bytes: int
    ) -> Iterator[GangSite]:
        # The fullest of those that are free: large gaps stay for wide jobs.
        order = self._by_free.fewest_first(width, self._sites_on(data_on))
        free = (
            site
            for site in map(self.sites.__getitem__, order)
            if site.level >= level and (not memory_bytes or site.has_ever(memory_bytes))
        )
        some_sure = False
        for site in islice(free, FEW):
            yield site
            some_sure = some_sure or site.is_sure(width, memory_bytes)
        sure = None if some_sure else next((site for site in free if site.is_sure(width, memory_bytes)), None)
        if sure is not None:
            yield sure
        elif not some_sure:
            yield from self._soonest(width, level, memory_bytes)

    def _sites_on(self, nodes: frozenset[str]) -> frozenset[int]:
        """Numbers of the sites on these nodes."""
        found = self._on.get(nodes)
        if found is None:
            found = self._on[nodes] = frozenset(self._numbers[name] for name in nodes if name in self._numbers)
        return found

    def _soonest(self, width: int, level: int, memory_bytes: int, later_s: Seconds | float = 0.0) -> Iterator[GangSite]:
        """Sites that are ready first, each so much later; where none of them is sure, the first of those that are, or
        else may be."""
        self._renew()
        fits = self._levels >= level
        if memory_bytes:
            fits &= self._memory >= memory_bytes
        ready = np.where(fits, self._ready[width] + later_s, np.inf)
        first = list(self._first(ready))
        yield from first
        if not any(site.is_sure(width, memory_bytes) for site in first):
            sure = [site.is_sure(width, memory_bytes) for site in self.sites]
            able = [site.may_have(memory_bytes) for site in self.sites]
            yield from list(self._first(np.where(sure, ready, np.inf))) or self._first(np.where(able, ready, np.inf))

    def _renew(self) -> None:
        """Look again at what has changed."""
        for index in self._stale:
            devices = self.sites[index].devices
            self._ready[:, index] = devices.ready(self.most)
            self._free_now[index] = devices.free_now
        self._stale.clear()
        self._most_now = float(self._free_now.max())

    def free_from(self, start_s: float, level: int) -> tuple[int, Iterator[tuple[GangSite, int]]]:
        """Devices of just this level that are free from then on for good: all, and by site, the most first."""
        free = (self._ready_at(level) <= start_s).sum(axis=0)
        sites = self._at_level[level]
        return int(free.sum()), ((sites[at], int(free[at])) for at in np.argsort(-free, kind="stable"))

    def sure_s(self, count: int, level: int) -> float:
        """Since when so many devices of just this level are free for good, wherever they lie; infinite: never."""
        ready = np.sort(self._ready_at(level), axis=None)
        return float(ready[count - 1]) if count <= ready.size else math.inf

    def _ready_at(self, level: int) -> Seconds:
        """[w - 1, site of just this level]: since when w devices are free for good."""
        if self.is_large:
            self._renew()
            return self._ready[1:, self._levels == level]
        return np.array([site.devices.ready(self.most)[1:] for site in self._at_level[level]]).T

    @cached_property
    def _at_level(self) -> dict[int, list[GangSite]]:
        found: dict[int, list[GangSite]] = {}
        for site in self.sites:
            found.setdefault(site.level, []).append(site)
        return found

    def _first(self, ready: Seconds) -> Iterator[GangSite]:
        first_s = float(ready.min())
        if math.isfinite(first_s):
            for found in np.flatnonzero(ready == first_s)[:FEW]:
                yield self.sites[int(found)]

    def quickest(
        self, width: int, level: int, data: DataWay, times: DataTimes, memory_bytes: int = 0
    ) -> Iterable[GangSite]:
        """Of many sites those where such a gang could begin first, its data brought before; `candidates` has all of
        few."""
        if not self.is_large or width > self.most:
            return ()
        ways = self._ways.get(data)
        if ways is None:
            ways = self._ways[data] = times.high_to_each(data, [site.name for site in self.sites])
        return self._soonest(width, level, memory_bytes, ways)

    def changed(self, site: GangSite) -> None:
        """Something was planned there."""
        if self.is_large:
            index = self._index[id(site)]
            self._stale.add(index)
            self._by_free.put(index, max(0, int(site.devices.floor)))
