"""`Shelf`: what can be given out on one node. `Index`: shelves by how many devices they have, kept up to date.

A decision places a thousand gangs on a thousand nodes: which node fits best is looked up, not searched for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.placing.buckets import Buckets
from scheduler.types import DeviceKey, DeviceView, NodeView, Option


@dataclass(slots=True)
class Shelf:
    """One node that takes work."""

    node: NodeView
    memory_free_bytes: int
    """Not asked for by anybody who stays."""
    free: dict[DeviceKey, tuple[DeviceView, ...]] = field(default_factory=dict)
    """By index; nobody holds them."""
    coming: dict[DeviceKey, list[tuple[str, DeviceView]]] = field(default_factory=dict)
    """(who still holds it, device) of those that leave."""
    coming_bytes: dict[str, int] = field(default_factory=dict)
    """Who leaves -> memory that comes back with it."""

    @property
    def memory_coming_bytes(self) -> int:
        """What is free once all have left that leave."""
        return self.memory_free_bytes + sum(self.coming_bytes.values())

    def keys(self, option: Option) -> list[DeviceKey]:
        """Keys that the option may use on this node."""
        if option.model_name:
            return [option.key]
        return sorted({key for key in (*self.free, *self.coming) if key[0] == option.kind})


def fill(shelf: Shelf, held: Mapping[str, str], leaving: Mapping[str, str]) -> None:
    """What is left on a node where somebody runs."""
    for key, devices in shelf.node.by_key.items():
        free = tuple(
            device
            for device in devices
            if device.free and device.device_id not in held and device.device_id not in leaving
        )
        if free:
            shelf.free[key] = free
        coming = [(leaving[device.device_id], device) for device in devices if device.device_id in leaving]
        if coming:
            shelf.coming[key] = coming


def remove(shelf: Shelf, devices: Sequence[DeviceView]) -> None:
    """Take devices that were given out off a node."""
    taken = {device.device_id for device in devices}
    for key in {(device.kind, device.model_name) for device in devices}:
        shelf.free[key] = tuple(device for device in shelf.free.get(key, ()) if device.device_id not in taken)
        coming = shelf.coming.get(key)
        if coming:
            shelf.coming[key] = [pair for pair in coming if pair[1].device_id not in taken]


Measure = Callable[[Shelf, DeviceKey], int]
"""Devices of a shelf; a key without a model means all of the kind."""


def free_of(shelf: Shelf, key: DeviceKey) -> int:
    """Devices that nobody holds."""
    if key[1]:
        return len(shelf.free.get(key, ()))
    return sum(len(devices) for (kind, _), devices in shelf.free.items() if kind == key[0])


def coming_of(shelf: Shelf, key: DeviceKey) -> int:
    """Those that leave, and the free ones beside them; 0 where none leaves."""
    coming = _leaving_of(shelf, key) if shelf.coming else 0
    return coming + free_of(shelf, key) if coming else 0


def plain_of(shelf: Shelf, key: DeviceKey) -> int:
    """Those that any job may use; 0 on nodes with reservations, which are asked one by one."""
    if shelf.node.is_kept:
        return 0
    return free_of(shelf, key) + (_leaving_of(shelf, key) if shelf.coming else 0)


def _leaving_of(shelf: Shelf, key: DeviceKey) -> int:
    if key[1]:
        return len(shelf.coming.get(key, ()))
    return sum(len(pairs) for (kind, _), pairs in shelf.coming.items() if kind == key[0])


class Index:
    """Shelves of one sandbox level (or any) by one count; those that have none are left out."""

    def __init__(
        self, shelves: Iterable[Shelf], measure: Measure, key: DeviceKey, level: int | None, changes: Sequence[Shelf]
    ) -> None:
        """Count all shelves; `changes`: gets each that has changed, which is counted again when somebody asks."""
        self._changes, self._seen = changes, len(changes)
        self._measure = measure
        self._key = key
        self._level = level
        inside = shelves if level is None else [shelf for shelf in shelves if shelf.node.sandbox_level == level]
        counted = [(shelf, count) for shelf in inside if (count := measure(shelf, key))]
        self._nodes = Buckets([(shelf.node.name, count) for shelf, count in counted])
        self._sums: Counter[int] = Counter()
        """Sandbox level -> devices."""
        for shelf, count in counted:
            self._sums[shelf.node.sandbox_level] += count

    @property
    def nodes(self) -> Buckets[str]:
        """Names of nodes by their count."""
        self._catch_up()
        return self._nodes

    def total(self, least_level: int) -> int:
        """Of all shelves of at least this sandbox level."""
        self._catch_up()
        return sum(count for level, count in self._sums.items() if level >= least_level)

    def _catch_up(self) -> None:
        for shelf in self._changes[self._seen :]:
            level = shelf.node.sandbox_level
            if self._level is None or self._level == level:
                self._sums[level] += self._nodes.put(shelf.node.name, self._measure(shelf, self._key))
        self._seen = len(self._changes)
