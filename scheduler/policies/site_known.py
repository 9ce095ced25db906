"""Which sites options and running jobs mean; all sites as some jobs find them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from scheduler.policies.site_groups import GangSite, Group, Parts
from scheduler.policies.timeline import Timeline
from scheduler.types import Capacity, DeviceKey, JobView, Option, Running

Held = Mapping[str, Mapping[DeviceKey, int]]
"""Node -> devices of each kind and model that a run has there."""


class KnownSites:
    """The sites of one decision by what names them: kind and model, node, level."""

    def __init__(self, capacity: Capacity, sites: Sequence[GangSite], keys: Iterable[DeviceKey]) -> None:
        """`keys`: the kinds and models of all sites, in the order in which they are tried."""
        self._keys = tuple(keys)
        self._models = Counter(kind for kind, _ in self._keys)
        self._like: dict[DeviceKey, list[DeviceKey]] = {}
        """Kind and model as an option names them -> those that are there."""
        self._by_node = {(site.name, site.key): site for site in sites}
        self._by_level = {(site.level, site.key): site for site in sites} if capacity.spans_nodes else {}
        self._nodes = {node.name: node for node in capacity.pool.nodes if node.takes_work}
        self._held: dict[int, tuple[Running, Held]] = {}
        """Identity of a run -> (itself, what it holds)."""
        self._shares: dict[int, tuple[Running, list[tuple[GangSite, int, int]]]] = {}
        """The same with its `shares_of`."""

    def is_open(self, option: Option) -> bool:
        """Whether the option names no model of the several that there are."""
        return not option.model_name and self._models[option.kind] > 1

    def keys(self, option: Option) -> list[DeviceKey]:
        """The kinds and models that an option may use, as far as they are there."""
        if option.parts:
            keys = [(option.kind, name) for name, _ in option.parts]
            return keys if all(key in self._keys for key in keys) else []
        key = (option.kind, option.model_name)
        found = self._like.get(key)
        if found is None:
            named = [key] if key in self._keys else []
            found = self._like[key] = named if key[1] else [one for one in self._keys if one[0] == key[0]]
        return found

    def held(self, running: Running) -> Held:
        """What it holds: an option may leave the model open, so the devices themselves tell."""
        known = self._held.get(id(running))
        if known is None:
            known = self._held[id(running)] = (running, self._held_by(running))
        return known[1]

    def _held_by(self, running: Running) -> Held:
        keys, places = self.keys(running.option), running.nodes or ("",)
        if len(keys) == len(places) == 1 == self._models[running.option.kind]:
            return {places[0]: {keys[0]: running.option.count}}
        found = {name: self._held_at(running, name) for name in places if name in self._nodes}
        if any(found.values()) or not keys:
            return found
        # Nobody told which devices: as if all were of the first model.
        return {name: {keys[0]: -(-running.option.count // len(places))} for name in places}

    def _held_at(self, running: Running, node: str) -> Counter[DeviceKey]:
        key_of = self._nodes[node].key_of
        return Counter(key_of[device_id] for device_id in running.device_ids if device_id in key_of)

    def at(self, node: str, key: DeviceKey) -> GangSite | None:
        """The site that devices of a node belong to."""
        if self._by_level and node in self._nodes:
            return self._by_level.get((self._nodes[node].sandbox_level, key))
        return self._by_node.get((node, key))

    def shares_of(self, running: Running) -> Sequence[tuple[GangSite, int, int]]:
        """(site, devices of it that a run holds on one node, bytes of that node's memory that it asked for)."""
        known = self._shares.get(id(running))
        if known is None:
            known = self._shares[id(running)] = (running, list(self._shares_of(running)))
        return known[1]

    def _shares_of(self, running: Running) -> Iterator[tuple[GangSite, int, int]]:
        shares = running.memory_on
        for node, widths in self.held(running).items():
            memory_bytes = shares.get(node, 0)
            for key, width in widths.items():
                site = self.at(node, key)
                if site:
                    yield site, width, memory_bytes
                    memory_bytes = 0  # once per node, however many models the gang has there

    def memory_of(self, running: Running) -> list[tuple[Timeline, int]]:
        """(memory, bytes of it) that a run asked for: of each node, or of a level together where gangs span nodes."""
        found: dict[int, tuple[Timeline, int]] = {}
        for site, _, size in self.shares_of(running):
            if site.memory and size:
                found[id(site.memory)] = (site.memory, size + found.get(id(site.memory), (site.memory, 0))[1])
        return list(found.values())

    def parts_of(self, running: Running) -> Parts:
        """Its sites, and how many devices of each it holds."""
        shares = self.shares_of(running)
        if len(shares) == 1:
            return ((shares[0][0], shares[0][1]),)
        found: dict[int, tuple[GangSite, int]] = {}
        for site, width, _ in shares:
            found[id(site)] = (site, width + found.get(id(site), (site, 0))[1])
        return tuple(found.values())

    def here(self, job: JobView, option: Option) -> GangSite | None:
        """Where a running job could go on: of the models that it holds, the one it holds most of."""
        if job.running is None or job.running.leaving or not job.running.nodes:
            return None
        node, keys = job.running.nodes[0], self.keys(option)
        held = self.held(job.running).get(node, {})
        most_first = held if len(held) < 2 else sorted(held, key=lambda key: -held[key])
        sites = (self.at(node, key) for key in most_first if key in keys)
        return next((site for site in sites if site and site.total >= option.count), None)


class SitesSeen(NamedTuple):
    """All sites as some jobs find them."""

    groups: dict[DeviceKey, Group]
    known: KnownSites
    at: dict[str, list[GangSite]]
    """Node, or level where gangs span nodes -> its sites."""

    @staticmethod
    def of(sites: Sequence[GangSite], capacity: Capacity) -> SitesSeen:
        """Nothing is planned yet."""
        by_key: dict[DeviceKey, list[GangSite]] = {}
        at: dict[str, list[GangSite]] = {}
        for site in sites:
            by_key.setdefault(site.key, []).append(site)
            at.setdefault(site.hint, []).append(site)
        groups = {key: Group(members) for key, members in by_key.items()}
        return SitesSeen(groups, KnownSites(capacity, sites, by_key), at)
