"""Reservations as a plan sees them: they bind everybody but the run that holds the device now, and the jobs of the
project that it is kept for.

A site is as most jobs find it. Of one where something is kept for a project there is a twin, as that project's jobs
find it; what is planned on one is entered into all. What such a job takes of what is kept for it, others never had.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler.policies.site_groups import GangSite
from scheduler.policies.timeline import Timeline
from scheduler.policies.whole_devices import WholeDevices
from scheduler.types import Capacity, DeviceKey, DeviceView, JobView

Step = tuple[float, float, float]
"""(start, end, how many devices)."""


class _Own(NamedTuple):
    """A site as the jobs of one project find it."""

    site: GangSite
    left: Timeline
    """How many devices of those that are kept for it nobody has, and nothing is planned on."""


@dataclass(slots=True)
class _Family:
    """One site and its twins."""

    base: GangSite
    own: dict[str, _Own] = field(default_factory=dict)
    """By project."""

    def others(self, project: str) -> Iterator[GangSite]:
        """As everybody but this project finds it."""
        yield self.base
        for name, own in self.own.items():
            if name != project:
                yield own.site


class _Kept(NamedTuple):
    """One device of a site for a while."""

    family: _Family
    start_s: float
    end_s: float
    project: str
    device_id: str

    def enter(self) -> None:
        """Keep it from others, who may not run on it and on another one before or after either."""
        self.move(1)
        for site in self.family.others(self.project):
            site.whole = site.whole or WholeDevices(site.total)
            site.whole.keep(self.device_id, self.start_s, self.end_s)

    def move(self, sign: int, from_s: float = -math.inf, until_s: float = math.inf) -> None:
        """Keep the device from others (1), or leave it to them as well (-1), as long as it lasts in that time."""
        start_s, end_s = max(self.start_s, from_s), min(self.end_s, until_s)
        for site in self.family.others(self.project):
            (site.devices.take if sign > 0 else site.devices.give)(1, start_s, end_s)
        own = self.family.own.get(self.project)
        if own is not None:
            (own.left.give if sign > 0 else own.left.take)(1, start_s, end_s)

    def unplanned(self, from_s: float, until_s: float) -> list[tuple[float, float]]:
        """The part of that time within which something that is kept for its project is left."""
        own = self.family.own.get(self.project)
        steps = own.left.steps(from_s, until_s) if own is not None else [(from_s, until_s, 1.0)]
        return [(start_s, end_s) for start_s, end_s, count in steps if count >= 1]


class Lifted(NamedTuple):
    """What `Reservations.lift` has done."""

    kept: _Kept
    start_s: float
    end_s: float


class Reservations:
    """Those of devices that are planned with."""

    def __init__(self, sites: Sequence[GangSite], capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> None:
        """Enter all of them into the sites."""
        self._now_s = now_s
        self._on: dict[str, list[_Kept]] = {}
        """Running job -> those of its devices."""
        self._families: dict[int, _Family] = {}
        """Of each site with reservations, by the site and by its twins."""
        self._twins: dict[tuple[str, DeviceKey], list[GangSite]] = {}
        self._after: list[_Kept] = []
        """The time after that of devices that are idle and kept for some project now."""
        self.idle: list[tuple[GangSite, float]] = []
        """Of each free device that is kept now: until when others do not plan with it."""
        kept = [(node, device) for node in capacity.pool.nodes if node.is_kept for device in node.devices]
        holders = {
            device_id: job.job_id
            for job in (jobs if kept else ())
            if job.running is not None and job.is_running
            for device_id in job.running.device_ids
        }
        by_node = {(site.name, site.key): site for site in sites}
        by_level = {(site.level, site.key): site for site in sites} if capacity.spans_nodes else {}
        found: list[_Kept] = []
        for node, device in kept:
            key = (device.kind, device.model_name)
            site = by_level.get((node.sandbox_level, key)) if capacity.spans_nodes else by_node.get((node.name, key))
            if site is not None and node.takes_work:
                found += self._enter(site, device, holders.get(device.device_id, ""))
        for keep in found:  # all twins are there by now
            keep.enter()
        self.projects = {keep.project for keep in found if keep.project}
        """For whose jobs there are any."""

    def _enter(self, site: GangSite, device: DeviceView, holder: str) -> Iterator[_Kept]:
        now_s = self._now_s
        if not holder and (not device.free or device.is_open_ended(now_s)):
            return
        family = self._families.setdefault(id(site), _Family(site))
        present = [keep for keep in device.reserved if keep.holds(now_s)]
        if present and not holder:
            end_s = max(keep.end_s for keep in present)
            project = next((keep.project for keep in present if keep.project), "")
            self.idle.append((site, math.inf if project else end_s))
            next_s = min([keep.start_s for keep in device.reserved if keep.start_s > now_s], default=math.inf)
            if project and end_s < next_s:
                self._after.append(_Kept(family, end_s, next_s, project, device.device_id))
        for keep in device.kept_pieces(now_s):
            if keep.project and keep.project not in family.own:
                line = type(site.devices)(now_s, site.total)
                twin = replace(site, devices=line)
                family.own[keep.project] = _Own(twin, Timeline(now_s, 0))
                self._families[id(twin)] = family
                self._twins.setdefault((keep.project, site.key), []).append(twin)
            made = _Kept(family, keep.start_s, keep.end_s, keep.project, device.device_id)
            if holder:
                self._on.setdefault(holder, []).append(made)
            yield made

    def close(self) -> Iterator[GangSite]:
        """Promises are planned. Nobody else plans with what is idle and kept for a project now for the time after that:
        who may use it now need not have left by then. What was promised there stays. Returns what has changed."""
        for kept in self._after:
            # Promises may lie on any devices of the site: this one is theirs only where no other is left.
            for start_s, end_s, count in kept.family.base.devices.steps(kept.start_s, kept.end_s):
                if count >= 1:
                    kept.move(1, start_s, end_s)
            yield kept.family.base
        self._after = []

    def bind(self, job: JobView) -> bool:
        """Whether there are any on what it holds."""
        return job.job_id in self._on

    def seen(self, site: GangSite, project: str) -> GangSite:
        """The site as jobs of this project find it."""
        family = self._families.get(id(site))
        own = family.own.get(project) if family is not None else None
        return own.site if own is not None else family.base if family is not None else site

    def twins(self, project: str, key: DeviceKey) -> Sequence[GangSite]:
        """Sites of this kind where something is kept for jobs of this project, as they find them."""
        return self._twins.get((project, key), ())

    def lift(self, job: JobView, from_s: float, until_s: float) -> list[Lifted]:
        """What runs is stopped by none: its devices are its own meanwhile, whoever they are kept for.

        Not while all that is kept is planned for: who was to have this one then gets another, which is missed there.
        """
        found = []
        for kept in self._on.get(job.job_id, ()):
            for start_s, end_s in kept.unplanned(from_s, until_s):
                kept.move(-1, start_s, end_s)
                found.append(Lifted(kept, start_s, end_s))
        return found

    def restore(self, lifted: Sequence[Lifted]) -> None:
        """Undo `lift`."""
        for one in lifted:
            one.kept.move(1, one.start_s, one.end_s)

    def take(self, job: JobView, site: GangSite, width: int, start_s: float, end_s: float, *, held: bool) -> list[Step]:
        """Plan so many devices, first on what is kept for its project, but for those that it holds: their reservations
        are lifted. Returns what it takes of all others."""
        family = self._families.get(id(site))
        steps: list[Step] = [(start_s, end_s, width)]
        if family is None:
            site.devices.take(width, start_s, end_s)
            return steps
        own = family.own.get(job.project)
        if own is not None:
            own.site.devices.take(width, start_s, end_s)
            if not held:
                steps = _beyond(own.left, width, start_s, end_s)
        for first_s, last_s, count in steps:
            for other in family.others(job.project) if count else ():
                other.devices.take(count, first_s, last_s)
        return steps

    def lend(self, job: JobView, site: GangSite, width: int) -> None:
        """Give devices away until the next decision, once all is planned."""
        family = self._families.get(id(site))
        if family is None:
            site.devices.lend(width)
            return
        own, count = family.own.get(job.project), float(width)
        if own is not None:
            own.site.devices.lend(width)
            used = max(0.0, min(count, own.left.free_now))
            own.left.lend(used)
            count -= used
        for other in family.others(job.project):
            other.devices.lend(count)


def _beyond(left: Timeline, width: float, start_s: float, end_s: float) -> list[Step]:
    """Take so many of what is left as far as there are; what is missing then."""
    steps = left.steps(start_s, end_s)
    used = [max(0.0, min(count, width)) for _, _, count in steps]
    for (first_s, last_s, _), count in zip(steps, used, strict=True):
        if count:
            left.take(count, first_s, last_s)
    return [(first_s, last_s, width - count) for (first_s, last_s, _), count in zip(steps, used, strict=True)]
