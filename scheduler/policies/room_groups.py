"""`Room`: what one gang may use together. `Group`: all rooms of one kind and model, and which of them to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from scheduler.placing.buckets import Buckets
from scheduler.placing.places import level_name
from scheduler.policies.timeline import Brief, Timeline
from scheduler.types import DeviceKey, Option

FEW = 8
"""Up to so many rooms are looked at one by one; of more, only the one that is ready first."""


@dataclass(slots=True)
class Room:
    """Devices that one gang may use together."""

    name: str
    """Of the node; empty for several."""
    key: DeviceKey
    level: int
    total: int
    devices: Timeline | Brief
    memory_bytes: int = 0
    memory: Timeline | None = None
    """None where no job asks for any."""

    @property
    def hint(self) -> str:
        """What `assign` looks at first: the node, or the sandbox level where gangs span nodes."""
        return self.name or level_name(self.level)


Parts = tuple[tuple[Room, int], ...]
"""Rooms of one node (or level), and the devices that a gang has in each."""


def mixture_of(rooms: Sequence[Room], option: Option) -> Parts:
    """Where a gang over several models could go among the rooms of one place; nothing where they have not enough.

    Of an open model: most from where most is free, counted without those that are held where these are enough.
    """
    if option.parts:
        by_key = {room.key: room for room in rooms}
        named = [(by_key.get((option.kind, name)), count) for name, count in option.parts]
        found = tuple((room, count) for room, count in named if room is not None and room.total >= count)
        return found if len(found) == len(named) else ()
    kind = [room for room in rooms if room.key[0] == option.kind]
    free = _filled([(room, int(room.devices.free_now)) for room in kind], option.count)
    return free or _filled([(room, room.total) for room in kind], option.count)


def _filled(rooms: Sequence[tuple[Room, int]], count: int) -> Parts:
    found = []
    for room, most in sorted(rooms, key=lambda pair: (-pair[1], pair[0].key)):
        taken = min(most, count)
        if taken > 0:
            found.append((room, taken))
            count -= taken
    return () if count else tuple(found)


class Group:
    """All rooms of one kind and model."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        """Nothing is planned yet."""
        self.rooms = list(rooms)
        self.most = max(room.total for room in rooms)
        self.is_large = len(self.rooms) > FEW
        if self.is_large:
            self._index = {id(room): index for index, room in enumerate(self.rooms)}
            self._by_free = Buckets((index, max(0, int(room.devices.floor))) for index, room in enumerate(self.rooms))
            """Rooms by how many devices are free from now on for good."""
            self._ready = np.empty((self.most + 1, len(self.rooms)))
            """[w, room]: since when w devices are free for good."""
            self._stale = set(range(len(self.rooms)))
            """Rooms that have changed since."""
            self._levels = np.array([room.level for room in self.rooms])
            self._free_now = np.empty(len(self.rooms))
            self._most_now = float(self.most)
            """No room has more devices free now: what is planned never comes back."""

    def may_start_now(self, width: int) -> bool:
        """Whether so many devices could be free now in some room; False is certain."""
        if self.is_large:
            return width <= self._most_now
        return any(room.devices.free_now >= width for room in self.rooms)

    def candidates(self, width: int, level: int) -> Iterable[Room]:
        """Rooms to try, in this order."""
        if width > self.most:
            return ()
        if self.is_large:
            return self._free_or_soonest(width, level)
        fitting = [room for room in self.rooms if room.level >= level and room.total >= width]
        return sorted(fitting, key=lambda room: room.devices.floor) if len(fitting) > 1 else fitting

    def _free_or_soonest(self, width: int, level: int) -> Iterator[Room]:
        # The fullest of those that are free: large gaps stay for wide jobs.
        free = (room for room in map(self.rooms.__getitem__, self._by_free.fewest_first(width)) if room.level >= level)
        first = next(free, None)
        if first is None:
            yield from self._soonest(width, level)
            return
        yield first
        yield from islice(free, FEW - 1)

    def _soonest(self, width: int, level: int) -> Iterator[Room]:
        for index in self._stale:
            devices = self.rooms[index].devices
            self._ready[:, index] = devices.ready(self.most)
            self._free_now[index] = devices.free_now
        self._stale.clear()
        self._most_now = float(self._free_now.max())
        ready = np.where(self._levels >= level, self._ready[width], np.inf)
        first_s = float(ready.min())
        if math.isfinite(first_s):
            for found in np.flatnonzero(ready == first_s)[:FEW]:
                yield self.rooms[int(found)]

    def changed(self, room: Room) -> None:
        """Something was planned there."""
        if self.is_large:
            index = self._index[id(room)]
            self._stale.add(index)
            self._by_free.put(index, max(0, int(room.devices.floor)))
