"""What a pass of `deadline_energy` has found, told as a `Plan` with times, reasons and warnings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.placing.obstacles import device_words
from scheduler.policies.deadline_room import Room
from scheduler.policies.site_slot import Slot
from scheduler.policies.ways import same
from scheduler.types import JobView, Option, Plan, WaitCode, WaitReason


@dataclass
class Found:
    """What has been planned so far."""

    slots: dict[str, Slot] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    warnings: dict[str, str] = field(default_factory=dict)
    waits: dict[str, WaitReason] = field(default_factory=dict)
    stays: dict[str, float] = field(default_factory=dict)
    """Running jobs that keep what they have -> until when at least."""
    resumes: dict[str, Slot] = field(default_factory=dict)
    """The same jobs -> where they go on after that."""
    holds: set[str] = field(default_factory=set)
    """Promised runs that keep what they have until they get what they are planned on."""
    foretold: dict[str, Slot] = field(default_factory=dict)
    """Jobs that wait to borrow -> when they start if nobody else comes: told, and kept for them by nothing."""


def plan_of(jobs: Sequence[JobView], order: Sequence[JobView], found: Found, room: Room, now_s: float) -> Plan:
    """The plan; `order` is that in which the jobs that can be changed were served."""
    allotments = {
        job.job_id: job.running.option for job in jobs if job.running and job.is_running and not job.can_pause
    }
    keep = found.stays.keys() | found.holds
    allotments |= {job.job_id: job.running.option for job in jobs if job.running and job.job_id in keep}
    starts = {job_id: slot for job_id, slot in found.slots.items() if slot.start_s <= now_s}
    moves = frozenset(job_id for job_id, slot in starts.items() if slot.moves)
    allotments |= {job_id: slot.option for job_id, slot in starts.items() if job_id not in moves}
    waiting = [job for job in order if job.job_id not in allotments]
    times = {job.job_id: _expected(job, found, now_s) for job in jobs}
    return Plan(
        allotments=allotments,
        expected={job_id: span for job_id, span in times.items() if math.isfinite(span[1])},
        data={
            job_id: slot.to_come(now_s) for job_id, slot in (found.slots | found.foretold).items() if slot.data.high_s
        },
        waits={job.job_id: reason for job in waiting for reason in [_wait(job, found)] if reason},
        order=tuple(job.job_id for job in waiting),
        moves=moves,
        hints={job_id: slot.site.hint for job_id, slot in found.slots.items()},
        nodes={job_id: _on_nodes(slot) for job_id, slot in starts.items() if slot.nodes},
        reasons={job.job_id: why for job in jobs for why in [_why(job, allotments, moves, now_s)] if why},
        why_room=room.why,
        warnings=found.warnings,
        promised=frozenset(found.promised),
    )


def _on_nodes(slot: Slot) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for site, width in slot.nodes:
        found[site.name] = found.get(site.name, 0) + width
    return found


def _expected(job: JobView, found: Found, now_s: float) -> tuple[float, float]:
    running, slot = job.running, found.slots.get(job.job_id)
    borrowed = found.foretold.get(job.job_id)
    if borrowed is not None:
        return borrowed.start_s, borrowed.finish_s(job, now_s)
    if running and slot and job.job_id in found.holds:
        return running.started_s, slot.finish_s(job, now_s)
    if running and job.is_running and (slot is None or (slot.start_s <= now_s and not slot.moves)):
        if slot is None and job.can_pause and job.job_id not in found.stays:
            return math.inf, math.inf
        if slot is None and (resumes := found.resumes.get(job.job_id)):
            rest_s = max(0.0, job.left_s(running.option) - (found.stays[job.job_id] - now_s))
            return running.started_s, resumes.start_s + resumes.data.mid_s + rest_s
        return running.started_s, now_s + (
            slot.data.mid_s + job.left_s(slot.option) if slot else job.left_s(running.option)
        )
    return (slot.start_s, slot.finish_s(job, now_s)) if slot else (math.inf, math.inf)


def _wait(job: JobView, found: Found) -> WaitReason | None:
    """Only for jobs that have a slot later on, or whose deadline is lost; `place` knows the other reasons."""
    if job.job_id in found.waits:
        return found.waits[job.job_id]
    slot = found.slots.get(job.job_id)
    if slot is None:
        return None
    words = device_words(slot.option.count, slot.option.kind)
    if job.promised and slot.start_s in found.stays.values():
        return WaitReason(
            code=WaitCode.DEVICES_BUSY,
            text=f"It is planned on {words}, in time for its promise; what has just begun there continues until then.",
            remedy="A higher priority would let it start now.",
        )
    fewer = " or fewer devices" if slot.option.count > 1 else ""
    return WaitReason(
        code=WaitCode.LATER,
        text=f"It is planned on {words}, once the jobs that run there, or are planned before it, have ended.",
        remedy="Nothing to do: it starts in time for its promise."
        if job.promised
        else f"A higher priority{fewer} would let it start sooner, unless those are promised.",
    )


def _why(job: JobView, allotments: Mapping[str, Option], moves: Collection[str], now_s: float) -> str:
    """Why a running job is changed; empty where it goes on as it is."""
    if job.running is None or not job.is_running or not job.can_pause:
        return ""
    option, held = allotments.get(job.job_id), job.running.option
    if job.job_id in moves:
        return "A job that is planned before it needs just its devices. It goes on on other devices."
    if option is None:
        return "It makes room for jobs that are planned before it."
    if same(option, held):
        return ""
    others = (option.count, option.kind, option.mode) == (held.count, held.kind, held.mode)
    words = "as many other devices" if others else device_words(option.count, option.kind)
    if option.rate_per_s < held.rate_per_s:
        return f"It continues with {words}: enough for what it has to keep, by less energy or to make room for others."
    if job.deadline_s is not None and job.deadline_s <= now_s:
        return f"It continues with {words}: they are free and make it faster; its deadline has passed."
    if job.deadline_s is not None and now_s + job.left_high_s(held) > job.deadline_s:
        return f"It continues with {words}: on those that it has it might miss its deadline."
    return f"It continues with {words}: they are free and make it faster, or its deadline needs them."


def too_late() -> WaitReason:
    """For a job whose deadline was never promised and is lost; `place` adds what else it waits for."""
    return WaitReason(
        code=WaitCode.BEHIND,
        text="Its deadline can no longer be kept, even on the most devices that help; it waits like a job without one.",
        remedy="A clone of it can have a later deadline.",
    )
