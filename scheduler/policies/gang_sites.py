"""`GangSites`: what is free where and when, in the plan of one decision.

A site is what one gang may use together: the devices of one model on one node, or on all nodes of one sandbox level
where gangs span nodes. Memory of nodes and quotas of projects are kept as timelines beside it: a job fits when all do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from scheduler.placing.data_times import DataTimes
from scheduler.placing.places import LEAST_LEFT_S
from scheduler.policies.load import Load
from scheduler.policies.quota_lines import QuotaLines
from scheduler.policies.site_groups import GangSite, Parts, all_free_s, mixture_of
from scheduler.policies.site_known import SitesSeen
from scheduler.policies.site_making import sites_of
from scheduler.policies.site_reserved import Reservations
from scheduler.policies.site_slot import Reach, Slot, first_slot
from scheduler.policies.timeline import Brief, Timeline
from scheduler.policies.ways import same
from scheduler.types import Capacity, DeviceKey, JobView, Option, Quotas, Running


class GangSites:
    """The pool over time. Mutable: it lives within one decision."""

    def __init__(self, capacity: Capacity, jobs: Sequence[JobView], quotas: Quotas, now_s: float) -> None:
        """An idle pool, reservations aside; `jobs` say whose memory comes back."""
        self.now_s = now_s
        sites = sites_of(capacity, jobs, now_s)
        self._reserved = Reservations(sites, capacity, jobs, now_s)
        self._view = SitesSeen.of(sites, capacity)
        """As jobs find them that nothing is kept for."""
        self._views = {
            project: SitesSeen.of([self._reserved.seen(site, project) for site in sites], capacity)
            for project in self._reserved.projects
        }
        self.known = self._view.known
        """Which sites options and runs mean."""
        self._refused: dict[DeviceKey, int] = {}
        """The same -> a count that no site has free now: nor has it more, nor later on."""
        self._spans_nodes = capacity.spans_nodes
        self.totals = {key: sum(site.total for site in group.sites) for key, group in self._view.groups.items()}
        self._loads = {key: Load(now_s) for key in self.totals}
        for site, end_s in self._reserved.idle:
            self._loads[site.key].take(1, now_s, end_s)
        self.quotas = QuotaLines(jobs, quotas, now_s)
        self._data = DataTimes(capacity.pool)

    def total(self, option: Option) -> int:
        """Devices of the option's kind and model in the whole pool."""
        keys = self.known.keys(option)
        return self.totals[keys[0]] if len(keys) == 1 else sum([self.totals[key] for key in keys])

    def find(
        self,
        job: JobView,
        option: Option,
        run_s: float,
        latest_s: float,
        *,
        borrow: bool = False,
        from_s: float = -math.inf,
        by_s: float = math.inf,
        ends_first: bool = False,
    ) -> Slot | None:
        """The first slot from `from_s` to `latest_s`; a running job goes on with what it holds where it can.

        `by_s`: when it has to have ended, which tells more than `latest_s` where its data come first; `ends_first`: see
        `Reach`.
        """
        running = job.running if job.running and job.is_running else None
        is_held = running is not None and same(running.option, option)
        may_start = latest_s > self.now_s or is_held or job.project in self._views
        if not may_start and not self.may_start_now(option):
            return None
        tokens = self.quotas.binding(job, option, borrow=borrow) if self.quotas.exist else None
        if running is not None and is_held and self.may_go_on(job, running, run_s, latest_s, tokens, from_s):
            parts = self.known.parts_of(running)
            start_s, site = max(self.now_s, from_s), self._reserved.seen(parts[0][0], job.project)
            return Slot(option, site, start_s, start_s + run_s, parts if len(parts) > 1 else (), goes_on=True)
        slot = self.first(job, option, run_s, latest_s, tokens, from_s, by_s, ends_first)
        return slot._replace(moves=True) if slot is not None and is_held else slot

    def first(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float,
        by_s: float, ends_first: bool,
    ) -> Slot | None:  # fmt: skip
        """The first slot of a job that starts."""
        find = self._find if job.data is None else partial(self._find_bringing, by_s, ends_first)
        return find(job, option, run_s, latest_s, tokens, from_s)

    def may_go_on(
        self, job: JobView, running: Running, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> bool:
        """Whether what it holds is its own from now on, or from `from_s`, to its end.

        What is kept for its project and idle does not count: it would have to move there.
        """
        start_s = max(self.now_s, from_s)
        parts = self.known.parts_of(running)
        needed: list[tuple[Timeline | Brief, float]] = [(site.devices, width) for site, width in parts]
        if latest_s < start_s or not needed:
            return False
        needed += [*self.known.memory_of(running), *([(tokens, running.option.count)] if tokens is not None else ())]
        lifted = self._reserved.lift(job, start_s, max(start_s + run_s, math.nextafter(start_s, math.inf)))
        found = all(line.earliest(amount, run_s, start_s, start_s) <= start_s for line, amount in needed)
        self._reserved.restore(lifted)
        return found

    def seen_by(self, job: JobView) -> SitesSeen:
        """All sites as the job finds them."""
        return self._views.get(job.project, self._view) if self._views else self._view

    def _changed(self, site: GangSite) -> None:
        group = self._view.groups[site.key]
        if group.is_large:
            group.changed(self._reserved.seen(site, "") if self._views else site)
            for project, view in self._views.items():
                view.groups[site.key].changed(self._reserved.seen(site, project))

    def _find(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> Slot | None:
        if option.parts:
            return self._find_mixed(job, option, run_s, latest_s, tokens, from_s)
        if job.running and (here := self._here(job, option, run_s, latest_s, tokens, from_s)):
            return here
        best: GangSite | None = None
        best_s = math.inf
        for site in self._candidates(job, option):
            start_s = all_free_s(((site, option.count),), option, run_s, latest_s, tokens, from_s)
            if start_s < best_s:
                best_s, best = start_s, site
                if start_s <= self.now_s:
                    break
        if best is None and self.known.is_open(option):
            return self._find_mixed(job, option, run_s, latest_s, tokens, from_s)
        return Slot(option, best, best_s, best_s + run_s) if best else None

    def _find_bringing(
        self,
        by_s: float,
        ends_first: bool,
        job: JobView,
        option: Option,
        run_s: float,
        latest_s: float,
        tokens: Timeline | None,
        from_s: float,
    ) -> Slot | None:
        """Of a job whose data are not everywhere: where it runs it has them, elsewhere they come first."""
        if job.running and (here := self._here(job, option, run_s, latest_s, tokens, from_s)):
            return here

        def start_of(parts: Parts, run_s: float, latest_s: float) -> float:
            return all_free_s(parts, option, run_s, latest_s, tokens, from_s)

        reach = Reach(run_s, latest_s, by_s, self.now_s, ends_first)
        look = partial(first_slot, option, reach=reach, start_of=start_of, way_to=partial(self._data.to, job, option))
        found = look(self._alike(job, option)) if not option.parts else None
        several = option.parts or self.known.is_open(option)
        return found or (look(self._mixtures(job, option)) if several else None)

    def _here(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> Slot | None:
        site = self.seen_by(job).known.here(job, option)
        start_s = all_free_s(((site, option.count),), option, run_s, latest_s, tokens, from_s) if site else math.inf
        return Slot(option, site, start_s, start_s + run_s) if site and start_s <= self.now_s else None

    def _alike(self, job: JobView, option: Option) -> Iterator[Parts]:
        """The candidates, and of very many sites those where it ends first, its data brought before."""
        for site in self._candidates(job, option):
            yield ((site, option.count),)
        if job.data is not None:
            for key in self.known.keys(option):
                group = self.seen_by(job).groups[key]
                level, memory = job.minimum_sandbox_level, option.memory_bytes
                for site in group.quickest(option.count, level, job.data, self._data, memory):
                    yield ((site, option.count),)

    def may_start_now(self, option: Option) -> bool:
        """Whether a gang could have its devices now, if nothing else is in the way; False is certain, and costs little:
        a long queue asks mostly in vain."""
        if option.parts or self.known.is_open(option):
            return True
        key = (option.kind, option.model_name)
        if option.count >= self._refused.get(key, math.inf):
            return False
        if any(self._view.groups[one].may_start_now(option.count) for one in self.known.keys(option)):
            return True
        self._refused[key] = option.count
        return False

    def _candidates(self, job: JobView, option: Option) -> Iterator[GangSite]:
        """Sites to try, in this order: the first that is free now is taken, else the one that is free soonest."""
        view, width, level, data_on = self.seen_by(job), option.count, job.minimum_sandbox_level, job.data_on
        groups = [view.groups[key] for key in self.known.keys(option)]
        if job.avoid and not self._spans_nodes:
            fitting = [site for group in groups for site in group.fitting(width, level)]
            fitting.sort(key=lambda site: (job.avoid.get(site.name, 0), site.devices.floor, site.name not in data_on))
            return iter(fitting)
        found = chain.from_iterable([group.candidates(width, level, data_on, option.memory_bytes) for group in groups])
        if view is self._view:
            return found
        # The first that is free is taken: others have no use for these.
        kept = (site for key in self.known.keys(option) for site in self._reserved.twins(job.project, key))
        return chain((site for site in kept if site.level >= level and site.devices.free_now >= width), found)

    def _find_mixed(
        self, job: JobView, option: Option, run_s: float, latest_s: float, tokens: Timeline | None, from_s: float
    ) -> Slot | None:
        """The first slot of a gang over several models; on the nodes where it runs where it can start there now."""
        best: Slot | None = None
        for parts in self._mixtures(job, option):
            start_s = all_free_s(parts, option, run_s, latest_s, tokens, from_s)
            if math.isfinite(start_s) and (best is None or start_s < best.start_s):
                best = Slot(option, parts[0][0], start_s, start_s + run_s, parts)
                if start_s <= self.now_s:
                    break
        return best

    def _mixtures(self, job: JobView, option: Option) -> Iterator[Parts]:
        """Where a gang over several models could go."""
        mine = job.running.nodes if job.running else ()
        at = self.seen_by(job).at
        for name in sorted(at, key=lambda name: (name not in mine, job.avoid.get(name, 0), name)):
            sites = at[name]
            parts = mixture_of(sites, option) if sites[0].level >= job.minimum_sandbox_level else ()
            if parts:
                yield parts

    def take(self, job: JobView, slot: Slot) -> None:
        """Enter a slot into the plan."""
        if slot.goes_on:
            self.hold(job, slot.end_s if slot.end_s > slot.start_s else slot.start_s + LEAST_LEFT_S, slot.start_s)
            return
        memory = slot.option.memory_bytes
        for site, width in slot.parts or ((slot.site, slot.option.count),):
            self._move(job, site, slot.option, slot.start_s, slot.end_s, width=width, memory=memory, held=False)
            memory = 0

    def keep_for_good(self, job: JobView, from_s: float) -> None:
        """For a job of which nobody can tell when it starts: from then on it gets what is left for good where most is,
        so that nobody begins there meanwhile who may hold it for ever."""
        for option in (one for one in job.options if not one.parts and self.quotas.fit(job, one)):
            groups = [self.seen_by(job).groups[key] for key in self.known.keys(option)]
            fitting = [site for group in groups for site in group.fitting(option.count, job.minimum_sandbox_level)]
            site = max(fitting, key=lambda site: site.devices.at_last, default=None)
            count = min(option.count, int(site.devices.at_last)) if site else 0
            if site and count > 0:
                start_s = max(from_s, float(site.devices.ready(count)[count]))
                self._reserved.take(job, site, count, start_s, math.inf, held=False)
                self._changed(site)
                return

    def hold(self, job: JobView, end_s: float, from_s: float = -math.inf) -> None:
        """A running job keeps its devices until `end_s`, from now on or from some moment."""
        running, start_s = job.running, max(self.now_s, from_s)
        if running is None:
            return
        self._reserved.lift(job, start_s, end_s)
        away = len(running.device_ids)
        for site, width, memory_bytes in self.known.shares_of(running):
            self._move(job, site, running.option, start_s, end_s, width=width, memory=memory_bytes, held=True)
            away -= width
        if away > 0 and self.quotas.exist and (tokens := self.quotas.line(job, running.option)):
            tokens.take(away, start_s, end_s)  # of nodes that take no work: its project holds them all the same

    def promises_end(self) -> None:
        """All promises are planned; see `Reservations.close`."""
        for site in self._reserved.close():
            self._changed(site)

    def room_to_grow(self, job: JobView, slot: Slot, width: int, for_s: float = 0.0) -> bool:
        """Whether so many more devices are free where the job runs, for so long from now on; a mixture stays."""
        if slot.parts or not slot.site.devices.stays_free(width, for_s):
            return False
        tokens = self.quotas.line(job, slot.option) if self.quotas.exist else None
        return tokens is None or tokens.stays_free(width, for_s)

    def grow(self, job: JobView, slot: Slot, width: int) -> None:
        """Give more devices until the next decision: what is planned for later is not touched."""
        self._reserved.lend(job, slot.site, width)
        if self.quotas.exist and (tokens := self.quotas.line(job, slot.option)):
            tokens.lend(width)

    def is_loaded(self, option: Option, until_s: float, limit: float) -> bool:
        """Whether more than this share of the devices of its kind is planned for, from now to `until_s`."""
        keys = self.known.keys(option)
        return not keys or any(self._loads[key].is_above(limit, self.totals[key], until_s) for key in keys)

    def _move(
        self, job: JobView, site: GangSite, option: Option, start_s: float, end_s: float, *,
        width: int, memory: int, held: bool,
    ) -> None:  # fmt: skip
        for first_s, last_s, count in self._reserved.take(job, site, width, start_s, end_s, held=held):
            if count:
                self._loads[site.key].take(count, first_s, last_s)
        self._changed(site)
        if site.memory and option.memory_bytes:
            site.memory.take(memory, start_s, end_s)
        if self.quotas.exist and (tokens := self.quotas.line(job, option)):
            tokens.take(width, start_s, end_s)
