"""What draining a node would do: which jobs are there, until when, and who would wait longer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Q

from harness.accounts.access import require_admin
from harness.accounts.models import User
from harness.jobs.control.deciding import decide
from harness.jobs.control.returns import jobs_returning
from harness.jobs.control.views import Facts, facts_read
from harness.jobs.models import Allocation, Job
from harness.jobs.options import option_words
from harness.moments import moment_of
from harness.pool.models import Device, Node
from harness.pool.naming import node_named
from scheduler.placing.obstacles import NEVER
from scheduler.types import ChangeKind, Decision, JobView, Option, PoolView, WaitReason

PAUSED = "It makes room for a job that goes before it, and resumes later."
NO_WIDER = " The new finish is as if it got none of them back."
"""Who takes devices in again is decided when they are free: what is expected knows nothing of it."""
LATER_S = 60.0
"""A finish that moves by less is not worth a line, unless a promise breaks."""


@dataclass(frozen=True, kw_only=True)
class RunningThere:
    """A job that holds devices of the node, or whose results it still returns: it ends in peace."""

    job: Job
    devices: int
    """0: it returns results alone."""
    finish_at: datetime | None
    """Expected; None: nobody has estimated it."""


@dataclass(frozen=True, kw_only=True)
class Affected:
    """A job that would be held back or paused, or one that waits and would end sooner."""

    job: Job
    finish_before: datetime | None
    finish_after: datetime | None
    """None with `why`: it would not start meanwhile, or nobody can tell when."""
    why: str
    """A whole sentence, beside the finish where it would be paused or go on with fewer devices; else empty."""
    breaks_promise: bool
    """What it was promised is not kept then; of one that gains: not even then."""
    gains: bool = False
    """It would end sooner."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What becomes of the jobs."""

    expected: Mapping[str, tuple[float, float]]
    """Job id -> (start, finish), unix time."""
    waits: Mapping[str, WaitReason]
    starting: Set[str]
    """Ids of those that start now."""
    paused: Set[str] = frozenset()
    """Ids of those that run now and would be paused."""
    narrower: Mapping[str, Option] = field(default_factory=dict)
    """Of those that run now and would go on with fewer devices: with which."""

    @staticmethod
    def of(facts: Facts) -> Outlook:
        """As control decides on these facts."""
        decision = decide(facts)
        return Outlook(
            expected=decision.expected,
            waits=decision.waits,
            starting={placement.job_id for placement in decision.placements},
            paused={change.job_id for change in decision.changes if change.kind is ChangeKind.PAUSE},
            narrower=_narrower(facts, decision),
        )


def _narrower(facts: Facts, decision: Decision) -> dict[str, Option]:
    held = {view.job_id: view.running.option for view in facts.views if view.running}
    given = {change.job_id: change.option for change in decision.changes if change.option is not None}
    return {
        job_id: option
        for job_id, option in given.items()
        if (was := held.get(job_id)) and was.count > option.count and _same_devices(was, option)
    }


def _same_devices(was: Option, option: Option) -> bool:
    """Whether it goes on with some of those that it has, not with others."""
    return was.kind == option.kind and dict(option.by_model).keys() <= dict(was.by_model).keys()


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """All of it."""

    node: Node
    running: tuple[RunningThere, ...]
    idle_at: datetime | None
    """When the last of its jobs is expected to be done; None where that cannot be told, or nothing runs."""
    delayed: tuple[Affected, ...]


def drain_consequences(*, user: User, name: str) -> Consequences:
    """Decide once with the node and once without it, and compare; changes nothing. Raises `Forbidden`, `NotFound`."""
    require_admin(user)
    node = node_named(name)
    facts = facts_read(with_delayed=True)
    running = running_on(node)
    finishes = [there.finish_at for there in running]
    known = [finish for finish in finishes if finish is not None]
    drained = _drained(facts.pool, name)
    found = affected(facts, Outlook.of(facts), Outlook.of(replace(facts, pool=drained)))
    return Consequences(
        node=node,
        running=running,
        idle_at=max(known) if known and len(known) == len(finishes) else None,
        delayed=tuple(row for row in found if not row.gains),
    )


def running_on(target: Node | Device) -> tuple[RunningThere, ...]:
    """Jobs on the node or on the one device of it, first those that end first."""
    held: dict[str, int] = defaultdict(int)
    jobs: dict[str, Job] = {}
    there = Q(device__node=target) if isinstance(target, Node) else Q(device=target)
    for allocation in Allocation.objects.filter(there).select_related("job__project", "job__owner"):
        held[allocation.job_id] += 1
        jobs[allocation.job_id] = allocation.job
    for job in jobs_returning(target) if isinstance(target, Node) else ():
        held[job.pk], jobs[job.pk] = 0, job
    rows = [
        RunningThere(job=jobs[pk], devices=count, finish_at=jobs[pk].expected_finish_at) for pk, count in held.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.finish_at is None, row.finish_at, row.job.pk)))


def _drained(pool: PoolView, name: str) -> PoolView:
    nodes = (
        replace(node, takes_work=False, draining=True) if node.takes_work and node.name == name else node
        for node in pool.nodes
    )
    return replace(pool, nodes=tuple(nodes))


def affected(facts: Facts, before: Outlook, after: Outlook) -> tuple[Affected, ...]:
    """Jobs that would finish later or be paused, and waiting ones that would finish sooner or not start at all."""
    found = [_held_back(facts, view, before, after) for view in facts.views]
    waiting = [view.job_id for view, row in zip(facts.views, found, strict=True) if row is None and not view.is_running]
    return tuple(row for row in (*found, *(_gaining(facts, one, before, after) for one in waiting)) if row is not None)


def _held_back(facts: Facts, view: JobView, before: Outlook, after: Outlook) -> Affected | None:
    job_id = view.job_id
    was, will = before.expected.get(job_id), after.expected.get(job_id)
    reason, old = after.waits.get(job_id), before.waits.get(job_id)
    stuck = reason is not None and reason.code in NEVER
    was_stuck = old is not None and old.code in NEVER
    job = facts.jobs[job_id]
    breaks = _late(job, will) and was is not None and not _late(job, was)
    later = breaks or (was is not None and will is not None and will[1] - was[1] > LATER_S)
    # It would wait behind jobs of which nobody knows when they end.
    lost = reason is not None and will is None and (was is not None or job_id in before.starting)
    paused = job_id in after.paused and job_id not in before.paused
    narrower = "" if paused else _narrower_words(view, before, after)
    if not later and not lost and not paused and not (stuck and not was_stuck) and not (narrower and will is None):
        return None
    finish_before, finish = _finishes(job, was, will if not stuck else None)
    changed = PAUSED if paused else narrower and narrower + (NO_WIDER if finish else "")
    return Affected(
        job=job,
        finish_before=finish_before,
        finish_after=finish,
        why=changed or (reason.text if reason and finish is None else ""),
        breaks_promise=job.promised_at is not None and (finish is None or _late(job, will)),
    )


def _late(job: Job, times: tuple[float, float] | None) -> bool:
    """Whether a promise breaks by these times, be it by a moment."""
    return times is not None and job.promised_at is not None and times[1] > job.promised_at.timestamp()


def _narrower_words(view: JobView, before: Outlook, after: Outlook) -> str:
    """What a job that runs gives away; empty where it keeps what it would keep anyway."""
    option, anyway = after.narrower.get(view.job_id), before.narrower.get(view.job_id)
    if option is None or view.running is None or (anyway and anyway.count <= option.count):
        return ""
    return f"It goes on with {option.count} of its {option_words(view.running.option)}."


def _gaining(facts: Facts, job_id: str, before: Outlook, after: Outlook) -> Affected | None:
    was, will = before.expected.get(job_id), after.expected.get(job_id)
    sooner = will is not None and (was[1] - will[1] > LATER_S if was else job_id not in before.starting)
    starts = will is None and job_id in after.starting and job_id not in before.starting
    if not sooner and not starts:
        return None
    why, job = "It starts at once." if starts else "", facts.jobs[job_id]
    told, new = _finishes(job, was, will)
    still_late = _late(job, will)
    return Affected(job=job, finish_before=told, finish_after=new, why=why, breaks_promise=still_late, gains=True)


def _finishes(
    job: Job, was: tuple[float, float] | None, will: tuple[float, float] | None
) -> tuple[datetime | None, datetime | None]:
    """(when it is to end as it is, when it would), by what people are told of it now.

    Times are told again only as they move by more than a little (`told_again_s`), and what a run has just begun to show
    of its pace moves those behind it from one second to the next: beside the queue stands by how much its own move.
    """
    before, after, told = _time(was), _time(will), job.expected_finish_at
    if told is None or before is None:
        return before, after
    moved = after and told + (after - before)
    beside_promise = [
        (moment > job.promised_at, times)
        for moment, times in ((told, was), (moved, will))
        if moment and job.promised_at
    ]
    if any(is_later != _late(job, times) for is_later, times in beside_promise):
        return before, after  # else it would contradict what is said of the promise
    return told, moved


def _time(told: tuple[float, float] | None) -> datetime | None:
    return moment_of(told[1]) if told else None
