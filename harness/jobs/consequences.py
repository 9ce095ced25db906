"""Whose finish a change of quotas, reservations, priorities or the queue's order moves: as a drain tells it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from harness.accounts.access import require_admin
from harness.accounts.models import Project, User
from harness.jobs.control.pool_rows import reservation_followed
from harness.jobs.control.views import Facts, facts_read, quotas_view
from harness.jobs.drain import Affected, Outlook, affected
from harness.jobs.models import Job
from harness.jobs.queue_order import Place, places_after, shift_before
from harness.jobs.queueing import priority_check
from harness.pool.models import Reservation
from harness.pool.quotas import quota_check, quota_get
from harness.pool.reservations import (
    ReservationWish,
    reservation_cancel,
    reservation_cancel_check,
    reservation_check,
    reservation_create,
)
from scheduler.types import JobView, Quota

_log = logging.getLogger(__name__)
Found = TypeVar("Found")


def quota_consequences(
    *, user: User, project: Project, device_kind: str, devices: int, may_borrow: bool | None = None
) -> tuple[Affected, ...]:
    """What the quota would do, of `quota_set`'s arguments; keeps nothing. Raises `Forbidden`, `Invalid`."""
    require_admin(user)
    quota_check(device_kind, devices)
    return _with_quota(project, device_kind, devices, may_borrow)


def quota_end_consequences(*, user: User, project: Project, device_kind: str) -> tuple[Affected, ...]:
    """What taking the quota away would do, likewise. Raises `Forbidden`, `Invalid`, `NotFound`."""
    require_admin(user)
    quota_get(project, device_kind)
    return _with_quota(project, device_kind, None, may_borrow=True)


def _with_quota(
    project: Project, device_kind: str, devices: int | None, may_borrow: bool | None
) -> tuple[Affected, ...]:
    facts = facts_read(with_delayed=True)
    old = facts.quotas.get(project.pk, Quota(devices={}, name=project.name))
    may_borrow = old.borrows(device_kind) if may_borrow is None else may_borrow
    hard = old.hard - {device_kind} if may_borrow else old.hard | {device_kind}
    others = {kind: count for kind, count in old.devices.items() if kind != device_kind}
    new = replace(old, devices=others if devices is None else {**others, device_kind: devices}, hard=hard)
    return _told(facts, replace(facts, quotas={**facts.quotas, project.pk: new}))


def priority_consequences(*, user: User, job: Job, priority: int) -> tuple[Affected, ...]:
    """What `job_priority_set` would do; keeps nothing. Raises `Forbidden`, `Invalid`, `Conflict`."""
    require_admin(user)
    priority_check(job, priority)
    return _with_places({job.pk: Place(priority=priority, rank=0)})


def move_consequences(*, user: User, job: Job, before: Job | None) -> tuple[Affected, ...]:
    """What `job_reorder` would do, likewise."""
    require_admin(user)
    return _with_places(places_after(job, before))


def shift_consequences(*, user: User, job: Job, to: str) -> tuple[Affected, ...]:
    """What `job_shift` would do, likewise."""
    require_admin(user)
    return _with_places(places_after(job, shift_before(job, to)))


def _with_places(places: Mapping[str, Place]) -> tuple[Affected, ...]:
    facts = facts_read(with_delayed=True)
    return _told(facts, replace(facts, views=_placed(facts, places)))


def _placed(facts: Facts, places: Mapping[str, Place]) -> tuple[JobView, ...]:
    """The jobs of the facts, those of `places` with these."""
    return tuple(
        replace(view, **place._asdict()) if (place := places.get(view.job_id)) else view for view in facts.views
    )


def _told(facts: Facts, changed: Facts) -> tuple[Affected, ...]:
    return affected(facts, Outlook.of(facts), Outlook.of(changed))


def change_consequences(change: Callable[[], Any]) -> tuple[Affected, ...]:
    """Carry out a change of quotas, priorities or the order, and tell what it does; raises what the change raises;
    nothing is told where the plan cannot be made.

    All else is taken as it was before: what control decides meanwhile is not told as a consequence.
    """
    return _carried_out(change, lambda facts, _: _ordered_again(facts))[1]


def reservation_create_told(*, user: User, wish: ReservationWish) -> tuple[Reservation, tuple[Affected, ...]]:
    """`reservation_create`, and what it does, likewise."""
    reservation_check(user=user, wish=wish)  # what is refused costs no plan
    return _carried_out(lambda: reservation_create(user=user, wish=wish), _reserved_again)


def reservation_cancel_told(*, user: User, reservation_id: str) -> tuple[Affected, ...]:
    """`reservation_cancel`, and what it does, likewise."""
    reservation_cancel_check(user=user, reservation_id=reservation_id)
    return _carried_out(lambda: reservation_cancel(user=user, reservation_id=reservation_id), _reserved_again)[1]


def _carried_out(
    change: Callable[[], Found], again: Callable[[Facts, Found], Facts]
) -> tuple[Found, tuple[Affected, ...]]:
    """(what the change returns, what it does); `again`: the facts of before with what the change did."""
    before = _or_nothing(_Before)
    done = change()
    return done, (_or_nothing(lambda: before.told(again(before.facts, done))) if before else None) or ()


def _ordered_again(facts: Facts) -> Facts:
    """With the order and the quotas of now."""
    fresh = Job.objects.only("priority", "rank").in_bulk(facts.jobs)
    places = {pk: Place(priority=job.priority, rank=job.rank) for pk, job in fresh.items()}
    return replace(facts, views=_placed(facts, places), quotas=quotas_view())


def _reserved_again(facts: Facts, reservation: Reservation) -> Facts:
    """With what this reservation keeps, or keeps no more."""
    return replace(facts, pool=reservation_followed(facts.pool, reservation, facts.now_s))


class _Before:
    """What is planned as it was before a change."""

    def __init__(self) -> None:
        self.facts = facts_read(with_delayed=True)
        self._outlook = Outlook.of(self.facts)

    def told(self, changed: Facts) -> tuple[Affected, ...]:
        """What is planned otherwise on these facts."""
        return affected(self.facts, self._outlook, Outlook.of(changed))


def _or_nothing(what: Callable[[], Found]) -> Found | None:
    try:
        return what()
    except Exception:
        # The change counts, whether it can be told what it does or not.
        _log.exception("cannot tell the consequences of a change")
        return None
