"""`SpanningSites`: `GangSites` of a pool whose gangs may span nodes, where some jobs have to stay on one.

There the devices of a level are counted together, which says nothing of who has to have them on one node. So all that
is planned is entered node by node as well: such a job gets a node, and later gangs leave it what they would take of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_groups import GangSite, Parts, all_free_s
from scheduler.policies.site_slot import Slot
from scheduler.policies.timeline import Timeline
from scheduler.types import Capacity, JobView, Option, Quotas, Running

_MOST_TRIES = 64
"""Starts that are tried for a job that stays on one node."""
_MOST_SPREADS = 8
"""The same for a gang beside such jobs: in an overloaded pool each has hundreds to try. Then it begins where enough is
free for good, or not at all."""


def sites_in(capacity: Capacity, jobs: Sequence[JobView], quotas: Quotas, now_s: float) -> GangSites:
    """The pool over time, as its jobs need it."""
    made = SpanningSites if capacity.spans_nodes and capacity.asks_one_node else GangSites
    return made(capacity, jobs, quotas, now_s)


class SpanningSites(GangSites):
    """Of levels, and of their nodes."""

    def __init__(self, capacity: Capacity, jobs: Sequence[JobView], quotas: Quotas, now_s: float) -> None:
        """Quotas are the same on both."""
        super().__init__(capacity, jobs, quotas, now_s)
        narrow = replace(capacity, spans_nodes=False, pool=replace(capacity.pool, spans_nodes=False))
        self._nodes = GangSites(narrow, jobs, {}, now_s)
        self._span_level = capacity.pool.span_level
        self._is_bound = False
        """Whether a job that stays on one node has one from some moment on: others leave it that."""

    def first(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float,
        by_s: float, ends_first: bool,
    ) -> Slot | None:  # fmt: skip
        """See `GangSites.first`."""
        if not option.may_span(job.minimum_sandbox_level, self._span_level):
            return self._first_alone(job, option, run_s, latest_s, tokens, from_s, by_s, ends_first)
        find = partial(super().first, job, option, run_s, latest_s, tokens, by_s=by_s, ends_first=ends_first)
        slot = find(from_s=from_s)
        if slot is None or (not self._is_bound and slot.start_s > self.now_s):
            return slot
        for _ in range(_MOST_SPREADS):
            nodes = self._spread(job, slot)
            if sum(width for _, width in nodes) >= option.count:
                return slot._replace(nodes=nodes)  # who begins now lies where it is entered
            if not self._is_bound:
                return slot
            next_s = self._next_s(job, slot)
            slot = find(from_s=next_s) if math.isfinite(next_s) else None
            if slot is None:
                return None
        return self._surely(job, option, slot, find)

    def _surely(self, job: JobView, option: Option, slot: Slot, find: Callable[..., Slot | None]) -> Slot | None:
        """Where nodes have so many devices for good. By its level alone it would be given those of others."""
        levels = slot.parts or ((slot.site, option.count),)
        groups = self._nodes.seen_by(job).groups
        sure_s = max(groups[site.key].sure_s(width, site.level) for site, width in levels)
        found = find(from_s=max(slot.start_s, sure_s)) if math.isfinite(sure_s) else None
        nodes = self._spread(job, found) if found else ()
        return found._replace(nodes=nodes) if found and sum(width for _, width in nodes) >= option.count else None

    def _first_alone(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float,
        by_s: float, ends_first: bool,
    ) -> Slot | None:  # fmt: skip
        """On one node, when its level has that many as well."""
        for _ in range(_MOST_TRIES):
            there = self._nodes.first(job, option, run_s, latest_s, None, from_s, by_s, ends_first)
            if there is None:
                return None
            nodes = there.parts or ((there.site, option.count),)
            levels = tuple((self._level_of(job, site), width) for site, width in nodes)
            whole_s = there.end_s - there.start_s
            start_s = all_free_s(levels, option, whole_s, min(latest_s, by_s - whole_s), tokens, there.start_s)
            if start_s <= there.start_s:
                parts = levels if there.parts else ()
                return there._replace(site=levels[0][0], parts=parts, nodes=nodes)
            if math.isinf(start_s):
                return None
            from_s = start_s
        return None

    def _level_of(self, job: JobView, site: GangSite) -> GangSite:
        found = self.known.at(site.name, site.key)
        if found is None:
            raise ValueError(f"node {site.name} belongs to no level")
        return self._reserved.seen(found, job.project)

    def _on_nodes(self, job: JobView, level_site: GangSite) -> list[GangSite]:
        sites = self._nodes.seen_by(job).groups[level_site.key].sites
        return [site for site in sites if site.level == level_site.level]

    def _spread(self, job: JobView, slot: Slot) -> Parts:
        """Where such a gang would lie: the fullest node that has it all, else the fewest nodes; as much as there is."""
        found: list[tuple[GangSite, int]] = []
        for level_site, count in slot.parts or ((slot.site, slot.option.count),):
            alone = self._one_node(job, slot, level_site, count)
            found += [(alone, count)] if alone else self._apart(job, slot, level_site, count)
        return tuple(found)

    def _one_node(self, job: JobView, slot: Slot, level_site: GangSite, count: int) -> GangSite | None:
        group = self._nodes.seen_by(job).groups[level_site.key]
        sites = group.candidates(count, level_site.level, job.data_on, slot.option.memory_bytes)
        run_s, start_s = slot.end_s - slot.start_s, slot.start_s
        here = (site for site in sites if site.level == level_site.level)
        return next((site for site in here if site.devices.earliest(count, run_s, start_s, start_s) <= start_s), None)

    def _apart(self, job: JobView, slot: Slot, level_site: GangSite, count: int) -> Iterable[tuple[GangSite, int]]:
        """From where most is free, and stays so; for some time only where that is not enough: of many sites for who
        could begin now, since looking at each takes long."""
        group = self._nodes.seen_by(job).groups[level_site.key]
        total, free = group.free_from(slot.start_s, level_site.level)
        if total >= count or (group.is_large and slot.start_s > self.now_s):
            return _filled(free, count)
        sites = self._on_nodes(job, level_site)
        least = [(site, int(site.devices.least(slot.start_s, slot.end_s))) for site in sites]
        return _filled(sorted(least, key=itemgetter(1), reverse=True), count)

    def _next_s(self, job: JobView, slot: Slot) -> float:
        """The next moment when something changes on a node."""
        return min(site.devices.next_s(slot.start_s) for site in self._on_nodes(job, slot.site))

    def may_go_on(
        self, job: JobView, running: Running, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> bool:
        """See `GangSites.may_go_on`; nobody else was given a part of its nodes before."""
        found = super().may_go_on(job, running, run_s, latest_s, tokens, from_s)
        return found and self._nodes.may_go_on(job, running, run_s, latest_s, None, from_s)

    def take(self, job: JobView, slot: Slot) -> None:
        """See `GangSites.take`."""
        super().take(job, slot)
        if slot.goes_on:  # `hold` has entered it
            return
        nodes = slot.nodes or self._spread(job, slot)
        for site, width in nodes:
            self._nodes.take(job, Slot(_part(slot.option, width), site, slot.start_s, slot.end_s))
        if not slot.option.may_span(job.minimum_sandbox_level, self._span_level) and slot.option.count > 1:
            self._is_bound = True

    def hold(self, job: JobView, end_s: float, from_s: float = -math.inf) -> None:
        """See `GangSites.hold`."""
        super().hold(job, end_s, from_s)
        self._nodes.hold(job, end_s, from_s)

    def keep_for_good(self, job: JobView, from_s: float) -> None:
        """See `GangSites.keep_for_good`."""
        super().keep_for_good(job, from_s)
        self._nodes.keep_for_good(job, from_s)

    def promises_end(self) -> None:
        """See `GangSites.promises_end`."""
        super().promises_end()
        self._nodes.promises_end()

    def room_to_grow(self, job: JobView, slot: Slot, width: int, for_s: float = 0.0) -> bool:
        """See `GangSites.room_to_grow`."""
        if not super().room_to_grow(job, slot, width, for_s):
            return False
        if not self._is_bound:
            return True
        here = self._node_of(job, slot)
        return here is not None and self._nodes.room_to_grow(job, here, width, for_s)

    def grow(self, job: JobView, slot: Slot, width: int) -> None:
        """See `GangSites.grow`."""
        super().grow(job, slot, width)
        here = self._node_of(job, slot)
        if here is not None:
            self._nodes.grow(job, here, width)

    def _node_of(self, job: JobView, slot: Slot) -> Slot | None:
        """The slot on its node; None where it has several, or nobody knows."""
        nodes = self._nodes.known.parts_of(job.running) if slot.goes_on and job.running else slot.nodes
        return slot._replace(site=nodes[0][0], parts=()) if len(nodes) == 1 else None


def _filled(free: Iterable[tuple[GangSite, int]], count: int) -> Iterator[tuple[GangSite, int]]:
    """As many as are wanted, of the first ones; as much as there is."""
    for site, most in free:
        width = min(most, count)
        if width <= 0:
            return
        yield site, width
        count -= width


def _part(option: Option, width: int) -> Option:
    """So many devices of it, with their share of its memory."""
    return replace(option, count=width, parts=(), memory_bytes=-(-option.memory_bytes * width // option.count))
