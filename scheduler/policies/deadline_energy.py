"""`deadline_energy`: keep what is promised, by the least energy; promise what still fits; waste nothing, starve nobody.

One pass, all by upper ends of the estimates. (1) What cannot be changed goes on. (2) Promised jobs, each by the
thriftiest option that keeps its deadline; earliest deadline first, unless another order crowds fewer out
(`deadline_orders`). (3) Jobs that are overdue; until they have started nothing that they wait for is promised
(`deadline_bars`). (4) Deadlines not promised yet: those that need the smallest share of the pool first, while they fit
around what is planned, or by when they have to start where that lets one more in (`deadline_fit`); the smallest of them
are promised. (5) Deadlines that only luck can keep run on what is free. (6) All others, first come first served.
(7) Free devices go where they are used almost as well as the first ones.
`docs/decisions/` tells why, and what failed.

A promise is planned before anything that is not promised, so no job is ever let in at its cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from scheduler.policies.deadline_calm import calmest
from scheduler.policies.deadline_fit import roomiest
from scheduler.policies.deadline_orders import best_order
from scheduler.policies.deadline_pass import DeadlinePass
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.order import runs_in_front
from scheduler.policies.site_slot import Slot
from scheduler.types import Capacity, JobView, Option, Plan, Quotas


@dataclass(frozen=True, kw_only=True)
class DeadlineEnergy(Settings):
    """The policy and its settings."""

    name: str = "deadline_energy"

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """See the module."""
        return calmest(jobs, roomiest(self._promises(jobs, capacity, now_s, quotas, with_stays=True)), now_s)

    def offer(
        self, job: JobView, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas
    ) -> tuple[float | None, Slot | None]:
        """(middle of the finish beside all promises, none if late; slot with the earliest upper end)."""
        slot, soonest = self._promises(jobs, capacity, now_s, quotas).offer(job)
        return slot.finish_s(job, now_s) if slot else None, soonest

    def slots(
        self,
        job: JobView,
        jobs: Sequence[JobView],
        capacity: Capacity,
        now_s: float,
        quotas: Quotas,
        ready_s: Mapping[Option, float],
    ) -> Mapping[Option, Slot]:
        """The same of each option by itself: its first slot; missing where nothing is promised on it."""
        return self._promises(jobs, capacity, now_s, quotas).slots(job, ready_s)

    def _promises(
        self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas, *, with_stays: bool = False
    ) -> DeadlinePass:
        """All promises are planned, by a decision just as by a question what else could be promised."""
        jobs = runs_in_front(jobs, now_s, self.patience_s)
        made = partial(DeadlinePass, self, jobs, capacity, now_s, quotas)
        found = made({}, with_stays=with_stays)
        if found.is_late and found.has_stays:
            found = made({})
        found = best_order(jobs, found, made)
        if found.is_late and found.favours_overdue:
            # A promise comes first, even before those that have waited longest.
            made = partial(made, overdue_first=False)
            found = best_order(jobs, made({}), made)
        return found


def deadline_only() -> DeadlineEnergy:
    """The same with energy ignored: every free device that speeds a job up is used."""
    return DeadlineEnergy(name="deadline", least_gain=0.0)
