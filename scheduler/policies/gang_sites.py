"""`GangSites`: what is free where and when, in the plan of one decision.

A site is what one gang may use together: the devices of one model on one node, or on all nodes of one sandbox level
where gangs span nodes. Memory of nodes and quotas of projects are kept as timelines beside it: a job fits when all do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from scheduler.policies.site_groups import GangSite, Group, Parts, mixture_of
from scheduler.policies.site_making import sites_of
from scheduler.policies.timeline import Brief, Load, Timeline
from scheduler.types import Capacity, DeviceKey, JobView, Option, Quotas, Running


class Slot(NamedTuple):
    """A job's place in the plan."""

    option: Option
    site: GangSite
    """Of a mixture the first one."""
    start_s: float
    end_s: float
    """By the upper end of the estimate."""
    parts: Parts = ()
    """Of a mixture: all its sites, and the devices in each."""


def _above(jobs: Sequence[JobView], quotas: Quotas) -> frozenset[tuple[str, str]]:
    """(project, kind) of which more is held than may ever be: what runs goes on, and nothing starts beside it."""
    held: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.running is not None and job.is_running:
            held[job.project, job.running.option.kind] += job.running.option.count
    found = set()
    for (project, kind), count in held.items():
        quota = quotas.get(project)
        limit = quota.limit(kind) if quota else None
        if quota is not None and limit is not None and count > limit and not quota.borrows(kind):
            found.add((project, kind))
    return frozenset(found)


class GangSites:
    """The pool over time. Mutable: it lives within one decision."""

    def __init__(self, capacity: Capacity, jobs: Sequence[JobView], quotas: Quotas, now_s: float) -> None:
        """An idle pool, coming reservations aside; `jobs` say whose memory comes back."""
        self.now_s = now_s
        sites = sites_of(capacity, jobs, now_s)
        by_key: dict[DeviceKey, list[GangSite]] = {}
        self._at: dict[str, list[GangSite]] = {}
        """Node, or level where gangs span nodes -> its sites."""
        for site in sites:
            by_key.setdefault(site.key, []).append(site)
            self._at.setdefault(site.hint, []).append(site)
        self._groups = {key: Group(members) for key, members in by_key.items()}
        self._models = Counter(kind for kind, _ in by_key)
        self._like: dict[DeviceKey, list[DeviceKey]] = {}
        """Kind and model as an option names them -> those that are there."""
        self._refused: dict[DeviceKey, int] = {}
        """The same -> a count that no site has free now: nor has it more, nor later on."""
        self._by_node = {(site.name, site.key): site for site in sites}
        self._by_level = {(site.level, site.key): site for site in sites} if capacity.spans_nodes else {}
        self._nodes = {node.name: node for node in capacity.pool.nodes if node.takes_work}
        self.totals = {key: sum(site.total for site in members) for key, members in by_key.items()}
        self._loads = {key: Load(now_s) for key in self.totals}
        self._first_held: dict[str, list[tuple[DeviceKey, int]]] = {}
        """Running job -> what it holds on its first node, the most first: every option asks for it."""
        self._quotas = quotas
        self._above = _above(jobs, quotas) if quotas else frozenset()
        self._tokens = {
            (project, kind): Timeline(now_s, 0 if (project, kind) in self._above else limit)
            for project, quota in quotas.items()
            for kind, limit in quota.devices.items()
        }

    def total(self, option: Option) -> int:
        """Devices of the option's kind and model in the whole pool."""
        return sum(self.totals[key] for key in self._keys(option))

    def fits_quota(self, job: JobView, option: Option) -> bool:
        """Whether the project could hold so many devices without borrowing."""
        if not self._quotas:
            return True
        quota = self._quotas.get(job.project)
        limit = quota.limit(option.kind) if quota else None
        return limit is None or option.count <= limit or self._keeps(job, option)

    def may_borrow(self, job: JobView, option: Option) -> bool:
        """Whether the project may go over its quota."""
        quota = self._quotas.get(job.project)
        return quota is None or quota.borrows(option.kind)

    def find(
        self,
        job: JobView,
        option: Option,
        run_s: float,
        latest_s: float,
        *,
        borrow: bool = False,
        from_s: float = -math.inf,
    ) -> Slot | None:
        """The first slot from `from_s` to `latest_s`; a running job stays on its node where it can start there now."""
        if latest_s <= self.now_s and not self.may_start_now(option):
            return None
        tokens = self._tokens_for(job, option, borrow=borrow) if self._tokens else None
        if option.parts:
            return self._find_mixed(job, option, run_s, latest_s, tokens, from_s)
        here = self._here(job, option) if job.running else None
        if here:
            start_s = self._start(((here, option.count),), option, run_s, latest_s, tokens, from_s)
            if start_s <= self.now_s:
                return Slot(option, here, start_s, start_s + run_s)
        best: GangSite | None = None
        best_s = math.inf
        for site in self._candidates(job, option):
            start_s = self._start(((site, option.count),), option, run_s, latest_s, tokens, from_s)
            if start_s < best_s:
                best_s, best = start_s, site
                if start_s <= self.now_s:
                    break
        if best is None and not option.model_name and self._models[option.kind] > 1:
            return self._find_mixed(job, option, run_s, latest_s, tokens, from_s)
        return Slot(option, best, best_s, best_s + run_s) if best else None

    def _tokens_for(self, job: JobView, option: Option, *, borrow: bool) -> Timeline | None:
        """What its project may hold over time; None where that does not bind it."""
        tokens = self._tokens.get((job.project, option.kind))
        free = (borrow and self.may_borrow(job, option)) or self._keeps(job, option)
        return None if free else tokens

    def _keeps(self, job: JobView, option: Option) -> bool:
        """Whether it holds as much already, from before a quota that may not be exceeded became smaller."""
        if (job.project, option.kind) not in self._above or job.running is None or not job.is_running:
            return False
        return option.kind == job.running.option.kind and option.count <= job.running.option.count

    def may_start_now(self, option: Option) -> bool:
        """Whether a gang could have its devices now, if nothing else is in the way; False is certain, and costs little:
        a long queue asks mostly in vain."""
        if option.parts or (not option.model_name and self._models[option.kind] > 1):
            return True
        key = (option.kind, option.model_name)
        if option.count >= self._refused.get(key, math.inf):
            return False
        if any(self._groups[one].may_start_now(option.count) for one in self._keys(option)):
            return True
        self._refused[key] = option.count
        return False

    def _candidates(self, job: JobView, option: Option) -> Iterator[GangSite]:
        """Sites to try, in this order: the first that is free now is taken, else the one that is free soonest."""
        width, level, data_on = option.count, job.minimum_sandbox_level, job.data_on
        groups = [self._groups[key] for key in self._keys(option)]
        if job.avoid and not self._by_level:
            fitting = [site for group in groups for site in group.fitting(width, level)]
            fitting.sort(key=lambda site: (job.avoid.get(site.name, 0), site.devices.floor, site.name not in data_on))
            return iter(fitting)
        return chain.from_iterable([group.candidates(width, level, data_on) for group in groups])

    def _find_mixed(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> Slot | None:
        """The first slot of a gang over several models; on the nodes where it runs where it can start there now."""
        mine = job.running.nodes if job.running else ()
        best: Slot | None = None
        for name in sorted(self._at, key=lambda name: (name not in mine, job.avoid.get(name, 0), name)):
            sites = self._at[name]
            parts = mixture_of(sites, option) if sites[0].level >= job.minimum_sandbox_level else ()
            if not parts:
                continue
            start_s = self._start(parts, option, run_s, latest_s, tokens, from_s)
            if math.isfinite(start_s) and (best is None or start_s < best.start_s):
                best = Slot(option, parts[0][0], start_s, start_s + run_s, parts)
                if start_s <= self.now_s:
                    break
        return best

    def take(self, job: JobView, slot: Slot) -> None:
        """Enter a slot into the plan."""
        memory = slot.option.memory_bytes
        for site, width in slot.parts or ((slot.site, slot.option.count),):
            self._move(job, site, slot.option, slot.start_s, slot.end_s, width=width, memory=memory)
            memory = 0

    def hold(self, job: JobView, end_s: float) -> None:
        """A running job that cannot be changed keeps its devices until `end_s`."""
        running = job.running
        if running is None:
            return
        option, shares = running.option, running.memory_on
        for node, widths in self._held(running).items():
            memory = shares.get(node, 0)
            for key, width in widths.items():
                site = self._site_at(node, key)
                if site:
                    self._move(job, site, option, self.now_s, end_s, width=width, memory=memory)
                    memory = 0  # once per node, however many models the gang has there

    def room_to_grow(self, job: JobView, slot: Slot, width: int, *, borrow: bool = False) -> bool:
        """Whether so many more devices are free now where the job runs; a mixture stays as it is."""
        if slot.parts:
            return False
        tokens = None if borrow else self._tokens.get((job.project, slot.option.kind))
        return slot.site.devices.free_now >= width and (tokens is None or tokens.free_now >= width)

    def grow(self, job: JobView, slot: Slot, width: int) -> None:
        """Give more devices until the next decision: what is planned for later is not touched."""
        slot.site.devices.lend(width)
        tokens = self._tokens.get((job.project, slot.option.kind)) if self._tokens else None
        if tokens:
            tokens.lend(width)

    def is_loaded(self, option: Option, until_s: float, limit: float) -> bool:
        """Whether more than this share of the devices of its kind is planned for, from now to `until_s`."""
        keys = self._keys(option)
        return not keys or any(self._loads[key].is_above(limit, self.totals[key], until_s) for key in keys)

    def _keys(self, option: Option) -> list[DeviceKey]:
        if option.parts:
            keys = [(option.kind, name) for name, _ in option.parts]
            return keys if all(key in self._groups for key in keys) else []
        key = (option.kind, option.model_name)
        found = self._like.get(key)
        if found is None:
            named = [key] if key in self._groups else []
            found = self._like[key] = named if key[1] else [one for one in self._groups if one[0] == key[0]]
        return found

    def _held(self, running: Running) -> dict[str, Counter[DeviceKey]]:
        """Node -> what it holds there: an option may leave the model open, so the devices themselves tell."""
        keys, places = self._keys(running.option), running.nodes or ("",)
        if len(keys) == len(places) == 1 == self._models[running.option.kind]:
            return {places[0]: Counter({keys[0]: running.option.count})}
        found = {name: self._held_at(running, name) for name in places if name in self._nodes}
        if any(found.values()) or not keys:
            return found
        # Nobody told which devices: as if all were of the first model.
        return {name: Counter({keys[0]: -(-running.option.count // len(places))}) for name in places}

    def _held_at(self, running: Running, node: str) -> Counter[DeviceKey]:
        key_of = self._nodes[node].key_of
        return Counter(key_of[device_id] for device_id in running.device_ids if device_id in key_of)

    def _site_at(self, node: str, key: DeviceKey) -> GangSite | None:
        """The site that devices of a node belong to."""
        if self._by_level and node in self._nodes:
            return self._by_level.get((self._nodes[node].sandbox_level, key))
        return self._by_node.get((node, key))

    def _here(self, job: JobView, option: Option) -> GangSite | None:
        """Where a running job could go on: of the models that it holds, the one it holds most of."""
        if job.running is None or job.running.leaving or not job.running.nodes:
            return None
        node, keys = job.running.nodes[0], self._keys(option)
        held = self._first_held.get(job.job_id)
        if held is None:
            found = self._held(job.running).get(node)
            held = self._first_held[job.job_id] = found.most_common() if found else []
        sites = (self._site_at(node, key) for key, _ in held if key in keys)
        return next((site for site in sites if site and site.total >= option.count), None)

    def _start(
        self, parts: Parts, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> float:
        """When all of it is free at once, from `from_s` on."""
        site, width = parts[0]
        start_s = site.devices.earliest(width, run_s, latest_s, from_s)
        others: list[tuple[Timeline | Brief, float]] = [(other.devices, float(number)) for other, number in parts[1:]]
        if tokens:
            others.append((tokens, float(option.count)))
        if option.memory_bytes and site.memory:
            others.append((site.memory, float(option.memory_bytes)))
        while others and math.isfinite(start_s):
            later_s = max(line.earliest(amount, run_s, latest_s, start_s) for line, amount in others)
            if later_s <= start_s:
                return start_s
            start_s = site.devices.earliest(width, run_s, latest_s, later_s)
        return start_s

    def _move(
        self,
        job: JobView,
        site: GangSite,
        option: Option,
        start_s: float,
        end_s: float,
        *,
        width: int,
        memory: int,
    ) -> None:
        site.devices.take(width, start_s, end_s)
        self._groups[site.key].changed(site)
        self._loads[site.key].take(width, start_s, end_s)
        if site.memory and option.memory_bytes:
            site.memory.take(memory, start_s, end_s)
        tokens = self._tokens.get((job.project, option.kind))
        if tokens:
            tokens.take(width, start_s, end_s)
