"""`admit`: can a finish time be promised, which is the earliest that can be kept, what would have to change? Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.asking import Ahead, Asked, deadline_of
from scheduler.offers.promisable import Promisable
from scheduler.offers.values import LEAST_CHANCE, finish_told_s
from scheduler.offers.words import LARGER_QUOTA, NO_LATER, NO_PROMISE, NOT_OF_BORROWED, chance_words, later_words
from scheduler.placing.capacity import shown
from scheduler.placing.obstacles import HOW_TO_JOIN
from scheduler.policies import policy_of
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.edf import Edf
from scheduler.types import Admission, Capacity, JobView, Option, Policy, PoolView, Quotas, count_of
from worker.words import duration_words


def admit(
    job: JobView,
    jobs: Sequence[JobView],
    pool: PoolView,
    now_s: float,
    *,
    policy: str | Policy = "deadline_energy",
    quotas: Quotas | None = None,
) -> Admission:
    """Whether `job`, added to `jobs`, can be promised its deadline without breaking a promise that was given.

    Raises `ValueError` for a policy that does not exist.
    """
    chosen = policy_of(policy) if isinstance(policy, str) else policy
    quotas = quotas or {}
    # Where a queue is served, one that is promised already keeps its place by that.
    keeps_place = job.promised and not isinstance(chosen, DeadlineEnergy)
    job = replace(job, promised=keeps_place, running=None)
    others = [other for other in jobs if other.job_id != job.job_id]
    problem = _problem(job, now_s)
    if problem:
        return Admission(accepted=False, finish_s=None, earliest_finish_s=None, text=problem)
    view = shown([*others, job], pool, now_s, quotas)
    seen = next((other for other in view.jobs if other.job_id == job.job_id), None)
    if seen is None:
        return _unfit(pool)
    if not any(option.rate_per_s for option in seen.options):
        text = "There is no estimate of how long it takes on the devices that can run it, so no finish can be promised."
        return Admission(accepted=False, finish_s=None, earliest_finish_s=None, text=text)
    asked = Asked(chosen=chosen, view=view, job_id=job.job_id, now_s=now_s, quotas=quotas)
    finish_s, soonest = asked.ask(seen)
    if finish_s is None and soonest is not None and isinstance(chosen, Edf):
        soonest = asked.kept_when_asked(seen, soonest)
    return _answer(job, seen, finish_s, soonest, _fastest(seen, view.capacity), now_s, quotas)


def promisable(
    job: JobView,
    jobs: Sequence[JobView],
    pool: PoolView,
    now_s: float,
    *,
    policy: str | Policy = "deadline_energy",
    quotas: Quotas | None = None,
    ready_s: Mapping[Option, float] | None = None,
) -> Mapping[Option, Promisable] | None:
    """Of each of many options what `admit` would promise if it were the only one; missing where that is nothing.

    `ready_s`: when an option may start, where that is later than now. None: by this policy each would be a plan of the
    whole pool. Raises `ValueError` for a policy that does not exist.
    """
    chosen = policy_of(policy) if isinstance(policy, str) else policy
    if not isinstance(chosen, DeadlineEnergy):
        return None
    quotas = quotas or {}
    job = replace(job, promised=False, running=None)
    view = shown([*(other for other in jobs if other.job_id != job.job_id), job], pool, now_s, quotas)
    seen = next((other for other in view.jobs if other.job_id == job.job_id), None)
    if seen is None:
        return {}
    before = [other for other in view.jobs if other.job_id != job.job_id]
    slots = chosen.slots(seen, before, view.capacity, now_s, quotas, ready_s or {})
    return {
        option: Promisable(slot.start_s, slot.end_s, slot.data, slot.site.name)
        for option, slot in slots.items()
        if math.isfinite(slot.end_s)
    }


def _unfit(pool: PoolView) -> Admission:
    text = "No available node can run it as requested, even idle."
    helps = ("Ask for fewer devices, less memory or another kind of device, or wait for a larger node.",)
    if not any(node.takes_work for node in pool.nodes):
        text = "No node takes work."
        helps = (f"Start a node's agent, or have a drained node take work again. {HOW_TO_JOIN}",)
    return Admission(accepted=False, finish_s=None, earliest_finish_s=None, text=text, changes_that_would_help=helps)


def _problem(job: JobView, now_s: float) -> str:
    """Why nothing can be promised whatever the pool looks like; empty where it may be."""
    if job.deadline_s is not None and job.deadline_s <= now_s:
        return "The deadline has passed."
    if not any(option.rate_per_s for option in job.options):
        return "There is no estimate of how long it takes, so no finish can be promised."
    return ""


class _Fastest(NamedTuple):
    """What it takes if everything were free."""

    whole_s: float
    """Upper end."""
    data_s: float
    """Of which its data are on their way, by the upper end as well."""


def _fastest(job: JobView, capacity: Capacity) -> _Fastest:
    """On the devices that it may use: of each option's nodes that with the shortest way."""
    found = []
    for option in job.options:
        least = 1 if capacity.spans_nodes else option.count
        data_s = 0.0
        if job.data is not None:
            names = (node.name for node in capacity.nodes if count_of(node.total, option) >= least)
            data_s = min((job.data.to(name).high_s for name in names), default=0.0)
        found.append(_Fastest(job.left_high_s(option) + data_s, data_s))
    return min(found)


def _answer(
    job: JobView,
    seen: JobView,
    finish_s: float | None,
    soonest: Ahead | None,
    fastest: _Fastest,
    now_s: float,
    quotas: Quotas,
) -> Admission:
    told = soonest if soonest and math.isfinite(soonest.end_s) else None
    earliest = told.end_s if told and told.is_kept else None
    if finish_s is not None:
        if job.deadline_s is None:
            text = f"It is expected to end in {duration_words(finish_s - now_s, up=True)}."
        else:
            left = duration_words(job.deadline_s - finish_s) if job.deadline_s > finish_s else "no time"
            takes = duration_words(finish_s - now_s, up=True)
            text = f"It is expected to end in {takes}, with {left} to spare; this finish is promised."
        return Admission(accepted=True, finish_s=finish_s, earliest_finish_s=earliest, text=text)
    if now_s + fastest.whole_s > deadline_of(job):
        data = f", {duration_words(fastest.data_s, up=True)} of that to bring its data there" if fastest.data_s else ""
        takes = duration_words(fastest.whole_s, up=True)
        text = (
            f"The deadline is in {duration_words(deadline_of(job) - now_s, up=True)}; "
            f"on the devices it may use it takes up to {takes} even if they were all free{data}."
        )
    elif earliest is None:
        text = NOT_OF_BORROWED if _only_borrows(seen, quotas) else NO_LATER if told else NO_PROMISE
    else:
        text = "The devices it would need until its deadline are promised to other jobs."
    told_s = None if earliest is None else finish_told_s(earliest, now_s)
    helps = _helps(job, seen, told_s, fastest, now_s, quotas)
    chance = told.chance(seen) if told else None
    if chance is not None and chance >= LEAST_CHANCE:
        helps.append(f"Submit it without a promise: it would be on time with a chance of {chance_words(chance)}.")
    return Admission(
        accepted=False, finish_s=None, earliest_finish_s=earliest, text=text, earliest_told_s=told_s,
        changes_that_would_help=tuple(helps), chance=chance,
    )  # fmt: skip


def _helps(
    job: JobView, seen: JobView, told_s: float | None, fastest: _Fastest, now_s: float, quotas: Quotas
) -> list[str]:
    """Whole sentences, the easiest first."""
    helps = []
    if told_s is not None:
        helps.append(f"Set a deadline {later_words(told_s - now_s)} from now, or later.")
    if len(job.options) == 1:
        helps.append("Leave the kind and number of devices open, if others are faster.")
    left_s = deadline_of(job) - now_s
    if fastest.whole_s > left_s > fastest.data_s:
        share = math.floor(100 * (left_s - fastest.data_s) / (fastest.whole_s - fastest.data_s))
        if share:
            helps.append(f"Train for fewer epochs: {share} % of the work would fit into the time.")
    if _only_borrows(seen, quotas) and told_s is None and fastest.whole_s <= left_s:
        return [*helps, LARGER_QUOTA]
    if any(_over_quota(job, option, quotas) for option in seen.options):
        helps.append("Ask an admin for a larger quota: some ways to run it need more than the project may use.")
    if fastest.whole_s <= left_s and told_s is None:
        helps.append("Ask again later, or submit it without a deadline.")
    elif fastest.whole_s <= left_s:
        helps.append("It fits if a job with a promise ends early or is cancelled.")
    return helps


def _only_borrows(job: JobView, quotas: Quotas) -> bool:
    """Whether each way to run it takes more than the quota of its project, and some of these are lent to it."""
    quota = quotas.get(job.project)
    lent = quota is not None and any(quota.borrows(option.kind) for option in job.options)
    return lent and all(_over_quota(job, option, quotas) for option in job.options)


def _over_quota(job: JobView, option: Option, quotas: Quotas) -> bool:
    quota = quotas.get(job.project)
    limit = quota.limit(option.kind) if quota else None
    return limit is not None and option.count > limit
