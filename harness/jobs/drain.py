"""What draining a node or keeping devices would do: which jobs are there, until when, and who would wait longer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.views import Facts, facts_read
from harness.jobs.models import Allocation, Job
from harness.pool.models import Device, Node
from harness.pool.naming import node_named
from harness.pool.reservations import reservation_span, reservation_target
from scheduler.place import place
from scheduler.types import Decision, DeviceView, NodeView, PoolView, Reserved, WaitCode

STUCK = frozenset(
    {
        WaitCode.NO_NODES,
        WaitCode.NO_SUCH_DEVICE,
        WaitCode.TOO_MANY_DEVICES,
        WaitCode.NOT_ENOUGH_MEMORY,
        WaitCode.SANDBOX_TOO_WEAK,
    }
)
"""Reasons that no end of another job takes away."""
LATER_S = 60.0
"""A finish that moves by less is not worth a line."""


@dataclass(frozen=True, kw_only=True)
class RunningThere:
    """A job that holds devices of the node: it ends in peace."""

    job: Job
    devices: int
    finish_at: datetime | None
    """Expected; None: nobody has estimated it."""


@dataclass(frozen=True, kw_only=True)
class Delayed:
    """A waiting job that would be held back."""

    job: Job
    finish_before: datetime | None
    finish_after: datetime | None
    """None with `why`: it would not start meanwhile, or nobody can tell when."""
    why: str
    breaks_promise: bool


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """All of it."""

    node: Node
    running: tuple[RunningThere, ...]
    idle_at: datetime | None
    """When the last of its jobs is expected to be done; None where that cannot be told, or nothing runs."""
    delayed: tuple[Delayed, ...]


def drain_consequences(*, user: User, name: str) -> Consequences:
    """Decide once with the node and once without it, and compare; changes nothing. Raises `Forbidden`, `NotFound`."""
    require_admin(user)
    node = node_named(name)
    facts = facts_read(with_delayed=True)
    running = _running_on(node)
    finishes = [there.finish_at for there in running]
    known = [finish for finish in finishes if finish is not None]
    return Consequences(
        node=node,
        running=running,
        idle_at=max(known) if known and len(known) == len(finishes) else None,
        delayed=_delayed(facts, _drained(facts.pool, name)),
    )


def reservation_consequences(
    *,
    user: User,
    node: str,
    device: str = "",
    starts_at: datetime | None = None,
    ends_at: datetime,
    project: Project | None = None,
) -> tuple[Delayed, ...]:
    """Waiting jobs that it would hold back; keeps nothing. Jobs of `project` may use the devices meanwhile.

    Raises `Forbidden`, `NotFound`, `Invalid`.
    """
    require_admin(user)
    target = reservation_target(node, device)
    starts_at, ends_at = reservation_span(starts_at, ends_at)
    facts = facts_read(with_delayed=True)
    kept = Reserved(
        start_s=starts_at.timestamp(), end_s=ends_at.timestamp(), project=project.pk if project else "", purpose=""
    )
    delayed = _delayed(facts, _kept(facts.pool, target, kept))
    return tuple(row for row in delayed if project is None or row.job.project_id != project.pk)


def _running_on(node: Node) -> tuple[RunningThere, ...]:
    held: dict[str, int] = defaultdict(int)
    jobs: dict[str, Job] = {}
    for allocation in Allocation.objects.filter(device__node=node).select_related("job__project", "job__owner"):
        held[allocation.job_id] += 1
        jobs[allocation.job_id] = allocation.job
    rows = [
        RunningThere(job=jobs[pk], devices=count, finish_at=jobs[pk].expected_finish_at) for pk, count in held.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.finish_at is None, row.finish_at, row.job.pk)))


def _drained(pool: PoolView, name: str) -> PoolView:
    nodes = tuple(replace(node, takes_work=node.takes_work and node.name != name) for node in pool.nodes)
    return replace(pool, nodes=nodes)


def _kept(pool: PoolView, target: Node | Device, kept: Reserved) -> PoolView:
    def now_kept(node: NodeView, device: DeviceView) -> bool:
        return node.name == target.name if isinstance(target, Node) else device.device_id == target.pk

    nodes = []
    for node in pool.nodes:
        devices = (
            replace(device, reserved=(*device.reserved, kept)) if now_kept(node, device) else device
            for device in node.devices
        )
        nodes.append(replace(node, devices=tuple(devices)))
    return replace(pool, nodes=tuple(nodes))


def _decide(facts: Facts, pool: PoolView) -> Decision:
    return place(facts.views, pool, facts.now_s, policy=facts.setting.policy, quotas=facts.quotas)


def _delayed(facts: Facts, changed: PoolView) -> tuple[Delayed, ...]:
    """Waiting jobs that would finish later on the changed pool, or not start at all."""
    before, after = _decide(facts, facts.pool), _decide(facts, changed)
    starting = {placement.job_id for placement in before.placements}
    found = []
    for view in facts.views:
        if view.is_running:
            continue
        was, will = before.expected.get(view.job_id), after.expected.get(view.job_id)
        reason = after.waits.get(view.job_id)
        stuck = reason is not None and reason.code in STUCK
        was_stuck = (old := before.waits.get(view.job_id)) is not None and old.code in STUCK
        later = was is not None and will is not None and will[1] - was[1] > LATER_S
        # It would wait behind jobs of which nobody knows when they end.
        lost = reason is not None and will is None and (was is not None or view.job_id in starting)
        if not later and not lost and not (stuck and not was_stuck):
            continue
        job = facts.jobs[view.job_id]
        finish = _time(will) if not stuck else None
        late = job.promised_at is not None and (finish is None or finish > job.promised_at)
        found.append(
            Delayed(
                job=job,
                finish_before=_time(was),
                finish_after=finish,
                why=reason.text if finish is None and reason else "",
                breaks_promise=late,
            )
        )
    return tuple(found)


def _time(told: tuple[float, float] | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(told[1], UTC) if told else None
    except (OverflowError, ValueError, OSError):
        return None
