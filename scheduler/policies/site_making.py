"""Makes the sites of a decision: what is there, and the memory that running jobs give back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.placing.places import level_name
from scheduler.policies.site_groups import FEW, GangSite
from scheduler.policies.timeline import Brief, Timeline
from scheduler.types import Capacity, DeviceKey, JobView, NodeSize


def sites_of(capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> list[GangSite]:
    """An idle pool; `jobs` say whose memory comes back."""
    sites = list(_wide(capacity, now_s) if capacity.spans_nodes else _narrow(capacity.nodes, now_s))
    if capacity.asks_memory:
        _add_memory(sites, capacity, jobs, now_s)
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


def _add_memory(sites: Sequence[GangSite], capacity: Capacity, jobs: Sequence[JobView], now_s: float) -> None:
    """Free now, and what running jobs give back: they are entered again one by one.

    Where gangs span nodes that of a level together, like their devices: which node has it shows when one starts.
    """
    free = {node.name: node.memory_free_bytes for node in capacity.nodes}
    for job in jobs:
        running = job.running
        if running and not running.leaving:
            for name, share in running.memory_on.items():
                if name in free:
                    free[name] += share
    idle: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for node in capacity.nodes:
        place = level_name(node.sandbox_level) if capacity.spans_nodes else node.name
        idle[place] += min(free[node.name], node.memory_bytes)
        whole[place] += node.memory_bytes
    lines = {place: Timeline(now_s, free_bytes) for place, free_bytes in idle.items()}
    for site in sites:
        site.memory, site.memory_bytes = lines[site.hint], whole[site.hint]
