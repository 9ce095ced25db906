"""What reserving devices would do to jobs, looked at before it is done: which wait longer, end sooner, or too late."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import replace
from functools import cached_property

from django.utils import timezone

from harness.accounts.access import require_admin
from harness.accounts.models import User
from harness.jobs.control.deciding import decide
from harness.jobs.control.views import Facts, facts_read
from harness.jobs.drain import Affected, Outlook, RunningThere, affected, running_on
from harness.pool.models import Device, Node
from harness.pool.reservations import ReservationWish, reservation_find
from scheduler.policies.order import is_overdue
from scheduler.types import Decision, DeviceView, JobView, NodeView, PoolView, Reserved


def reservation_consequences(*, user: User, wish: ReservationWish) -> tuple[Affected, ...]:
    """Waiting jobs whose finish it would move, those of its project included, which may use the devices meanwhile.

    Keeps nothing. Raises `Forbidden`, `NotFound`, `Invalid`, and `Conflict` where it could not be reserved.
    """
    require_admin(user)
    target, starts_at, ends_at = reservation_find(wish)
    facts = facts_read(with_delayed=True)
    whose = wish.project.pk if wish.project else ""
    kept = Reserved(start_s=starts_at.timestamp(), end_s=ends_at.timestamp(), project=whose, purpose="")
    changed = replace(facts, pool=_kept(facts.pool, target, kept))
    return affected(facts, Outlook.of(facts), Outlook.of(changed))


def reservation_outlasting(*, user: User, wish: ReservationWish) -> tuple[RunningThere, ...]:
    """Jobs expected to be on the devices still when the reservation begins, other than those of its project: nothing
    stops them. One that is there past its expected finish has none that is known. Raises as
    `reservation_consequences`."""
    require_admin(user)
    target, starts_at, _ = reservation_find(wish)
    now = timezone.now()
    there = (
        replace(row, finish_at=None) if row.finish_at is not None and row.finish_at <= now else row
        for row in running_on(target)
        if row.devices
    )
    rows = (row for row in there if wish.project is None or row.job.project_id != wish.project.pk)
    return tuple(row for row in rows if row.finish_at is None or row.finish_at > starts_at)


class PromisesWithout:
    """Whether all promises are kept, and no gang that is overdue begins later, while single idle devices are reserved;
    by the plan of one moment: that at which it is asked first."""

    def __init__(self, kept_s: float) -> None:
        """Reserved from now on for so long."""
        self._kept_s = kept_s

    @cached_property
    def _facts(self) -> Facts:
        return facts_read(with_delayed=True)

    @cached_property
    def _before(self) -> Decision:
        return decide(self._facts)

    @cached_property
    def _overdue(self) -> list[JobView]:
        """What waits for several devices at once would wait for ever if one of them were always kept for a moment."""
        now_s = self._facts.now_s
        return [view for view in self._facts.views if _is_gang(view) and is_overdue(view, now_s)]

    def are_kept(self, device: Device) -> bool:
        """Whether those are that would be kept with this device, and those begin that would."""
        facts = self._facts
        if not self._overdue and not any(view.promised for view in facts.views):
            return True
        kept = Reserved(start_s=facts.now_s, end_s=facts.now_s + self._kept_s, project="", purpose="")
        after = decide(replace(facts, pool=_kept(facts.pool, device, kept)))
        if any(self._begins_later(view, device, after) for view in self._overdue):
            return False
        return _in_danger(facts, after) <= _in_danger(facts, self._before)

    def _begins_later(self, view: JobView, device: Device, after: Decision) -> bool:
        """Where nobody can tell when it begins, any device of its kind may be the last that it waits for."""
        if view.job_id not in self._before.expected:
            return any(option.kind == device.kind for option in view.options)
        start_s, _ = self._before.expected[view.job_id]
        return after.expected.get(view.job_id, (math.inf, math.inf))[0] > start_s


def _is_gang(view: JobView) -> bool:
    """Whether it waits, and for several devices at once."""
    return view.running is None and all(option.count > 1 for option in view.options)


def _in_danger(facts: Facts, decision: Decision) -> Set[str]:
    """Promised jobs that are late by this decision, or warned of."""
    finishes = {job_id: finish_s for job_id, (_, finish_s) in decision.expected.items()}
    dated = ((view.job_id, view.deadline_s) for view in facts.views if view.promised and view.deadline_s is not None)
    late = {job_id for job_id, deadline_s in dated if finishes.get(job_id, math.inf) > deadline_s}
    return late | decision.warnings.keys()


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
