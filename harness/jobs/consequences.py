"""Whose finish a change of quotas, priorities or the order of the queue moves: as a drain tells it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.views import facts_read, quotas_view
from harness.jobs.drain import Affected, Outlook, affected
from harness.jobs.models import Job
from harness.pool.quotas import quota_check
from scheduler.types import Quota

_log = logging.getLogger(__name__)
Found = TypeVar("Found")


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
    """Carry out a change of quotas, priorities or the order, and tell what it does; raises what the change raises;
    nothing is told where the plan cannot be made.

    All else is taken as it was before: what control decides meanwhile is not told as a consequence.
    """
    before = _or_nothing(_Before)
    change()
    return (_or_nothing(before.told) if before else None) or ()


class _Before:
    """What is planned as it was before a change."""

    def __init__(self) -> None:
        self._facts = facts_read(with_delayed=True)
        self._outlook = Outlook.of(self._facts)

    def told(self) -> tuple[Affected, ...]:
        """What is planned otherwise since then."""
        facts = self._facts
        fresh = Job.objects.only("priority", "rank").in_bulk(facts.jobs)
        views = tuple(
            replace(view, priority=job.priority, rank=job.rank) if (job := fresh.get(view.job_id)) else view
            for view in facts.views
        )
        changed = replace(facts, views=views, quotas=quotas_view())
        return affected(facts, self._outlook, Outlook.of(changed))


def _or_nothing(what: Callable[[], Found]) -> Found | None:
    try:
        return what()
    except Exception:
        # The change counts, whether it can be told what it does or not.
        _log.exception("cannot tell the consequences of a change")
        return None
