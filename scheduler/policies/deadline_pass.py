"""One pass of `deadline_energy` over all jobs; see there for the order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from scheduler.policies.deadline_admit import Admission
from scheduler.policies.deadline_bars import Bars, Wanted
from scheduler.policies.deadline_lend import Lending
from scheduler.policies.deadline_plan import Found, plan_of
from scheduler.policies.deadline_room import Room
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.deadline_slots import SlotSearch
from scheduler.policies.deadline_sorting import Sorting
from scheduler.policies.deadline_stays import LEAST_LEFT_S, Stays
from scheduler.policies.deadline_widen import Widening
from scheduler.policies.order import is_overdue
from scheduler.policies.site_slot import Slot
from scheduler.policies.spanning_sites import sites_in
from scheduler.policies.ways import Ways, anew_s, same
from scheduler.types import Capacity, JobView, Option, Plan, Quotas

AS_HELD = -2
"""The first of all turns."""


class DeadlinePass:
    """All jobs at one moment."""

    def __init__(
        self,
        settings: Settings,
        jobs: Sequence[JobView],
        capacity: Capacity,
        now_s: float,
        quotas: Quotas,
        turns: Mapping[str, int],
        *,
        overdue_first: bool = True,
        with_stays: bool = False,
    ) -> None:
        """What goes before any new promise is planned. `turns`: those of promised jobs that do not just go by their
        deadline, which is turn 0; lower goes first, and in turn `AS_HELD` with what it holds, where that is in time. Of
        other deadlines those that do not just go by their share.
        `overdue_first`: running jobs that were overdue keep what they have if they can, and what those that wait could
        use is spared; `with_stays`: who has just begun keeps what it has as well, for a while."""
        self._set = settings
        self._now_s = now_s
        self._sites = sites_in(capacity, jobs, quotas, now_s)
        self._out = Found()
        self._jobs = jobs
        self._ways: dict[str, Ways] = {}
        self._search = SlotSearch(settings, self._sites, self._ways, now_s)
        self._quotas = quotas
        self._turns = turns
        self._again = partial(
            DeadlinePass, settings, jobs, capacity, now_s, quotas, overdue_first=overdue_first, with_stays=with_stays
        )
        self._sorting = Sorting(settings, self._sites, self._ways, turns, now_s)
        fixed, self._promised, self._dated, self._others = self._sorting.sort(jobs, self._out)
        self._lasting = Stays(settings, self._sites, self._out, now_s)
        if with_stays:
            self._lasting.begin(self._promised, [*self._dated, *self._others], self._others)
        overdue = [job for job in self._others if is_overdue(job, now_s, settings.patience_s)]
        self.overdue = frozenset(job.job_id for job in overdue)
        self._settled = [job for job in overdue if job.is_running] if overdue_first else []
        waiting = [job for job in overdue if not job.is_running] if overdue_first else []
        self._wanted = Wanted(option for job in waiting for option in job.options)
        self._has_spared = False
        self._left: Sequence[JobView] | None = None
        self._bars = Bars()
        self._begin(fixed, overdue)

    def _begin(self, fixed: Sequence[JobView], overdue: Sequence[JobView]) -> None:
        """Those that go before every deadline that is not promised."""
        for job in fixed:
            self._go_on(job)
        for job in self._settled:
            self._enter_overdue(job)
        for job in self._promised:
            self._keep(job)
        self._sites.promises_end()
        for job in [job for job in overdue if job not in self._settled]:
            self._enter_overdue(job)

    def _enter_overdue(self, job: JobView) -> None:
        slot = self._search.first(job)
        if slot is not None and slot.start_s > self._now_s:
            ways = self._ways[job.job_id]
            self._bars.add(job, [(option, ways.run_s(option)) for option in job.options], self._sites)
        elif slot is None and not job.is_running:
            self._sites.keep_for_good(job, self._now_s + self._set.patience_s)
        self._enter(job, slot)

    @property
    def ends(self) -> list[tuple[JobView, float]]:
        """(promised job, upper end of its finish by this plan)."""
        slots = self._out.slots
        return [(job, slots[job.job_id].end_s if job.job_id in slots else math.inf) for job in self._promised]

    @property
    def is_late(self) -> bool:
        """Whether a promised job is late by this plan."""
        return bool(self._out.warnings)

    @property
    def crowded_out(self) -> frozenset[str]:
        """Promised jobs that are late by this plan, and would not be if the devices were free."""
        late = [self._ways[job_id] for job_id in self._out.warnings]
        return frozenset(ways.job.job_id for ways in late if self._now_s + ways.least_s <= (ways.job.deadline_s or 0.0))

    @property
    def has_stays(self) -> bool:
        """Whether a job goes on only because it has just begun."""
        return bool(self._out.stays)

    @property
    def favours_overdue(self) -> bool:
        """Whether a promised job is planned otherwise because others are overdue."""
        return bool(self._settled) or self._has_spared

    def with_held(self, firm: Sequence[JobView]) -> DeadlinePass:
        """The same pass, in which these promised jobs keep what they hold, before all other promises."""
        return self._again({**self._turns, **{job.job_id: AS_HELD for job in firm}})

    def lined_up(self, dated: Sequence[JobView]) -> DeadlinePass:
        """The same pass, in which these of the deadlines that are not promised go by when they have to start, before
        the others of their priority."""
        first = sorted(dated, key=lambda job: (self._sorting.latest_s(job), job.job_id))
        return self._again({**self._turns, **{job.job_id: turn for turn, job in enumerate(first, start=-len(first))}})

    @property
    def size(self) -> int:
        """How many deadlines are planned."""
        return len(self._promised) + len(self._dated)

    @property
    def left(self) -> Sequence[JobView]:
        """Deadlines that are not promised and do not fit."""
        if self._left is None:
            self._left = list(self._left_out())
        return self._left

    def has_room_for(self, wanted: Set[str]) -> bool:
        """Whether all these of the deadlines that are not promised fit; where one does not, the rest is not planned,
        and the pass is of no more use."""
        left = []
        for job in self._left_out():
            if job.job_id in wanted:
                return False
            left.append(job)
        self._left = left
        return True

    @property
    def fitting(self) -> list[JobView]:
        """Those that do."""
        left = {job.job_id for job in self.left}
        return [job for job in self._dated if job.job_id not in left]

    def plan(self) -> Plan:
        """Serve everybody else in turn."""
        stays, dated, others = self._out.stays, self._dated, self._others
        left = self.left
        self._lasting.until_planned(self.promised_runs, [*left, *others])
        for job in left:
            self._try(job)
        for job in [job for job in others if job.job_id not in self.overdue]:
            if job.job_id in stays:
                self._lasting.go_on(job, self._ways[job.job_id])
            else:
                self._enter(job, self._search.first(job))
        limited = [job for job in (*dated, *others) if job.project in self._quotas and job.job_id not in stays]
        lending = Lending(self._sites, self._search, self._out, self._ways)
        lending.lend(limited)
        Widening(self._set, self._sites, self._out, self._jobs, self._ways).widen()
        lending.foretell(limited)
        return plan_of(self._jobs, [*self._promised, *dated, *others], self._out, self._room(), self._now_s)

    @property
    def promised_runs(self) -> list[JobView]:
        """Promised jobs that run and can be paused."""
        return [job for job in self._promised if job.is_running]

    def thriftiest(self, job: JobView) -> Option | None:
        """What would keep the job's deadline by the least energy if it were free."""
        by_s = job.deadline_s or math.inf
        ways = self._ways[job.job_id].by_energy(self._set.stay, by_s=by_s, now_s=self._now_s)
        return next((option for option, _ in ways), None)

    def _room(self) -> Room:
        return Room(
            jobs={job.job_id: job for job in self._jobs},
            promised={job.job_id for job in self._promised},
            shares={job.job_id: self._ways[job.job_id].share for job in self._dated},
            latest_s={job.job_id: self._sorting.latest_s(job) for job in self._dated if job.job_id in self._turns},
            limited=self._quotas.keys(),
            now_s=self._now_s,
            patience_s=self._set.patience_s,
        )

    def offer(self, job: JobView) -> tuple[Slot | None, Slot | None]:
        """(slot that keeps the deadline beside all promises, slot with the earliest upper end); see `admit`."""
        allowed = tuple(option for option in job.options if self._bars.allow(job, option))
        if not allowed:
            return None, None
        job = job if len(allowed) == len(job.options) else replace(job, options=allowed)
        ways = self._ways[job.job_id] = Ways(job, self._set.rescale)
        return self._search.in_time(job), self._search.soonest(job, ways.options, ends_first=True)

    def slots(self, job: JobView, ready_s: Mapping[Option, float]) -> dict[Option, Slot]:
        """The first slot of each option by itself, beside all promises, from when it is ready; see `promisable`."""
        found = {}
        for option in job.options:
            if option.rate_per_s and self._sites.quotas.fit(job, option) and self._bars.allow(job, option):
                run_s, from_s = anew_s(job, option, self._set.rescale), ready_s.get(option, self._now_s)
                slot = self._sites.find(job, option, run_s, math.inf, from_s=from_s, ends_first=True)
                if slot:
                    found[option] = slot
        return found

    def _go_on(self, job: JobView) -> None:
        if job.running is None:
            return
        left_s = job.left_high_s(job.running.option)
        self._sites.hold(job, self._now_s + max(LEAST_LEFT_S, left_s))

    def _enter(self, job: JobView, slot: Slot | None) -> None:
        if slot:
            self._sites.take(job, slot)
            self._out.slots[job.job_id] = slot

    def _keep(self, job: JobView) -> None:
        """A promise: by the upper end if it can be, else as soon as it can be."""
        held = self._search.as_held(job) if self._turns.get(job.job_id) == AS_HELD else None
        slot = held or self._spare(job) or self._search.in_time(job, borrow=True)
        if slot is None:
            slot = self._search.soonest(job, self._ways[job.job_id].options, borrow=True)
            self._out.warnings[job.job_id] = "The scheduler gives it the devices on which it is done soonest."
        self._enter(job, slot)

    def _spare(self, job: JobView) -> Slot | None:
        """In time by a way that takes nothing from overdue jobs that wait; none where every way does, or none does."""
        options = self._ways[job.job_id].options if self._wanted else ()
        held = job.running.option if job.running and job.is_running else None
        others = [one for one in options if not self._wanted.meet(one) or (held and same(held, one))]
        if not others or len(others) == len(options):
            return None
        self._has_spared = True
        return self._search.in_time(job, borrow=True, among=others)

    def _left_out(self) -> Iterator[JobView]:
        """Plan the deadlines that are not promised; those that do not fit."""
        admission = Admission(self._set, self._sites, self._search, self._out, self._ways)
        promised = [self._sorting.share(job) for job in self._promised]
        return admission.left_out(self._dated, self._turns, self._bars, promised)

    def _try(self, job: JobView) -> None:
        """A deadline that does not fit: use what is free, at most as much as it would need, so that it ends soonest."""
        left_s = (job.deadline_s or math.inf) - self._now_s
        self._enter(job, self._search.at_once(job, self._ways[job.job_id].by_end(left_s)))
