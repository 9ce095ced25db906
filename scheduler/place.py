"""`place`: which jobs start, go on, change or wait now. Pure: the same in production and in a simulator.

A policy says how many devices of which kind each job gets (`scheduler.policies`), `assign` says which ones, `Reasons`
says why the others wait.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter

from scheduler.job_view import memory_by_node
from scheduler.placing.assign import Assignment, assign, same_gang
from scheduler.placing.capacity import shown
from scheduler.placing.places import end_of
from scheduler.placing.reasons import Reasons
from scheduler.policies import policy_of
from scheduler.policies.order import order_key
from scheduler.types import Decision, JobView, Option, Plan, Policy, PoolView, Quotas, WaitCode, WaitReason


@contextmanager
def _without_collection() -> Iterator[None]:
    """A decision makes many small objects and no cycles; looking for cycles took a quarter of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collection()
def place(
    jobs: Sequence[JobView],
    pool: PoolView,
    now_s: float,
    *,
    policy: str | Policy = "deadline_energy",
    quotas: Quotas | None = None,
) -> Decision:
    """Decide over all jobs at once.

    Raises `ValueError` for a policy that does not exist, a moment that is none, or two jobs of one id.
    """
    quotas = quotas or {}
    _check(jobs, now_s)
    jobs = sorted(jobs, key=attrgetter("job_id"))
    chosen = policy_of(policy) if isinstance(policy, str) else policy
    view = shown(jobs, pool, now_s, quotas)
    plan = _guarded(chosen.plan(view.jobs, view.capacity, now_s, quotas), view.jobs)
    done = assign(_as_planned(jobs, view.jobs), pool, plan, now_s, limited=quotas)
    running = {placement.job_id for placement in done.placements}.union(done.running)
    waiting = [job for job in jobs if job.job_id not in running]
    return Decision(
        placements=tuple(done.placements),
        running=tuple(done.running),
        changes=tuple(done.changes),
        waits=_waits(waiting, jobs, pool, now_s, quotas, plan, done),
        expected=_expected(jobs, plan, done, now_s),
        data=plan.data,
        warnings=plan.warnings,
        promised=plan.promised.difference(done.unplaced),  # what was to begin now and found no room is no promise
        planned_on=_planned_on(waiting, pool, plan),
    )


def _check(jobs: Sequence[JobView], now_s: float) -> None:
    if not math.isfinite(now_s):
        raise ValueError(f"{now_s} is not a moment")
    counts = Counter([job.job_id for job in jobs])
    if len(counts) < len(jobs):
        twice = [name for name, count in counts.items() if count > 1]
        raise ValueError(f"shown twice: {', '.join(twice)}")


def _guarded(plan: Plan, jobs: Sequence[JobView]) -> Plan:
    """The plan, without what no policy may do: stop or change a job that cannot be paused, or invent jobs."""
    known = {job.job_id: job for job in jobs}
    allotments = {job_id: option for job_id, option in plan.allotments.items() if job_id in known}
    for job in jobs:
        if job.running is not None and not job.can_pause:
            option = allotments.get(job.job_id)
            if option is None or not same_gang(option, job.running.option):
                allotments[job.job_id] = job.running.option
    return replace(plan, allotments=allotments)


def _as_planned(jobs: Sequence[JobView], planned: Sequence[JobView]) -> list[JobView]:
    """All jobs with what the pool knows of them: those that leave still hold their devices."""
    by_id = {job.job_id: job for job in planned}
    return [job if job.running and job.running.leaving else by_id.get(job.job_id, job) for job in jobs]


def _planned_on(waiting: Sequence[JobView], pool: PoolView, plan: Plan) -> dict[str, str]:
    if pool.spans_nodes:
        return {}
    return {job.job_id: hint for job in waiting if (hint := plan.hints.get(job.job_id))}


def _expected(jobs: Sequence[JobView], plan: Plan, done: Assignment, now_s: float) -> dict[str, tuple[float, float]]:
    """As the plan says; who would have been paused for nobody goes on instead."""
    unplaced = set(done.unplaced)
    expected = {job_id: times for job_id, times in plan.expected.items() if job_id not in unplaced}
    kept = set(done.running).difference(plan.allotments)
    for job in jobs:
        if job.job_id in kept and job.running is not None:
            end_s = now_s + job.left_s(job.running.option)
            if math.isfinite(end_s):
                expected[job.job_id] = (job.running.started_s, end_s)
    return expected


def _waits(
    waiting: Sequence[JobView],
    jobs: Sequence[JobView],
    pool: PoolView,
    now_s: float,
    quotas: Quotas,
    plan: Plan,
    done: Assignment,
) -> dict[str, WaitReason]:
    """Who waits, in the order they are served, each with its place and reason."""
    if not waiting:
        return {}
    holdings = _holdings(jobs, done)
    reasons = Reasons(jobs, pool, quotas, _taken(jobs, pool, now_s, holdings), _memory(jobs, pool, holdings), now_s)
    told = {job_id: number for number, job_id in enumerate(plan.order)}
    order = sorted(waiting, key=lambda job: (told.get(job.job_id, len(told)), order_key(job, now_s)))
    waits = {}
    # Those whose devices are being given back are served before all who wait.
    first = 1 + sum(bool(placement.waits_for) for placement in done.placements)
    for position, job in enumerate(order, start=first):
        own, found = plan.waits.get(job.job_id), reasons.of(job, position)
        # "It is planned later" says less than what holds it back where that is no other job.
        start_s, _ = plan.expected.get(job.job_id, (math.inf, math.inf))
        outlasts = start_s >= found.kept_until_s  # it is planned elsewhere where it starts before that
        if own is None or (own.code is WaitCode.LATER and found.code in _NOT_JOBS and outlasts):
            waits[job.job_id] = found
        elif own.code is WaitCode.BEHIND and outlasts:
            waits[job.job_id] = replace(
                found, text=f"{own.text} {found.text}", remedy=f"{found.remedy} {own.remedy}".strip()
            )
        else:
            waits[job.job_id] = _with_holders(own, found)
    return waits


def _with_holders(own: WaitReason, found: WaitReason) -> WaitReason:
    """The policy's reason; who holds the devices that it is planned on is known here."""
    holders = found.holders if own.code is WaitCode.LATER else ()
    return replace(own, position=found.position, holders=holders)


_NOT_JOBS = frozenset({WaitCode.QUOTA_USED, WaitCode.RESERVED})
_Holding = tuple[JobView, Option, tuple[str, ...], tuple[str, ...]]


def _holdings(jobs: Sequence[JobView], done: Assignment) -> dict[str, _Holding]:
    """Job -> (itself, option, nodes, devices) once everything is carried out."""
    by_id = {job.job_id: job for job in jobs}
    found: dict[str, _Holding] = {}
    for job_id in done.running:
        running = by_id[job_id].running
        if running:
            found[job_id] = (by_id[job_id], running.option, running.nodes, running.device_ids)
    for change in done.changes:
        if change.option is not None:
            found[change.job_id] = (by_id[change.job_id], change.option, change.nodes, change.device_ids)
    for start in done.placements:
        found[start.job_id] = (by_id[start.job_id], start.option, start.nodes, start.device_ids)
    return found


def _taken(
    jobs: Sequence[JobView], pool: PoolView, now_s: float, holdings: Mapping[str, _Holding]
) -> dict[str, tuple[str, float]]:
    """Device -> (who has it once everything is carried out, when that ends); nobody's name where it is unknown."""
    shown_devices = {device for job in jobs if job.running for device in job.running.device_ids}
    taken = {
        device.device_id: ("", math.inf)
        for node in pool.nodes
        if not node.all_free
        for device in node.devices
        if not device.free and device.device_id not in shown_devices
    }
    for job, option, _, devices in holdings.values():
        end_s = end_of(job, now_s) if job.is_running else now_s + job.left_high_s(option)
        taken.update(dict.fromkeys(devices, (job.job_id, end_s)))
    return taken


def _memory(jobs: Sequence[JobView], pool: PoolView, holdings: Mapping[str, _Holding]) -> dict[str, int]:
    """Node -> bytes that are asked for once everything is carried out."""
    held = Counter({node.name: node.memory_held_bytes for node in pool.nodes})
    was = [(job.running.option, job.running.device_ids) for job in jobs if job.running]
    will = [(option, devices) for _, option, _, devices in holdings.values()]
    if any(option.memory_bytes for option, _ in (*was, *will)):
        node_of = {device.device_id: node.name for node in pool.nodes for device in node.devices}
        for change, sides in ((held.subtract, was), (held.update, will)):
            for option, devices in sides:
                there = Counter(node_of[device] for device in devices if device in node_of)
                change(memory_by_node(option.memory_bytes, there))
    return held
