"""Makes the sites of a decision: what is there, reservations that come, and the memory that running jobs give back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.placing.places import end_of
from scheduler.policies.site_groups import FEW, GangSite
from scheduler.policies.timeline import Brief, Timeline
from scheduler.types import Capacity, DeviceKey, JobView, NodeSize


def sites_of(capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> list[GangSite]:
    """An idle pool, coming reservations aside; `jobs` say whose memory comes back."""
    with_memory = not capacity.spans_nodes and any(option.memory_bytes for job in jobs for option in job.options)
    sites = list(_wide(capacity, now_s) if capacity.spans_nodes else _narrow(capacity.nodes, now_s))
    if with_memory:
        _add_memory(sites, capacity.nodes, jobs, now_s)
    _keep_reserved(sites, capacity, jobs, now_s)
    return sites


def _narrow(nodes: Sequence[NodeSize], now_s: float) -> Iterator[GangSite]:
    line = Brief if len(nodes) > FEW else Timeline
    for node in sorted(nodes, key=lambda node: node.name):
        for key, total in node.total.items():
            if total:
                yield GangSite(node.name, key, node.sandbox_level, total, line(now_s, total), node.memory_bytes)


def _wide(capacity: Capacity, now_s: float) -> Iterator[GangSite]:
    sums: dict[tuple[DeviceKey, int], int] = {}
    for node in capacity.nodes:
        for key, total in node.total.items():
            sums[key, node.sandbox_level] = sums.get((key, node.sandbox_level), 0) + total
    for (key, level), total in sorted(sums.items()):
        if total:
            yield GangSite("", key, level, total, Timeline(now_s, total))


def _add_memory(sites: Sequence[GangSite], nodes: Sequence[NodeSize], jobs: Sequence[JobView], now_s: float) -> None:
    """Free now, and what running jobs give back: they are entered again one by one."""
    free = {node.name: node.memory_free_bytes for node in nodes}
    for job in jobs:
        running = job.running
        if running and not running.leaving:
            for name, share in running.memory_on.items():
                if name in free:
                    free[name] += share
    lines = {node.name: Timeline(now_s, min(free[node.name], node.memory_bytes)) for node in nodes}
    for site in sites:
        site.memory = lines[site.name]


def _keep_reserved(sites: Sequence[GangSite], capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> None:
    """Reservations of single devices; those that are kept now and free are not in the capacity.

    What runs is stopped by none: of a device that is held only the time after that is kept.
    """
    kept = [(node, device) for node in capacity.pool.nodes if node.is_kept for device in node.devices]
    ends = {
        device_id: end_of(job, now_s)
        for job in (jobs if kept else ())
        if job.running is not None and job.is_running
        for device_id in job.running.device_ids
    }
    by_node = {(site.name, site.key): site for site in sites}
    by_level = {(site.level, site.key): site for site in sites}
    for node, device in kept:
        key = (device.kind, device.model_name)
        site = by_level.get((node.sandbox_level, key)) if capacity.spans_nodes else by_node.get((node.name, key))
        until_s = ends.get(device.device_id)
        if site is None or (until_s is None and any(keep.start_s <= now_s < keep.end_s for keep in device.reserved)):
            continue
        for keep in device.reserved:
            site.devices.take(1, max(keep.start_s, now_s if until_s is None else until_s), keep.end_s)
