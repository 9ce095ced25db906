"""The pool as rows of spans: one `Place` per node, or one per sandbox level where gangs span nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from scheduler.placing.spans import UNKNOWN, Row, Span
from scheduler.types import DeviceKey, JobView, NodeView, PoolView, Reserved

LEAST_LEFT_S = 1.0
"""A running job that has used up its estimate ends at any moment, but not this one."""


@dataclass
class Place:
    """One node; or all nodes of one sandbox level, where gangs span nodes."""

    name: str
    """Of the node; of several: `level` and their sandbox level."""
    level: int
    memory_bytes: int
    memory_held_bytes: int
    rows: dict[str, Row] = field(default_factory=dict)
    """By kind of device."""
    models: dict[str, frozenset[str]] = field(default_factory=dict)
    """Kind -> models that are there."""
    memory: Row | None = None
    """None where no job asks for memory."""


def end_of(job: JobView, now_s: float) -> float:
    """Upper end of when a running job ends, unix time; infinite without an estimate. Raises `ValueError`
    for one that does not run."""
    if job.running is None:
        raise ValueError(f"job {job.job_id} does not run")
    return now_s + max(LEAST_LEFT_S, job.left_high_s(job.running.option))


def places_of(pool: PoolView, jobs: Sequence[JobView], now_s: float) -> list[Place]:
    """All places that take work, with what runs there; sorted by name."""
    holders: dict[str, tuple[str, float]] = {}
    for job in jobs:
        if job.running is not None:
            end = ("", now_s) if job.running.leaving else (job.job_id, end_of(job, now_s))
            holders.update(dict.fromkeys(job.running.device_ids, end))
    nodes = sorted((node for node in pool.nodes if node.takes_work), key=lambda node: node.name)
    held = frozenset(holders)
    with_memory = any(option.memory_bytes for job in jobs for option in job.options)
    places = []
    for name, group in _groups(nodes, pool.spans_nodes):
        place = Place(
            name=name,
            level=group[0].sandbox_level,
            memory_bytes=sum(node.memory_bytes for node in group),
            memory_held_bytes=sum(node.memory_held_bytes for node in group),
        )
        _enter_devices(place, group, holders, held, now_s)
        places.append(place)
    if with_memory:
        _enter_memory(places, {node.name: index for index, node in _numbered(nodes, pool.spans_nodes)}, jobs, now_s)
    return places


def level_name(level: int) -> str:
    """What all nodes of one sandbox level are called together."""
    return f"level {level}"


def _groups(nodes: Sequence[NodeView], spans_nodes: bool) -> Iterator[tuple[str, list[NodeView]]]:
    if not spans_nodes:
        return ((node.name, [node]) for node in nodes)
    levels = sorted({node.sandbox_level for node in nodes})
    return ((level_name(level), [node for node in nodes if node.sandbox_level == level]) for level in levels)


def _numbered(nodes: Sequence[NodeView], spans_nodes: bool) -> Iterator[tuple[int, NodeView]]:
    return ((index, node) for index, (_, group) in enumerate(_groups(nodes, spans_nodes)) for node in group)


def _enter_devices(
    place: Place,
    nodes: Sequence[NodeView],
    holders: Mapping[str, tuple[str, float]],
    held: frozenset[str],
    now_s: float,
) -> None:
    counts: dict[tuple[str, tuple[str, float], str, tuple[Reserved, ...]], int] = {}
    free, unknown = ("", now_s), (UNKNOWN, math.inf)
    idle: dict[DeviceKey, int] = {}
    for node in nodes:
        if node.all_free and not node.is_kept:
            # Most nodes are idle, or are held by few jobs: their devices are counted together.
            if node.device_ids.isdisjoint(held):
                for like, count in node.counts.items():
                    idle[like] = idle.get(like, 0) + count
                continue
            for (kind, model), devices in node.by_key.items():
                fates = Counter([holders.get(device.device_id, free) for device in devices])
                for fate, count in fates.items():
                    counts[kind, fate, model, ()] = counts.get((kind, fate, model, ()), 0) + count
            continue
        for device in node.devices:
            fate = holders.get(device.device_id) or (free if device.free else unknown)
            key = (device.kind, fate, device.model_name, device.reserved)
            counts[key] = counts.get(key, 0) + 1
    for (kind, model), count in idle.items():
        key = (kind, free, model, ())
        counts[key] = counts.get(key, 0) + count
    spans: dict[str, list[Span]] = {}
    for (kind, (holder, end_s), model, kept), count in counts.items():
        spans.setdefault(kind, []).append(Span(count, end_s, holder=holder, model=model, kept=kept))
    for kind, items in spans.items():
        models = frozenset([span.model for span in items])
        row = place.rows[kind] = Row(now_s, plain=len(models) == 1 and not any(span.kept for span in items))
        place.models[kind] = models
        for span in sorted(items, key=attrgetter("ready_s", "holder", "model")):
            row.add(span)


def _enter_memory(places: Sequence[Place], place_of: Mapping[str, int], jobs: Sequence[JobView], now_s: float) -> None:
    """Memory that running jobs asked for comes back when they end; what is held beyond that, nobody knows when."""
    unknown = [place.memory_held_bytes for place in places]
    for place in places:
        place.memory = Row(now_s)
    for job in jobs:
        running = job.running
        if running is None or not running.option.memory_bytes:
            continue
        for index, share in ((place_of[name], share) for name, share in running.memory_on.items() if name in place_of):
            unknown[index] -= share
            memory = places[index].memory
            if memory is not None and not running.leaving:
                memory.add(Span(share, end_of(job, now_s), holder=job.job_id))
    for place, held in zip(places, unknown, strict=True):
        if place.memory is None:
            continue
        if held > 0:
            place.memory.add(Span(held, math.inf, holder=UNKNOWN))
        left = place.memory_bytes - sum(span.count for span in place.memory.spans)
        if left > 0:
            place.memory.add(Span(left, now_s))
