"""A run that was promised a finish is not interrupted for another deadline that can wait.

Earliest deadline first gives the devices to the earlier promise, also where both have time. So a plan that pauses
promised runs, or takes devices from them, is made again with these as they are, and that one is taken if it keeps what
the first one keeps, and whom it keeps waiting has time to spare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from itertools import islice

from scheduler.policies.deadline_pass import DeadlinePass
from scheduler.types import JobView, Option, Plan

MOST_LOOKS = 3
"""So often a decision is planned again for that: first with all such runs as they are, then with one of them each."""
LEAST_SPARE = 0.25
"""Who waits for such a run has this part of the time until its deadline to spare afterwards: for what may come yet."""


def calmest(jobs: Sequence[JobView], found: DeadlinePass, now_s: float) -> Plan:
    """The plan of `found`, or the first that interrupts fewer promised runs and keeps as much."""
    plan = found.plan()
    begin = [job for job in jobs if not job.is_running and job.job_id in plan.allotments]
    cut = _interrupted(found, plan) if any(job.deadline_s is not None for job in begin) else []
    for firm in islice(_tries(cut), MOST_LOOKS):
        other = found.with_held(firm)
        if not _can_wait(found, other, now_s):
            continue
        calmer = other.plan()
        fewer = len(_interrupted(other, calmer)) < len(cut)
        if fewer and _keeps(found, plan, other, calmer) and _first(begin, firm, found) <= calmer.allotments.keys():
            return calmer
    return plan


def _interrupted(found: DeadlinePass, plan: Plan) -> list[JobView]:
    """Promised runs that are paused or get fewer devices by the plan, not for their own thrift."""
    return [job for job in found.promised_runs if _loses(found, job, plan.allotments.get(job.job_id))]


def _loses(found: DeadlinePass, job: JobView, option: Option | None) -> bool:
    if job.running is None or option is None or option.count >= job.running.option.count:
        return option is None
    # It may have got more than that of what was left free.
    thriftiest = found.thriftiest(job)
    return thriftiest is None or thriftiest.key != option.key or thriftiest.count > option.count


def _tries(cut: Sequence[JobView]) -> Iterator[Sequence[JobView]]:
    if cut:
        yield cut
    if len(cut) > 1:
        yield from ([job] for job in cut)


def _can_wait(found: DeadlinePass, other: DeadlinePass, now_s: float) -> bool:
    """Whether every promise that ends later by the other plan has time to spare."""
    before = {job.job_id: end_s for job, end_s in found.ends}
    later = [(job.deadline_s or math.inf, end_s) for job, end_s in other.ends if end_s > before[job.job_id]]
    return all(deadline_s - end_s >= LEAST_SPARE * (deadline_s - now_s) for deadline_s, end_s in later)


def _keeps(found: DeadlinePass, plan: Plan, other: DeadlinePass, calmer: Plan) -> bool:
    """Whether no deadline that is not promised fares worse."""
    left = {job.job_id for job in found.left}
    return plan.promised <= calmer.promised and all(job.job_id in left for job in other.left)


def _first(begin: Sequence[JobView], firm: Sequence[JobView], found: DeadlinePass) -> Set[str]:
    """Of jobs that begin those of higher priority or that are overdue: they do so as well."""
    least = min(job.priority for job in firm)
    return {job.job_id for job in begin if job.priority > least or job.job_id in found.overdue}
