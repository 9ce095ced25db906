"""The pool as the scheduler sees it: devices, nodes, reservations. Part of `scheduler.types`.

What every decision asks of a node is counted once and kept with it: most nodes are the same throughout a decision.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from scheduler.job_view import SPAN_LEVEL, DeviceKey


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """A time over which an admin keeps a device."""

    start_s: float
    end_s: float
    """Infinite where nobody knows: it goes on as long as what it is for."""
    told_s: float = math.inf
    """Of one without a known end: when it is expected to be over. That moves, so nothing is planned by it."""
    project: str = ""
    """Whose jobs may use it meanwhile; empty: no job."""
    purpose: str = ""
    """What for, in a few words: told to those who wait for it."""

    def holds(self, now_s: float) -> bool:
        """Whether it has begun and is not over."""
        return self.start_s <= now_s < self.end_s


@dataclass(frozen=True, kw_only=True)
class DeviceView:
    """One device at one moment."""

    device_id: str
    kind: str
    index: int
    free: bool
    model_name: str = ""
    reserved: tuple[Reserved, ...] = ()
    """Present and coming: other jobs get the device only if they end before."""

    def keeper(self, now_s: float) -> str | None:
        """The project that alone may use it now, empty for none; None where no admin keeps it now."""
        projects = {keep.project for keep in self.reserved if keep.holds(now_s)}
        return (projects.pop() if len(projects) == 1 else "") if projects else None

    def kept_pieces(self, now_s: float) -> list[Reserved]:
        """What it is kept for from now on, one after the other: an overlap is for who alone may use it then."""
        live = sorted((keep for keep in self.reserved if keep.end_s > now_s), key=lambda keep: keep.start_s)
        if all(one.end_s <= other.start_s for one, other in pairwise(live)):
            return live
        moments = sorted({moment_s for keep in live for moment_s in (max(keep.start_s, now_s), keep.end_s)})
        keepers = [(start_s, end_s, self.keeper(start_s)) for start_s, end_s in pairwise(moments)]
        return [Reserved(start_s=one[0], end_s=one[1], project=one[2]) for one in keepers if one[2] is not None]

    def is_open_ended(self, now_s: float) -> bool:
        """Whether it is kept now, and nobody knows until when."""
        return any(math.isinf(keep.end_s) and keep.holds(now_s) for keep in self.reserved)

    def open_until_s(self, project: str, now_s: float) -> float:
        """When it is kept for others than the project next: now, or later; never is infinite."""
        others = (keep for keep in self.reserved if not keep.project or keep.project != project)
        return min((keep.start_s for keep in others if keep.end_s > now_s), default=math.inf)


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """One node at one moment."""

    name: str
    takes_work: bool
    """Up and not draining."""
    sandbox_level: int
    draining: bool = False
    """Up, but an admin has it take no new jobs."""
    clock_off: bool = False
    """Up, but nothing starts there until its clock is right."""
    twins: bool = False
    """Up, but nothing starts there while two machines report as it."""
    memory_bytes: int
    memory_held_bytes: int = 0
    """Asked for by jobs that run there."""
    devices: tuple[DeviceView, ...] = ()
    unseen: tuple[DeviceKey, ...] = ()
    """Kind and model of each device that it has, does not see now, and that no job holds."""
    near: str = ""
    """Rack or switch: gangs over several nodes stay within one where they can."""

    @cached_property
    def by_key(self) -> Mapping[DeviceKey, tuple[DeviceView, ...]]:
        """Its devices by kind and model, each by index."""
        found: dict[DeviceKey, list[DeviceView]] = {}
        for device in sorted(self.devices, key=lambda item: item.index):
            found.setdefault((device.kind, device.model_name), []).append(device)
        return {key: tuple(devices) for key, devices in found.items()}

    @cached_property
    def key_of(self) -> Mapping[str, DeviceKey]:
        """Kind and model of each of its devices, by id."""
        return {device.device_id: (device.kind, device.model_name) for device in self.devices}

    @cached_property
    def counts(self) -> Mapping[DeviceKey, int]:
        """How many devices of each kind and model it has."""
        return {key: len(devices) for key, devices in self.by_key.items()}

    @cached_property
    def device_ids(self) -> frozenset[str]:
        """Of all its devices."""
        return frozenset(device.device_id for device in self.devices)

    @cached_property
    def all_free(self) -> bool:
        """Whether nobody holds any of its devices that the view was not told of."""
        return all(device.free for device in self.devices)

    @cached_property
    def is_kept(self) -> bool:
        """Whether an admin keeps any of its devices, now or later."""
        return any(device.reserved for device in self.devices)

    def of_kind(self, kind: str) -> tuple[DeviceView, ...]:
        """Its devices of one kind, by index."""
        return tuple(sorted((device for device in self.devices if device.kind == kind), key=lambda item: item.index))


@dataclass(frozen=True, kw_only=True)
class PoolView:
    """All nodes at one moment."""

    nodes: tuple[NodeView, ...] = ()
    spans_nodes: bool = False
    """Whether one gang may use several nodes."""
    apart: str = ""
    """Why it may not although that is wished, in a sentence; empty where nothing else is in the way."""
    span_level: int = SPAN_LEVEL
    """Sandbox level that it has there at most."""

    def levelled(self, needed: Iterable[int]) -> PoolView:
        """The same with one sandbox level for nodes that no level a job may need tells apart.

        A gang over several nodes is planned on nodes of one level. `needed`: all that jobs may ask for, now or later,
        so that nodes do not come apart under a gang that runs on them.
        """
        steps = sorted(set(needed))
        classes: dict[int, list[int]] = {}
        for level in sorted({node.sandbox_level for node in self.nodes}):
            classes.setdefault(bisect_right(steps, level), []).append(level)
        lowest = {level: levels[0] for levels in classes.values() for level in levels}
        if len(classes) == len(lowest):
            return self
        return replace(self, nodes=tuple(_at_level(node, lowest[node.sandbox_level]) for node in self.nodes))


def open_ended(pool: PoolView, now_s: float, kinds: Iterable[str]) -> tuple[Reserved, ...]:
    """What keeps devices of these kinds now, nobody knows until when: each once, the last to be over last."""
    kept_nodes = (node for node in pool.nodes if node.is_kept and node.takes_work)
    devices = [device for node in kept_nodes for device in node.devices if device.kind in set(kinds)]
    found = {keep for device in devices for keep in device.reserved if math.isinf(keep.end_s) and keep.holds(now_s)}
    return tuple(
        sorted((keep for keep in found if keep.told_s < math.inf), key=lambda keep: (keep.told_s, keep.purpose))
    )


def as_told(pool: PoolView, now_s: float) -> PoolView:
    """The pool if everything without a known end were over when that is expected: for words, never for promises."""

    def told(device: DeviceView) -> DeviceView:
        if not any(math.isinf(keep.end_s) for keep in device.reserved):
            return device
        ends = (
            replace(keep, end_s=max(keep.told_s, now_s)) if math.isinf(keep.end_s) else keep for keep in device.reserved
        )
        return replace(device, reserved=tuple(ends))

    nodes = (replace(node, devices=tuple(map(told, node.devices))) if node.is_kept else node for node in pool.nodes)
    return replace(pool, nodes=tuple(nodes))


def _at_level(node: NodeView, level: int) -> NodeView:
    return node if node.sandbox_level == level else replace(node, sandbox_level=level)
