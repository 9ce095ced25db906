"""What reserving devices would do to waiting jobs, shown before it is done: which wait longer and which end sooner."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.views import facts_read
from harness.jobs.drain import Affected, Outlook, affected
from harness.pool.models import Device, Node
from harness.pool.reservations import reservation_span, reservation_target
from scheduler.types import DeviceView, NodeView, PoolView, Reserved


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
    return affected(facts, Outlook.of(facts), Outlook.of(changed))


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
