"""How admins order waiting jobs: they move among those that the policy serves by priority and an admin's order.

A promised job is served by its deadline whatever its priority, or keeps its place; a project under fair share is served
by what it holds: no move changes that, so none is taken that would seem to.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import publish_job, publish_pool, task_send_on_commit
from harness.errors import Conflict, Invalid
from harness.jobs.models import Job
from harness.jobs.options import options_of, with_saved_step, work_left
from harness.jobs.states import job_note
from harness.pool.models import Device, NodeState, Policy, Quota
from harness.pool.services import pool_setting_get
from harness.pool.turn import facts_change
from scheduler.kinds import declared_name
from scheduler.policies.order import PATIENCE_S
from scheduler.types import DeviceKey
from worker.states import JobState


class Place(NamedTuple):
    """What a policy orders waiting jobs by."""

    priority: int
    rank: int


PROMISED, DEADLINE = "promised", "deadline"
_AGAIN = "Reload the queue and try again."


def shown_order(job: Job) -> tuple[float, int, int, datetime, str]:
    """As the policy serves; who is too new for it comes after, by priority, an admin's order and time."""
    place = job.queue_position if job.queue_position is not None else float("inf")
    return (place, -job.priority, job.rank, *_time(job))


def neighbours(waiting: Sequence[Job]) -> list[tuple[bool, bool]]:
    """For each job of the shown queue, whether it can be moved (before, behind) another one."""
    groups = [group for _, group in _grouped(waiting, pool_setting_get().policy)]
    return [
        (group != PROMISED and group in groups[:at], group != PROMISED and group in groups[at + 1 :])
        for at, group in enumerate(groups)
    ]


def job_shift(*, user: User, job: Job, to: str) -> Job:
    """Move a waiting job `up`, `down`, `first` or `last` among those it can be moved among.

    Raises like `job_reorder`; `Conflict` where it is there already, `Invalid` for another word.
    """
    require_admin(user)
    return job_reorder(user=user, job=job, before=shift_before(job, to))


def shift_before(job: Job, to: str) -> Job | None:
    """The job that `up`, `down`, `first` or `last` moves another one before; None: none, to the end.

    Raises `Conflict` where it is there already, `Invalid` for another word.
    """
    policy = pool_setting_get().policy
    _, peers = _peers(job, _waiting(), policy)
    at = next(index for index, peer in enumerate(peers) if peer.pk == job.pk)
    targets = {"up": at - 1, "first": 0, "down": at + 2, "last": len(peers)}
    if to not in targets:
        raise Invalid(f"A job moves {', '.join(targets)}, not {to!r}.", field="to")
    forward = to in ("up", "first")
    if at == (0 if forward else len(peers) - 1):
        raise Conflict(
            f"{job.name} is already the {'first' if forward else 'last'} of the jobs that it can be moved among.",
            hint=_rule(policy),
        )
    return peers[targets[to]] if targets[to] < len(peers) else None


def job_reorder(*, user: User, job: Job, before: Job | None) -> Job:
    """Put a waiting job just before another in the queue, or behind all that it can be moved among.

    It takes the nearest priority that puts it there; jobs that come later still go behind all of it.
    Raises `Forbidden`, `Conflict`.
    """
    require_admin(user)
    with transaction.atomic():
        facts_change()
        places = places_after(job, before)
        if not places:
            return job
        for pk, place in places.items():
            Job.objects.filter(pk=pk).exclude(**place._asdict()).update(**place._asdict())
        told = f"Moved before {before.name} in the queue" if before else "Moved to the end of the queue"
        job_note(job, "person", told, actor=user)
        audit_write(user, "job_reorder", job.pk, project=job.project, before=before.pk if before else None)
        queue_changed(job)
    job.refresh_from_db()
    return job


def places_after(job: Job, before: Job | None) -> dict[str, Place]:
    """Priority and rank that `job_reorder` gives jobs, by id; none where nothing moves. Raises `Conflict`."""
    waiting, policy = _waiting(), pool_setting_get().policy
    group, peers = _peers(job, waiting, policy)
    if before is not None and before.pk == job.pk:
        return {}
    ahead = next((peer for peer in peers if before is not None and peer.pk == before.pk), None)
    if before is not None and ahead is None:
        raise _out_of_reach(job, before, waiting, policy)
    moved = next(peer for peer in peers if peer.pk == job.pk)
    others = [peer for peer in peers if peer.pk != job.pk]
    # Of who has waited for more than a day the priority does not count.
    is_overdue = group not in (PROMISED, DEADLINE) and _is_overdue(moved, timezone.now())
    priority = moved.priority if is_overdue else _priority_there(moved, ahead, others)
    level = [peer for peer in others if is_overdue or peer.priority == priority]
    level.insert(level.index(ahead) if ahead in level else len(level), moved)
    ranks = _ranks(level, group, policy)
    return {
        row.pk: Place(priority=priority if row is moved else row.priority, rank=rank)
        for row, rank in zip(level, ranks, strict=True)
    }


def _priority_there(moved: Job, ahead: Job | None, others: Sequence[Job]) -> int:
    """Of who is put just before `ahead` (None: behind all): the nearest to its own that puts it there. Who moves down
    among those of its priority keeps that, though one of a lower priority comes next.

    The order that is shown is not always one by priority: who came since it was decided on stands at its end.
    """
    if ahead is None:
        return min(peer.priority for peer in (moved, *others))
    most = min((other.priority for other in others[: others.index(ahead)]), default=moved.priority)
    return max(ahead.priority, min(moved.priority, most))


def _waiting() -> list[Job]:
    """All jobs that wait, as they are shown."""
    rows: QuerySet[Job] = Job.objects.filter(state=JobState.QUEUED, deleted_at=None)
    return sorted(with_saved_step(rows), key=shown_order)


def _peers(job: Job, waiting: Sequence[Job], policy: str) -> tuple[Hashable, list[Job]]:
    """What a job shares with the jobs that an admin's order arranges it among, and these jobs, itself among them, as
    they are shown."""
    grouped = _grouped(waiting, policy)
    mine = next((group for other, group in grouped if other.pk == job.pk), None)
    if mine is None:
        raise Conflict("This job is not waiting.", hint=_AGAIN)
    if mine == PROMISED:
        served = "it is served by its deadline, in no other order."
        if policy != Policy.DEADLINE_ENERGY:
            served = "whoever came after the promise stands behind it, and nobody else."
        raise Conflict(f"{job.name} has a promised finish: {served}")
    return mine, [other for other, group in grouped if group == mine]


def _grouped(waiting: Iterable[Job], policy: str) -> list[tuple[Job, Hashable]]:
    """Each job with what it shares with those that an admin's order arranges it among."""
    now = timezone.now()
    reach = in_reach() if policy == Policy.DEADLINE_ENERGY else Reach()
    return [(job, _group(job, policy, now, reach)) for job in waiting]


def _group(job: Job, policy: str, now: datetime, reach: Reach) -> Hashable:
    overdue = _is_overdue(job, now)
    if job.promised_at is not None:  # it goes first once that has passed, too
        return PROMISED
    if policy == Policy.FAIR_SHARE:
        return (overdue, "" if overdue else job.project_id)
    if policy == Policy.DEADLINE_ENERGY and deadline_can_be_kept(job, now, reach):
        return DEADLINE
    return (overdue, "")


def _is_overdue(job: Job, now: datetime) -> bool:
    return (now - _time(job)[0]).total_seconds() >= PATIENCE_S


class Reach(NamedTuple):
    """What jobs may be planned on."""

    there: Set[DeviceKey] = frozenset()
    """Kinds and models, and each kind by itself, of the devices of nodes that take work."""
    most: Mapping[tuple[str, str], int] = {}
    """(project, kind) -> devices of a quota that may not be exceeded."""


def in_reach() -> Reach:
    """As of now."""
    quotas = Quota.objects.filter(may_borrow=False).values_list("project_id", "device_kind", "devices")
    return Reach(_devices_there(), {(project_id, kind): devices for project_id, kind, devices in quotas})


def _devices_there() -> frozenset[DeviceKey]:
    seen = Q(away_since=None) | Q(allocation__isnull=False)  # one that is away is there for who holds it
    rows = Device.objects.filter(seen, node__state=NodeState.UP).values_list("kind", "model_name", "slowdown")
    models = {(kind, declared_name(model, slowdown)) for kind, model, slowdown in rows.distinct()}
    return frozenset(models | {(kind, "") for kind, _ in models})


def deadline_can_be_kept(job: Job, now: datetime, reach: Reach) -> bool:
    """Whether its deadline is kept by its fastest way that a quota allows, on devices that are there, or on any where
    none of its are: else, and without an estimate, it waits like one without."""
    if job.deadline_at is None:
        return False
    told = [
        option
        for option in options_of(job)
        if option.rate_per_s > 0 and option.count <= reach.most.get((job.project_id, option.kind), option.count)
    ]
    ways = [way for way in told if all((way.kind, name) in reach.there for name, _ in way.by_model)] or told
    least_s = work_left(job) * min(way.run_s for way in ways) if ways else math.inf
    return now.timestamp() + least_s <= job.deadline_at.timestamp()


def _out_of_reach(job: Job, before: Job, waiting: Sequence[Job], policy: str) -> Conflict:
    if all(other.pk != before.pk for other in waiting):
        return Conflict("One of the jobs is no longer waiting.", hint=_AGAIN)
    return Conflict(f"{job.name} cannot be moved before {before.name}.", hint=_rule(policy))


def _rule(policy: str) -> str:
    """Which jobs go before others whatever an admin does."""
    overdue = "Jobs that have waited for more than a day go before all others, promised ones before whoever came later"
    if policy == Policy.DEADLINE_ENERGY:
        return "Promised jobs go first, then what has waited for more than a day, then deadlines that can be kept."
    if policy == Policy.FAIR_SHARE:
        return f"{overdue}, and projects take turns: a job can be moved among those of its own project."
    return f"{overdue}."


def _ranks(level: Sequence[Job], group: Hashable, policy: str) -> list[int]:
    """Ranks that keep this order, and leave whoever comes later behind it."""
    if policy == Policy.EDF or group == DEADLINE:
        return list(range(-len(level), 0))  # of the same rank the policy would take the more urgent first
    return ranks_of(level)


def ranks_of(level: Sequence[Job]) -> list[int]:
    """Ranks that keep this order: 0 for as many at its end as come by their time anyway, below 0 before them.

    So whoever is submitted later, with rank 0, comes after all of them.
    """
    first = len(level)
    while first > 0 and (first == len(level) or _time(level[first - 1]) <= _time(level[first])):
        first -= 1
    return [min(0, index - first) for index in range(len(level))]


def _time(job: Job) -> tuple[datetime, str]:
    return (job.queued_at or job.created_at, job.pk)


def queue_changed(job: Job) -> None:
    """Tell pages and the scheduler."""
    publish_job(job.project_id, job.pk, "updated", {})
    publish_pool("queue", {"job_id": job.pk})
    task_send_on_commit("control.tick")
