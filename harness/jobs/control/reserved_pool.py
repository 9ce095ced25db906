"""Devices that are kept for a project now: a pool of their own in which its jobs are placed first. Reads only.

To everybody else such devices are gone, and so they are in the decision about the whole pool. What is placed on them is
shown there as running, so that quota and memory count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.jobs.control.views import Facts
from scheduler.types import JobView, NodeView, Placement, PoolView, Quotas, Running


def projects_kept_for(facts: Facts) -> list[str]:
    """Ids of the projects that devices are kept for now."""
    kept = (kept for node in facts.pool.nodes for device in node.devices for kept in device.reserved)
    return sorted({one.project for one in kept if one.project and one.start_s <= facts.now_s < one.end_s})


def own_part(facts: Facts, project: str) -> tuple[tuple[JobView, ...], PoolView, Quotas]:
    """(its jobs, these devices as a pool of their own, quotas less what it holds elsewhere)."""
    nodes = tuple(_kept_part(node, project, facts.now_s) for node in facts.pool.nodes)
    there = {device.device_id for node in nodes for device in node.devices}
    mine = [view for view in facts.views if view.project == project]
    inside = tuple(view for view in mine if view.running is None or there.issuperset(view.running.device_ids))
    outside = [view for view in mine if view not in inside]
    return inside, replace(facts.pool, nodes=nodes), _quotas_left(facts.quotas, project, outside)


def _kept_part(node: NodeView, project: str, now_s: float) -> NodeView:
    """The node with only those devices that are kept for the project now."""
    mine = tuple(
        replace(device, reserved=tuple(kept for kept in device.reserved if kept.project != project))
        for device in node.devices
        if any(kept.project == project and kept.start_s <= now_s < kept.end_s for kept in device.reserved)
    )
    return replace(node, devices=mine)


def _quotas_left(quotas: Quotas, project: str, outside: Sequence[JobView]) -> Quotas:
    if project not in quotas:
        return quotas
    held = Counter[str]()
    for view in outside:
        if view.running is not None:
            held[view.running.option.kind] += view.running.option.count
    quota = quotas[project]
    left = {kind: max(0, limit - held[kind]) for kind, limit in quota.devices.items()}
    return {**quotas, project: replace(quota, devices=left)}


def with_started(facts: Facts, placements: Sequence[Placement]) -> Facts:
    """The facts once these have started."""
    if not placements:
        return facts
    by_id = {start.job_id: start for start in placements}
    node_of = {device.device_id: node.name for node in facts.pool.nodes for device in node.devices}
    views = tuple(_started(view, by_id.get(view.job_id), node_of, facts.now_s) for view in facts.views)
    taken = {device for start in placements for device in start.device_ids}
    memory = Counter[str]()
    for view in views:
        if view.running is not None and view.job_id in by_id:
            memory.update(view.running.memory_on)
    nodes = tuple(_held(node, taken, memory[node.name]) for node in facts.pool.nodes)
    return replace(facts, views=views, pool=replace(facts.pool, nodes=nodes))


def _started(view: JobView, start: Placement | None, node_of: Mapping[str, str], now_s: float) -> JobView:
    """The job as it runs; nobody asks it for anything before it has begun."""
    if start is None:
        return view
    on_node = Counter(node_of[device] for device in start.device_ids)
    running = Running(
        option=start.option, nodes=start.nodes, device_ids=start.device_ids, started_s=now_s, last_change_s=now_s,
        counts=tuple(on_node[node] for node in start.nodes),
    )  # fmt: skip
    return replace(view, running=running, can_pause=False)


def _held(node: NodeView, taken: set[str], memory_bytes: int) -> NodeView:
    if taken.isdisjoint(node.device_ids):
        return node
    devices = tuple(replace(device, free=device.free and device.device_id not in taken) for device in node.devices)
    return replace(node, devices=devices, memory_held_bytes=node.memory_held_bytes + memory_bytes)
