"""Whose finish a change of quotas, priorities or the order of the queue moves: as a drain tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.views import facts_read, quotas_view
from harness.jobs.drain import Affected, Outlook, affected
from harness.jobs.models import Job
from harness.pool.quotas import quota_check
from scheduler.types import Quota


def quota_consequences(
    *, user: User, project: Project, device_kind: str, devices: int, may_borrow: bool = True
) -> tuple[Affected, ...]:
    """What the quota would do, of `quota_set`'s arguments; keeps nothing. Raises `Forbidden`, `Invalid`."""
    require_admin(user)
    quota_check(device_kind, devices)
    facts = facts_read(with_delayed=True)
    old = facts.quotas.get(project.pk, Quota(devices={}, name=project.name))
    hard = old.hard - {device_kind} if may_borrow else old.hard | {device_kind}
    new = replace(old, devices={**old.devices, device_kind: devices}, hard=hard)
    changed = replace(facts, quotas={**facts.quotas, project.pk: new})
    return affected(facts, Outlook.of(facts), Outlook.of(changed))


def change_consequences(change: Callable[[], Any]) -> tuple[Affected, ...]:
    """Carry out a change of quotas, priorities or the order, and tell what it does; raises what the change raises.

    All else is taken as it was before: what control decides meanwhile is not told as a consequence.
    """
    facts = facts_read(with_delayed=True)
    change()
    fresh = Job.objects.only("priority", "rank").in_bulk(facts.jobs)
    views = tuple(
        replace(view, priority=job.priority, rank=job.rank) if (job := fresh.get(view.job_id)) else view
        for view in facts.views
    )
    changed = replace(facts, views=views, quotas=quotas_view())
    return affected(facts, Outlook.of(facts), Outlook.of(changed))
