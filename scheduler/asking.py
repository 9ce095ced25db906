"""Asking a policy for one job: when it would end among all others, which deadline is kept if asked for. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from scheduler.data_way import Travel
from scheduler.estimation.values import Interval
from scheduler.offers.values import finish_told_s
from scheduler.placing.capacity import Shown
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.types import JobView, Plan, Policy, Quotas

_MOST_ASKED = 4
"""Plans of the whole pool until a finish is found that is kept when it is asked for."""


class Ahead(NamedTuple):
    """What is ahead of a job that a plan has a place for."""

    start_s: float
    data: Travel
    """Until its data are there."""
    run_s: float
    """Middle of what it then takes."""
    end_s: float
    """Upper end."""
    is_kept: bool = True
    """False: with that end as its deadline it would end later, and no later one was found that is kept."""

    def chance(self, job: JobView) -> float:
        """Probability that it ends by its deadline."""
        slowdown = job.slowdown_at(self.run_s)
        low_s, high_s = self.run_s / slowdown, self.run_s * slowdown
        whole_s = Interval(low=low_s, mid=self.run_s, high=high_s).plus(self.data.range_s)
        return whole_s.chance(deadline_of(job) - self.start_s)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What one job is asked of, maybe with several deadlines: all else is planned without it once."""

    chosen: Policy
    view: Shown
    """With the job."""
    job_id: str
    now_s: float
    quotas: Quotas

    @cached_property
    def before(self) -> Sequence[JobView]:
        """All other jobs."""
        return [other for other in self.view.jobs if other.job_id != self.job_id]

    @cached_property
    def without(self) -> Plan:
        """The plan of all other jobs."""
        return self.chosen.plan(self.before, self.view.capacity, self.now_s, self.quotas)

    def ask(self, job: JobView) -> tuple[float | None, Ahead | None]:
        """(middle of its finish if its deadline can be kept, the way on which it would end first, by upper ends)."""
        chosen, capacity, now_s = self.chosen, self.view.capacity, self.now_s
        if isinstance(chosen, DeadlineEnergy):
            finish_s, slot = chosen.offer(job, self.before, capacity, now_s, self.quotas)
            return finish_s, Ahead(slot.start_s, slot.data, job.left_s(slot.option), slot.end_s) if slot else None
        jobs = [job if other.job_id == job.job_id else other for other in self.view.jobs]
        plan = chosen.plan(jobs, capacity, now_s, self.quotas)
        found = _planned(plan, job, now_s)
        if found is None or _weakens(plan, self.without, self.before, now_s):
            return None, None
        finish_s = found.start_s + found.data.mid_s + found.run_s
        return (finish_s if found.end_s <= deadline_of(job) else None), found

    def kept_when_asked(self, job: JobView, soonest: Ahead) -> Ahead:
        """The same with an end that is kept if it is asked for, where one is found: served by deadlines, a job with a
        later one has its place behind more."""
        end_s = soonest.end_s
        for _ in range(_MOST_ASKED):
            if math.isinf(end_s):
                break
            later = replace(job, deadline_s=finish_told_s(end_s, self.now_s))
            if not self._serves_between(job, later):
                return soonest._replace(end_s=end_s)  # it has the same place, so the same plan
            finish_s, then = self.ask(later)
            if finish_s is not None:
                return soonest._replace(end_s=end_s)
            job, end_s = later, then.end_s if then is not None else math.inf
        return soonest._replace(is_kept=False)

    def _serves_between(self, job: JobView, later: JobView) -> bool:
        """Whether another job may be served before it with the later deadline, and after it with its own."""
        return any(deadline_of(job) <= deadline_of(other) <= deadline_of(later) for other in self.before)


def _planned(plan: Plan, job: JobView, now_s: float) -> Ahead | None:
    """What is left of a job by a plan that tells times; None: nobody can tell."""
    times = plan.expected.get(job.job_id)
    if times is None:
        return None
    start_s, data = max(now_s, times[0]), plan.data.get(job.job_id, job.bringing)
    run_s = max(0.0, times[1] - start_s - data.mid_s)  # of nothing left it may be a rounding below
    return Ahead(start_s, data, run_s, start_s + data.high_s + run_s * job.slowdown_at(run_s))


def _weakens(plan: Plan, without: Plan, jobs: Sequence[JobView], now_s: float) -> bool:
    """Whether by the plan a promised job may end after its deadline, and later than `without` the new one."""

    def end_s(one: Plan, job: JobView) -> float:
        found = _planned(one, job, now_s)
        return found.end_s if found else math.inf

    return any(end_s(plan, job) > max(deadline_of(job), end_s(without, job)) for job in jobs if job.promised)


def deadline_of(job: JobView) -> float:
    """Infinite where it has none."""
    return math.inf if job.deadline_s is None else job.deadline_s
