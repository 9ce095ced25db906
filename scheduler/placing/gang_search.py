"""Which devices a whole gang gets: the nodes that are tried for it, in what order, and over how many it may lie.

One node where that is possible (the fullest that fits, so that large gaps stay), else the fewest nodes, of one rack if
one has enough. A job that was lost on some nodes gets those where it was lost least, of all that it need not wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from scheduler.placing.free_devices import EVERYWHERE, NOWHERE, FreeDevices, Pick, Zone
from scheduler.placing.places import level_name
from scheduler.placing.shelves import Shelf
from scheduler.types import JobView, Option, PoolView

Picks = list[Pick]
"""A whole gang."""


class GangSearch:
    """Looks at what is free, and takes nothing."""

    def __init__(self, pool: PoolView, free: FreeDevices) -> None:
        """`free`: what this pool has at any moment."""
        self._free = free
        self._spans, self._span_level = pool.spans_nodes, pool.span_level
        levels = {node.sandbox_level for node in pool.nodes} if self._spans else ()
        self._zones = {"": EVERYWHERE} | {level_name(level): Zone(level) for level in levels}

    def planned(self, job: JobView, option: Option, nodes: Mapping[str, int]) -> Picks | None:
        """Just where the policy has it lie; None where it said nothing, or there is no room."""
        named = all(name in self._free.shelves for name in nodes)
        if not named or sum(nodes.values()) != option.count:
            return None
        if option.parts:
            return self._mixed_planned(job, option, nodes)
        picks = [self._free.pick(self._free.shelves[name], job, option, count) for name, count in sorted(nodes.items())]
        found = [pick for pick in picks if pick is not None]
        return found if found and len(found) == len(picks) else None

    def _mixed_planned(self, job: JobView, option: Option, nodes: Mapping[str, int]) -> Picks | None:
        """Of each part what these nodes have, no more on each than was planned there."""
        left, picks = dict(nodes), []
        for part in option.part_options():
            missing = part.count
            for name in sorted(nodes):
                shelf = self._free.shelves[name]
                most = min(missing, left[name], self._free.usable_count(shelf, job, part))
                pick = self._free.pick(shelf, job, part, most) if most else None
                if pick:
                    picks.append(pick)
                    left[name] -= most
                    missing -= most
            if missing:
                return None
        return self._free.joined(picks, job, option)

    def start(self, job: JobView, option: Option, hint: str) -> Picks | None:
        """Devices for a job that starts; `hint`: as in `Plan.hints`."""
        found = self._start(job, option, hint)
        if job.avoid and (found is None or _waits(found)):
            # Rather where it was lost than later.
            at_once = self._start(replace(job, avoid={}), option, hint)
            if found is None or (at_once is not None and not _waits(at_once)):
                return at_once
        return found

    def _start(self, job: JobView, option: Option, hint: str) -> Picks | None:
        picks = self.gang(job, option, (hint,), level=hint)
        return self.gang(job, option, ()) if picks is None and self._spans else picks

    def gang(
        self, job: JobView, option: Option, first: Sequence[str], own: Collection[str] = (), level: str = ""
    ) -> Picks | None:
        """Devices for the whole gang; nodes named in `first` are tried first.

        `level`: only nodes of that sandbox level, where it names one: the stronger ones were left for others.
        """
        zone = self._zones.get(level, NOWHERE) if self._spans else EVERYWHERE
        pick = (self._mixed_alone if option.parts else self._alone)(job, option, first, own, zone)
        if pick is not None and not job.avoid.get(pick.node):
            return [pick]
        if not (self._spans and option.may_span(job.minimum_sandbox_level, self._span_level)):
            return [pick] if pick else None
        apart = (self._mixed_apart if option.parts else self._apart)(job, option, own, zone)
        return _least_lost(job, [pick] if pick else None, apart)

    def _alone(
        self, job: JobView, option: Option, first: Sequence[str], own: Collection[str], zone: Zone
    ) -> Pick | None:
        """All of it on one node."""
        for shelf in self._likely(job, option, first, zone):
            pick = self._free.pick(shelf, job, option, option.count, own)
            if pick:
                return pick
        return None

    def _likely(self, job: JobView, option: Option, first: Sequence[str], zone: Zone) -> Iterator[Shelf]:
        """Nodes that could take the whole gang, in the order in which they are tried; only looked up when asked for."""
        free = self._free
        if option.count > free.widest:
            return
        for name in first:
            shelf = free.shelves.get(name)
            if shelf is not None and zone.has(shelf.node):
                yield shelf
        if job.avoid:
            for shelves in (free.by_free(job, option, zone), free.with_coming(option, zone)):
                yield from sorted(shelves, key=lambda shelf: job.avoid.get(shelf.node.name, 0))
            return
        yield from free.kept_for(job, zone)
        yield from free.by_free(job, option, zone)
        yield from free.with_coming(option, zone)

    def _apart(self, job: JobView, option: Option, own: Collection[str], zone: Zone) -> Picks | None:
        """The fewest nodes of one rack, else of the whole pool; those with its own devices first."""
        racks = [self._fewest(job, option, own, Zone(zone.level, rack)) for rack in self._free.racks]
        near = min((way for way in racks if way), key=lambda way: (_losses(job, way), len(way)), default=None)
        if near and not any(_losses(job, near)):
            return near
        return _least_lost(job, near, self._fewest(job, option, own, zone))

    def _fewest(self, job: JobView, option: Option, own: Collection[str], zone: Zone) -> Picks | None:
        """The gang on as few of the nodes as possible."""
        left = option.count
        picks = []
        shelves = self._free.fullest(job, option, own, zone)
        for shelf, count in _least_lost_first(job, shelves) if job.avoid else shelves:
            most = min(left, count)
            if option.memory_bytes:
                # Of a node whose memory is for fewer of its devices those, and the others elsewhere.
                most = min(most, option.devices_in(shelf.memory_coming_bytes))
            pick = self._free.pick(shelf, job, option, most, own) if most > 0 else None
            if pick:
                picks.append(pick)
                left -= len(pick.devices)
            if not left:
                return picks
        return None

    def _mixed_alone(
        self, job: JobView, option: Option, first: Sequence[str], own: Collection[str], zone: Zone
    ) -> Pick | None:
        """A mixture as it was offered, all of it on one node."""
        shelves = [shelf for shelf in self._free.shelves.values() if zone.has(shelf.node)]
        names = [(shelf.node.name not in first, job.avoid.get(shelf.node.name, 0)) for shelf in shelves]
        for number in sorted(range(len(shelves)), key=names.__getitem__):
            pick = self._free.pick_mixed(shelves[number], job, option, own)
            if pick:
                return pick
        return None

    def _mixed_apart(self, job: JobView, option: Option, own: Collection[str], zone: Zone) -> Picks | None:
        """The same, each model on the fewest nodes."""
        found = [self._apart(job, part, own, zone) for part in option.part_options()]
        joined = chain.from_iterable(picks or () for picks in found)
        return self._free.joined(list(joined), job, option) if all(found) else None


def _waits(picks: Picks) -> bool:
    """Whether somebody has to leave first."""
    return any(pick.waits_for for pick in picks)


def _losses(job: JobView, picks: Picks) -> tuple[int, int]:
    """How often the job was lost on the worst of these nodes, which is enough to lose it again, and on all of them."""
    if not job.avoid:
        return 0, 0
    on_each = [job.avoid.get(pick.node, 0) for pick in picks]
    return max(on_each), sum(on_each)


def _least_lost(job: JobView, *ways: Picks | None) -> Picks | None:
    """The way over nodes where it was lost least; of several the first."""
    if not job.avoid:
        return next(filter(None, ways), None)
    return min((way for way in ways if way), key=lambda way: _losses(job, way), default=None)


def _least_lost_first(job: JobView, shelves: Iterator[tuple[Shelf, int]]) -> list[tuple[Shelf, int]]:
    return sorted(shelves, key=lambda pair: job.avoid.get(pair[0].node.name, 0))
