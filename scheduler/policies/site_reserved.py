"""Reservations as a plan sees them: they bind everybody but the run that holds the device now, and the jobs of the
project that it is kept for.

The sites are as all others find them. Beside each stands, for each project, what of it is kept for its jobs and not
planned for yet: they find that as well, and use it up first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from scheduler.policies.site_groups import GangSite
from scheduler.policies.timeline import Timeline
from scheduler.types import Capacity, DeviceView, JobView

Step = tuple[float, float, float]
"""(start, end, how many devices)."""


class _Kept(NamedTuple):
    """One device of a site for a while."""

    site: GangSite
    start_s: float
    end_s: float
    own: Timeline | None
    """What is kept of that site for the same project."""


class _Own(NamedTuple):
    """Devices of a site that are kept for one project."""

    site: GangSite
    left: Timeline
    """How many of them nobody has, and nothing is planned on."""


class Reservations:
    """Those of devices that are planned with; of devices that are free and kept from all now nothing is planned."""

    def __init__(self, sites: Sequence[GangSite], capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> None:
        """Enter all of them into the sites."""
        self._now_s = now_s
        self._on: dict[str, list[_Kept]] = {}
        """Running job -> those of its devices."""
        self._own: dict[str, dict[int, _Own]] = {}
        """Project -> by site."""
        self.idle: list[GangSite] = []
        """Of each free device that is kept for some project now."""
        kept = [(node, device) for node in capacity.pool.nodes if node.is_kept for device in node.devices]
        holders = {
            device_id: job.job_id
            for job in (jobs if kept else ())
            if job.running is not None and job.is_running
            for device_id in job.running.device_ids
        }
        by_node = {(site.name, site.key): site for site in sites}
        by_level = {(site.level, site.key): site for site in sites} if capacity.spans_nodes else {}
        for node, device in kept:
            key = (device.kind, device.model_name)
            site = by_level.get((node.sandbox_level, key)) if capacity.spans_nodes else by_node.get((node.name, key))
            holder = holders.get(device.device_id, "")
            if site is not None and node.takes_work:
                self._enter(site, device, holder)

    def _enter(self, site: GangSite, device: DeviceView, holder: str) -> None:
        keeper = device.keeper(self._now_s)
        if not holder and (keeper == "" or not device.free):
            return
        starts = sorted(keep.start_s for keep in device.reserved if keep.start_s > self._now_s)
        for keep in device.reserved:
            end_s = keep.end_s
            if not holder and keep.holds(self._now_s):
                # Others do not plan with it for after that either: who may use it now need not have left by then.
                end_s = starts[0] if starts else math.inf
                self.idle.append(site)
            own = self._own_of(keep.project, site).left if keep.project else None
            site.devices.take(1, keep.start_s, end_s)
            if own is not None:
                own.give(1, keep.start_s, end_s)
            if holder:
                self._on.setdefault(holder, []).append(_Kept(site, keep.start_s, end_s, own))

    def _own_of(self, project: str, site: GangSite) -> _Own:
        return self._own.setdefault(project, {}).setdefault(id(site), _Own(site, Timeline(self._now_s, 0)))

    def bind(self, job: JobView) -> bool:
        """Whether there are any on what it holds."""
        return job.job_id in self._on

    def are_for(self, project: str) -> bool:
        """Whether there are any for jobs of this project."""
        return project in self._own

    def sites_for(self, project: str) -> list[GangSite]:
        """Where something is kept for jobs of this project."""
        return [own.site for own in self._own.get(project, {}).values()]

    def lift(self, job: JobView, from_s: float, until_s: float) -> None:
        """What runs is stopped by none: its devices are its own meanwhile, whoever they are kept for."""
        for site, start_s, end_s, own in self._on.get(job.job_id, ()):
            site.devices.give(1, max(start_s, from_s), min(end_s, until_s))
            if own is not None:
                own.take(1, max(start_s, from_s), min(end_s, until_s))

    def restore(self, job: JobView, from_s: float, until_s: float) -> None:
        """Undo `lift`."""
        for site, start_s, end_s, own in self._on.get(job.job_id, ()):
            site.devices.take(1, max(start_s, from_s), min(end_s, until_s))
            if own is not None:
                own.give(1, max(start_s, from_s), min(end_s, until_s))

    @contextmanager
    def seen_by(self, project: str, changed: Callable[[GangSite], None]) -> Iterator[None]:
        """Have the sites look meanwhile as jobs of this project find them. `changed` is told of each that differs."""
        found = [
            (own.site, start_s, end_s, left)
            for own in self._own.get(project, {}).values()
            for start_s, end_s, left in own.left.steps(self._now_s, math.inf)
            if left
        ]
        for site, start_s, end_s, left in found:
            site.devices.give(left, start_s, end_s)
            changed(site)
        try:
            yield
        finally:
            for site, start_s, end_s, left in found:
                site.devices.take(left, start_s, end_s)
                changed(site)

    def use(self, job: JobView, site: GangSite, width: int, start_s: float, end_s: float) -> list[Step]:
        """Plan so many devices first on what is kept for its project. Returns what it takes of all others."""
        own: Mapping[int, _Own] = self._own.get(job.project, {})
        if id(site) not in own:
            return [(start_s, end_s, width)]
        left = own[id(site)].left
        others: list[Step] = []
        for first_s, last_s, count in left.steps(start_s, end_s):
            used = max(0.0, min(count, width))
            if used:
                left.take(used, first_s, last_s)
            others.append((first_s, last_s, width - used))
        return others

    def own_now(self, job: JobView, site: GangSite) -> float:
        """Devices of the site that only jobs of this project may have now."""
        own = self._own.get(job.project, {}).get(id(site))
        return max(0.0, own.left.free_now) if own else 0.0

    def lend_own(self, job: JobView, site: GangSite, width: float) -> float:
        """Give so many of them away until the next decision, once all is planned; returns how many there were."""
        own = self._own.get(job.project, {}).get(id(site))
        lent = min(width, self.own_now(job, site))
        if own and lent:
            own.left.lend(lent)
        return lent
