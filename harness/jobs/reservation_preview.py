"""What reserving devices would do to waiting jobs, shown before it is done: which wait longer and which end sooner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.reserved_pool import own_part, with_started
from harness.jobs.control.views import Facts, facts_read
from harness.jobs.drain import Affected, Outlook, affected
from harness.pool.models import Device, Node
from harness.pool.reservations import reservation_span, reservation_target
from scheduler.place import place
from scheduler.types import Decision, DeviceView, JobView, NodeView, PoolView, Reserved


def reservation_consequences(
    *,
    user: User,
    node: str,
    device: str = "",
    starts_at: datetime | None = None,
    ends_at: datetime,
    project: Project | None = None,
) -> tuple[Affected, ...]:
    """Waiting jobs whose finish it would move, those of `project` included, which may use the devices meanwhile.

    Keeps nothing. Raises `Forbidden`, `NotFound`, `Invalid`.
    """
    require_admin(user)
    target = reservation_target(node, device)
    starts_at, ends_at = reservation_span(starts_at, ends_at)
    facts = facts_read(with_delayed=True)
    kept = Reserved(
        start_s=starts_at.timestamp(), end_s=ends_at.timestamp(), project=project.pk if project else "", purpose=""
    )
    changed = replace(facts, pool=_kept(facts.pool, target, kept))
    return affected(facts, Outlook.of(_decide(facts)), _outlook(changed, kept))


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


def _decide(facts: Facts) -> Decision:
    return place(facts.views, facts.pool, facts.now_s, policy=facts.setting.policy, quotas=facts.quotas)


def _outlook(facts: Facts, kept: Reserved) -> Outlook:
    """What becomes of all: on the whole pool, and of the project's jobs on what is kept for it, as control decides."""
    whole = _decide(facts)
    if not kept.project:
        return Outlook.of(whole)
    at_s = max(facts.now_s, kept.start_s)
    then = facts if at_s <= facts.now_s else _later(facts, whole, at_s)
    views, pool, quotas = own_part(then, kept.project)
    own = place(views, pool, at_s, policy=facts.setting.policy, quotas=quotas)
    if then is facts:
        whole = _decide(with_started(facts, [start for start in own.placements if not start.waits_for]))
    outlook = Outlook.of(whole, own)
    return outlook if then is facts else replace(outlook, starting={start.job_id for start in whole.placements})


def _later(facts: Facts, whole: Decision, at_s: float) -> Facts:
    """The facts as they are expected to be then: who has ended or begun by then is not asked for any more."""
    ended = {job_id for job_id, (_, finish_s) in whole.expected.items() if finish_s <= at_s}
    begun = {job_id for job_id, (start_s, _) in whole.expected.items() if start_s < at_s}
    views = [
        _older(view, at_s - facts.now_s)
        for view in facts.views
        if view.job_id not in ended and (view.is_running or view.job_id not in begun)
    ]
    return replace(facts, views=tuple(views), pool=_freed(facts.pool, facts.views, ended), now_s=at_s)


def _older(view: JobView, passed_s: float) -> JobView:
    """A running job that has got on for so long."""
    if view.running is None or not view.is_running:
        return view
    return replace(view, work_left=max(0.0, view.work_left - view.running.option.rate_per_s * passed_s))


def _freed(pool: PoolView, views: Iterable[JobView], ended: set[str]) -> PoolView:
    free = {device for view in views if view.running and view.job_id in ended for device in view.running.device_ids}
    nodes = (
        replace(
            node,
            devices=tuple(replace(device, free=device.free or device.device_id in free) for device in node.devices),
        )
        for node in pool.nodes
    )
    return replace(pool, nodes=tuple(nodes))
