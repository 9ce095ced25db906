"""`FreeDevices`: what can be given out on which node, counted per node so that nobody walks ten thousand devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import NamedTuple

from scheduler.placing.host_memory import NOBODY, HostMemory
from scheduler.placing.shelves import Index, Measure, Shelf, coming_of, fill, free_of, plain_of, remove
from scheduler.types import DeviceKey, DeviceView, JobView, NodeView, Option, PoolView


class Pick(NamedTuple):
    """Devices on one node for one gang."""

    node: str
    devices: tuple[DeviceView, ...]
    waits_for: frozenset[str]


class Zone(NamedTuple):
    """Nodes that a gang is looked for on."""

    level: int | None = None
    """Only those of this sandbox level."""
    rack: str = ""
    """Only those of this rack."""

    def has(self, node: NodeView) -> bool:
        """Whether the node belongs to it."""
        return (self.level is None or self.level == node.sandbox_level) and (not self.rack or self.rack == node.near)


EVERYWHERE = Zone()
NOWHERE = Zone(level=-1)


class FreeDevices:
    """Of all nodes that take work. Mutable: it lives within one decision."""

    def __init__(self, pool: PoolView, now_s: float, held: Mapping[str, str], leaving: Mapping[str, str]) -> None:
        """`held`: device -> running job that stays; `leaving`: device -> job that gives it back."""
        self.now_s = now_s
        self.shelves: dict[str, Shelf] = {}
        self.memory = HostMemory(self.shelves)
        self._racks: dict[str, list[Shelf]] = {}
        self._kept: list[Shelf] = []
        """With reservations: what is open there depends on the job."""
        self._indexes: dict[tuple[Measure, DeviceKey, Zone], Index] = {}
        self._changes: dict[str, list[Shelf]] = {"": []}
        """Rack, empty for all nodes -> those of its nodes that have changed, one after the other."""
        self._levels = {node.sandbox_level for node in pool.nodes if node.takes_work}
        self._somebody_leaves = bool(leaving)
        self.widest = max((len(node.devices) for node in pool.nodes), default=0)
        """No node has more devices."""
        staying = frozenset(held)
        taken = staying.union(leaving)
        for node in sorted(pool.nodes, key=lambda node: node.name):
            if not node.takes_work:
                continue
            shelf = self.shelves[node.name] = Shelf(node, node.memory_bytes - node.memory_held_bytes)
            if node.all_free and node.device_ids.isdisjoint(taken):
                shelf.free = dict(node.by_key)
            elif not node.device_ids <= staying:
                fill(shelf, held, leaving)
            if node.near:
                self._racks.setdefault(node.near, []).append(shelf)
            if node.is_kept:
                self._kept.append(shelf)

    @property
    def racks(self) -> list[str]:
        """Names of racks, in order."""
        return sorted(self._racks)

    def by_free(self, job: JobView, option: Option, zone: Zone = EVERYWHERE) -> Iterator[Shelf]:
        """Nodes with devices enough for the whole gang that are free, the fullest first; of equally full ones those
        with its data."""
        nodes = self._index(free_of, option.key, zone).nodes
        return map(self.shelves.__getitem__, nodes.fewest_first(option.count, job.data_on))

    def kept_for(self, job: JobView, zone: Zone = EVERYWHERE) -> Iterator[Shelf]:
        """Nodes with devices that are kept for the job's project now."""
        if not self._kept:
            return iter(())
        here = (shelf for shelf in self._kept if zone.has(shelf.node))
        return (shelf for shelf in here if any(self._is_own(device, job) for device in shelf.node.devices))

    def with_coming(self, option: Option, zone: Zone = EVERYWHERE) -> Iterator[Shelf]:
        """Nodes with devices enough once those have left that leave."""
        if not self._somebody_leaves:
            return iter(())
        return map(self.shelves.__getitem__, self._index(coming_of, option.key, zone).nodes.in_order(option.count))

    def fullest(
        self, job: JobView, option: Option, own: Collection[str], zone: Zone = EVERYWHERE
    ) -> Iterator[tuple[Shelf, int]]:
        """(node, devices that the gang may use there): where it has some itself first, then the most first.

        Nothing where all of them together are not enough.
        """
        index = self._index(plain_of, option.key, zone)
        mine = frozenset(_nodes_of(job) if own else ())
        counted = self._counted(job, option, own, zone, mine) if mine or self._kept else []
        plain = index.total(job.minimum_sandbox_level)
        if plain + sum([count for _, count in counted]) < option.count:
            return iter(())
        others = (
            (shelf, count)
            for count, name in index.nodes.most_first(job.data_on)
            if name not in mine and (shelf := self.shelves[name]).node.sandbox_level >= job.minimum_sandbox_level
        )
        first = sum(1 for shelf, _ in counted if shelf.node.name in mine)
        more = merge(others, counted[first:], key=lambda pair: -pair[1]) if counted[first:] else others
        return chain(counted[:first], more) if first else more

    def _counted(
        self, job: JobView, option: Option, own: Collection[str], zone: Zone, mine: Collection[str]
    ) -> list[tuple[Shelf, int]]:
        """`fullest` of the nodes where it depends on the job: those that it has devices on (`mine`), and those with
        reservations."""
        names = [
            *(_nodes_of(job) if mine else ()),
            *(shelf.node.name for shelf in self._kept if shelf.node.name not in mine),
        ]
        asked = [self.shelves[name] for name in dict.fromkeys(names) if name in self.shelves]
        counted = [
            (shelf, count)
            for shelf in asked
            if zone.has(shelf.node) and (count := self.usable_count(shelf, job, option, own))
        ]
        return sorted(counted, key=lambda pair: (pair[0].node.name not in mine, -pair[1]))

    def pick(self, shelf: Shelf, job: JobView, option: Option, count: int, own: Collection[str] = ()) -> Pick | None:
        """`count` devices of the node for a part of the job's gang: of one model if that is enough, free ones first.

        `own` are devices that the job holds itself: they come before all others.
        """
        if shelf.node.sandbox_level < job.minimum_sandbox_level or len(shelf.node.devices) < count:
            return None
        owners: frozenset[str] | None = NOBODY
        if option.memory_bytes:
            owners = self.memory.owners(shelf, job, -(-option.memory_bytes * count // option.count))
        if owners is None:
            return None
        if option.model_name and not own and not shelf.node.is_kept:
            free = shelf.free.get(option.key, ())
            if len(free) >= count:
                return Pick(shelf.node.name, free[:count], owners)
        chosen = self._chosen(shelf, job, option, count, own)
        if len(chosen) < count:
            return None
        holders = {owner for owner, _ in chosen if owner and owner != job.job_id}
        return Pick(shelf.node.name, tuple([device for _, device in chosen]), owners.union(holders))

    def _chosen(
        self, shelf: Shelf, job: JobView, option: Option, count: int, own: Collection[str]
    ) -> list[tuple[str, DeviceView]]:
        """(who holds it still, device) of `count` devices, or fewer where there are not so many."""
        if option.model_name:
            return self._usable(shelf, option.key, job, option, own)[:count]
        by_key = {key: self._usable(shelf, key, job, option, own) for key in shelf.keys(option)}

        def worth(key: DeviceKey) -> tuple[int, int, int, DeviceKey]:
            first = by_key[key][:count]
            foreign = sum(not self._is_own(device, job) for _, device in first) if shelf.node.is_kept else 0
            return _waiting(first), foreign, len(by_key[key]), key

        enough = [key for key, devices in by_key.items() if len(devices) >= count]
        if enough:
            return by_key[min(enough, key=worth)][:count]
        mixed = sorted((pair for devices in by_key.values() for pair in devices), key=lambda pair: pair[0] != "")
        return sorted(mixed[:count], key=lambda pair: pair[1].index)

    def pick_mixed(self, shelf: Shelf, job: JobView, option: Option, own: Collection[str] = ()) -> Pick | None:
        """All of a mixture on one node: so many devices of each model, in the order of its parts."""
        if shelf.node.sandbox_level < job.minimum_sandbox_level:
            return None
        owners = self.memory.owners(shelf, job, option.memory_bytes)
        if owners is None:
            return None
        pairs: list[tuple[str, DeviceView]] = []
        for name, count in option.parts:
            found = self._usable(shelf, (option.kind, name), job, option, own)
            if len(found) < count:
                return None
            pairs += found[:count]
        holders = {owner for owner, _ in pairs if owner and owner != job.job_id}
        return Pick(shelf.node.name, tuple(device for _, device in pairs), owners.union(holders))

    def joined(self, picks: Sequence[Pick], job: JobView, option: Option) -> list[Pick] | None:
        """Picks of the parts of a mixture, one per node; None where a node lacks memory for what comes together."""
        by_node: dict[str, list[Pick]] = {}
        for pick in picks:
            by_node.setdefault(pick.node, []).append(pick)
        found = []
        for name, here in by_node.items():
            devices = tuple(device for pick in here for device in pick.devices)
            need_bytes = -(-option.memory_bytes * len(devices) // option.count)
            owners = self.memory.owners(self.shelves[name], job, need_bytes)
            if owners is None:
                return None
            found.append(Pick(name, devices, owners.union(*(pick.waits_for for pick in here))))
        return found

    def usable_count(self, shelf: Shelf, job: JobView, option: Option, own: Collection[str] = ()) -> int:
        """How many devices of the node the gang may use."""
        if shelf.node.sandbox_level < job.minimum_sandbox_level:
            return 0
        return sum(len(self._usable(shelf, key, job, option, own)) for key in shelf.keys(option))

    def take(self, picks: Sequence[Pick], option: Option) -> None:
        """Give the devices out, and the memory with them."""
        total = sum([len(pick.devices) for pick in picks]) if option.memory_bytes else 0
        for name, devices, _ in picks:
            shelf, count = self.shelves[name], len(devices)
            first = (devices[0].kind, devices[0].model_name)
            free = shelf.free.get(first, ())
            if free[:count] == devices:
                shelf.free[first] = free[count:]
            else:
                remove(shelf, devices)
            if option.memory_bytes:
                shelf.memory_free_bytes -= -(-option.memory_bytes * count // total)
            self._changed(shelf)

    def give_back(self, owner: str, devices: Sequence[tuple[str, DeviceView]]) -> None:
        """(node, device) that a job which stays no longer needs."""
        self._somebody_leaves = True
        for node, device in devices:
            if node in self.shelves:
                coming = self.shelves[node].coming.setdefault((device.kind, device.model_name), [])
                coming.append((owner, device))
        self._have_changed(devices)

    def take_back(self, devices: Sequence[tuple[str, DeviceView]]) -> None:
        """Undo `give_back`."""
        ids = {device.device_id for _, device in devices}
        for node, device in devices:
            if node in self.shelves:
                key = (device.kind, device.model_name)
                coming = self.shelves[node].coming[key]
                self.shelves[node].coming[key] = [pair for pair in coming if pair[1].device_id not in ids]
        self._have_changed(devices)

    def _usable(
        self, shelf: Shelf, key: DeviceKey, job: JobView, option: Option, own: Collection[str]
    ) -> list[tuple[str, DeviceView]]:
        """(who holds it still, device): own ones, then free ones, then those that come."""
        pairs = [("", device) for device in shelf.free.get(key, ())] + shelf.coming.get(key, [])
        if shelf.node.is_kept:
            data_s = job.data.to(shelf.node.name).high_s if job.data is not None else 0.0
            end_s = self.now_s + data_s + job.left_high_s(option)
            until_s = {device.device_id: device.open_until_s(job.project, self.now_s) for _, device in pairs}
            pairs = [pair for pair in pairs if until_s[pair[1].device_id] >= end_s]
            # What is kept for its project is of use to nobody else, and what is soon kept for others to few.
            pairs.sort(key=lambda pair: (pair[0] != "", not self._is_own(pair[1], job), until_s[pair[1].device_id]))
        return sorted(pairs, key=lambda pair: pair[1].device_id not in own) if own else pairs

    def _is_own(self, device: DeviceView, job: JobView) -> bool:
        return bool(job.project) and device.keeper(self.now_s) == job.project

    def _index(self, measure: Measure, key: DeviceKey, zone: Zone) -> Index:
        found = self._indexes.get((measure, key, zone))
        if found is None and zone.level in self._levels and len(self._levels) == 1:
            found = self._indexes[measure, key, zone] = self._index(measure, key, Zone(None, zone.rack))
        if found is None:
            shelves = self._racks.get(zone.rack, ()) if zone.rack else self.shelves.values()
            changes = self._changes.setdefault(zone.rack, [])
            found = self._indexes[measure, key, zone] = Index(shelves, measure, key, zone.level, changes)
        return found

    def _changed(self, shelf: Shelf) -> None:
        self._changes[""].append(shelf)
        if shelf.node.near:
            self._changes.setdefault(shelf.node.near, []).append(shelf)

    def _have_changed(self, devices: Sequence[tuple[str, DeviceView]]) -> None:
        for name in {node for node, _ in devices}:
            if name in self.shelves:
                self._changed(self.shelves[name])


def _nodes_of(job: JobView) -> tuple[str, ...]:
    return job.running.nodes if job.running else ()


def _waiting(pairs: Sequence[tuple[str, DeviceView]]) -> int:
    return sum(1 for owner, _ in pairs if owner)
