"""Makes the sites of a decision: what is there, and the memory that running jobs give back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.policies.site_groups import FEW, GangSite
from scheduler.policies.timeline import Brief, Timeline
from scheduler.types import Capacity, DeviceKey, JobView, NodeSize


def sites_of(capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> list[GangSite]:
    """An idle pool; `jobs` say whose memory comes back."""
    sites = list(_wide(capacity, now_s) if capacity.spans_nodes else _narrow(capacity.nodes, now_s))
    if capacity.asks_memory and not capacity.spans_nodes:
        _add_memory(sites, capacity.nodes, jobs, now_s)
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
