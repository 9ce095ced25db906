"""Reservations that come, as a plan sees them: they bind everybody but the run that holds the device now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.policies.site_groups import GangSite
from scheduler.types import Capacity, JobView


class _Kept(NamedTuple):
    """One device of a site for a while."""

    site: GangSite
    start_s: float
    end_s: float


class Reservations:
    """Those of devices that are planned with; of devices that are free and kept now nothing is planned."""

    def __init__(self, sites: Sequence[GangSite], capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> None:
        """Enter all of them into the sites."""
        self._now_s = now_s
        self._on: dict[str, list[_Kept]] = {}
        """Running job -> those of its devices."""
        kept = [(node, device) for node in capacity.pool.nodes if node.is_kept for device in node.devices]
        holders = {
            device_id: job.job_id
            for job in (jobs if kept else ())
            if job.running is not None and job.is_running
            for device_id in job.running.device_ids
        }
        by_node = {(site.name, site.key): site for site in sites}
        by_level = {(site.level, site.key): site for site in sites}
        for node, device in kept:
            key = (device.kind, device.model_name)
            site = by_level.get((node.sandbox_level, key)) if capacity.spans_nodes else by_node.get((node.name, key))
            holder = holders.get(device.device_id, "")
            if site is None or (not holder and any(keep.start_s <= now_s < keep.end_s for keep in device.reserved)):
                continue
            for keep in device.reserved:
                site.devices.take(1, keep.start_s, keep.end_s)
                if holder:
                    self._on.setdefault(holder, []).append(_Kept(site, keep.start_s, keep.end_s))

    def bind(self, job: JobView) -> bool:
        """Whether there are any on what it holds."""
        return job.job_id in self._on

    def lift(self, job: JobView, from_s: float, until_s: float) -> None:
        """What runs is stopped by none: its devices are its own meanwhile, whoever they are kept for."""
        for site, start_s, end_s in self._on.get(job.job_id, ()):
            site.devices.give(1, max(start_s, from_s), min(end_s, until_s))

    def restore(self, job: JobView, from_s: float, until_s: float) -> None:
        """Undo `lift`."""
        for site, start_s, end_s in self._on.get(job.job_id, ()):
            site.devices.take(1, max(start_s, from_s), min(end_s, until_s))
