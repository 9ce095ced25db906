"""Reservations: devices kept for a purpose over a time. Admins make them, and the harness for its own measurements."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.access import project_hold, require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import Project, User
from harness.broker import publish_pool, task_send_on_commit
from harness.errors import Conflict, Invalid, NotFound
from harness.moments import moment_words
from harness.pool.devices import device_find
from harness.pool.models import Device, Node, Reservation
from harness.pool.naming import node_named
from harness.pool.turn import facts_change

LONGEST = FURTHEST = timedelta(days=366)
"""A longer one, or one that begins later, is a mistake in the year: drain the node instead."""
PAST_MOST = timedelta(minutes=10)
"""So old a start may be: a form was filled in meanwhile, or clocks differ. What is past cannot be kept."""
_DIGITS_MOST = 7


@dataclass(frozen=True, kw_only=True)
class ReservationWish:
    """What somebody would like to keep."""

    node: str
    """By its name."""
    device: str = ""
    """One device of it, such as `cuda:0`; empty: all."""
    starts_at: datetime | None = None
    """Without one from now on."""
    ends_at: datetime
    purpose: str
    """What is only looked at needs none: then it may be empty."""
    project: Project | None = None
    """Whose jobs may use it meanwhile."""


def reservation_create(*, user: User, wish: ReservationWish) -> Reservation:
    """Keep what is wished for.

    Running jobs are not stopped: it holds for what starts from now on. Raises `Forbidden`, `NotFound`, `Invalid`,
    `Conflict` (it overlaps another).
    """
    require_admin(user)
    _purpose_check(wish.purpose)
    target, project = _target(wish), wish.project
    with transaction.atomic():
        made = reservation_hold(
            target=target,
            starts_at=wish.starts_at,
            ends_at=wish.ends_at,
            purpose=wish.purpose.strip(),
            project=project,
            by=user,
        )
        audit_write(
            user, "reservation_create", _target_words(made), project=project,
            id=made.pk, starts_at=made.starts_at.isoformat(), ends_at=made.ends_at.isoformat(), purpose=made.purpose,
        )  # fmt: skip
    return made


def reservation_check(*, user: User, wish: ReservationWish) -> None:
    """Pass where `reservation_create` could keep it now. Raises what that raises."""
    require_admin(user)
    _purpose_check(wish.purpose)
    reservation_find(wish)


def reservation_find(wish: ReservationWish) -> tuple[Node | Device, datetime, datetime]:
    """(what, start, end) of what could be kept now. Raises `NotFound`, `Invalid`, `Conflict` (it overlaps another)."""
    target = _target(wish)
    starts_at, ends_at = reservation_span(wish.starts_at, wish.ends_at)
    reservation_free_check(target, starts_at, ends_at)
    return target, starts_at, ends_at


def _purpose_check(purpose: str) -> None:
    if not purpose.strip() or len(purpose) > 200:
        raise Invalid(
            "A reservation needs a purpose of at most 200 characters.", field="purpose", hint="Say what it is for."
        )


def _target(wish: ReservationWish) -> Node | Device:
    """Raises `NotFound`."""
    found = node_named(wish.node, field="node")
    return _device(found, wish.device) if wish.device else found


def reservation_span(starts_at: datetime | None, ends_at: datetime) -> tuple[datetime, datetime]:
    """(start, end), from now on without a start, or where it is just past. Raises `Invalid`."""
    now = timezone.now()
    if starts_at is not None and now - starts_at > PAST_MOST:
        raise Invalid(
            "The reservation would begin in the past.", field="starts_at",
            hint="Give a later start, or none for one from now on.",
        )  # fmt: skip
    starts_at = max(now, starts_at or now)
    if ends_at <= starts_at:
        raise Invalid("The reservation would be over before it begins.", field="ends_at", hint="Give a later end.")
    if starts_at - now > FURTHEST:
        raise Invalid(
            "A reservation begins within a year from now.", field="starts_at", hint="Check the year, or make it later."
        )
    if ends_at - starts_at > LONGEST:
        raise Invalid("A reservation lasts a year at most.", field="ends_at", hint="Drain the node instead.")
    return starts_at, ends_at


def reservation_hold(  # noqa: PLR0913 - keywords only; each is a thing a caller may say of what it keeps
    *,
    target: Node | Device,
    ends_at: datetime,
    purpose: str,
    starts_at: datetime | None = None,
    project: Project | None = None,
    by: User | None = None,
    within: Project | None = None,
    open_ended: bool = False,
    planned_until: datetime | None = None,
) -> Reservation:
    """Keep devices without asking who may: for the harness's own measurements; it may lie within what is kept for a
    project already. `open_ended`: it is renewed, nobody knows for how long; `planned_until`: it may be until then, and
    no longer; of an open-ended one it is what people are told. Raises `Invalid`, `NotFound`, `Conflict`."""
    starts_at, ends_at = reservation_span(starts_at, ends_at)
    node, device = (target, None) if isinstance(target, Node) else (None, target)
    with transaction.atomic():
        facts_change()  # nothing that is being decided on the facts before this starts there
        if project is not None:
            project_hold(project.pk)  # who deletes it ends its reservations
        _free_check(target, starts_at, ends_at, within=within)
        made = Reservation.objects.create(
            node=node, device=device, starts_at=starts_at, ends_at=ends_at, purpose=purpose, project=project, by=by,
            open_ended=open_ended, planned_until=planned_until,
        )  # fmt: skip
        _tell(made, "reserved")
    return made


def reservation_prolong(reservation: Reservation, *, ends_at: datetime, within: Project | None = None) -> None:
    """Have it end later; `within`: as it was made. Raises `Conflict` where another begins before that."""
    with transaction.atomic():
        target = reservation.node or reservation.device
        assert target is not None  # noqa: S101 - a constraint of the table says so
        _free_check(target, reservation.ends_at, ends_at, besides=reservation.pk, within=within)
        Reservation.objects.filter(pk=reservation.pk, cancelled_at=None).update(ends_at=ends_at)


def reservations_expect(reservation_ids: Collection[str], planned_until: datetime) -> None:
    """Tell when what is open-ended is expected to be over."""
    Reservation.objects.filter(pk__in=reservation_ids, cancelled_at=None).update(planned_until=planned_until)


def reservation_cancel(*, user: User, reservation_id: str) -> Reservation:
    """Give the devices back now. Raises as `reservation_cancel_check`."""
    reservation = reservation_cancel_check(user=user, reservation_id=reservation_id)
    with transaction.atomic():
        if not reservation_release(reservation):
            raise _over()
        audit_write(
            user, "reservation_cancel", _target_words(reservation), project=reservation.project, id=reservation.pk
        )
    reservation.refresh_from_db()
    return reservation


def reservation_cancel_check(*, user: User, reservation_id: str) -> Reservation:
    """One that can be cancelled now. Raises `Forbidden`, `NotFound`, `Conflict` (it is over, or would be made anew)."""
    require_admin(user)
    reservation = Reservation.objects.filter(pk=reservation_id).first()
    if reservation is None:
        raise NotFound("There is no such reservation.", hint="It may be over; see the list of reservations.")
    if reservation.cancelled_at is not None or reservation.ends_at <= timezone.now():
        raise _over()
    if reservation.open_ended:
        raise Conflict(
            f"{reservation.purpose} would reserve its devices again at once, and a job would disturb what it measures.",
            code="is_renewed",
            hint="Stop the calibration instead: Pool, Calibration, or dlh pool calibration stop.",
        )
    return reservation


def _over() -> Conflict:
    return Conflict("This reservation is over.", hint="See the pool page for those that hold.")


def reservation_release(reservation: Reservation) -> bool:
    """End a reservation before its time. Returns False where it was over."""
    now = timezone.now()
    rows = Reservation.objects.filter(pk=reservation.pk, cancelled_at=None, ends_at__gt=now)
    with transaction.atomic():
        if not rows.update(cancelled_at=now):
            return False
        _tell(reservation, "released")
    return True


def reservation_list(*, since: datetime | None = None) -> QuerySet[Reservation]:
    """Reservations that hold now or later (or ended after `since`), in the order of their start."""
    rows = Reservation.objects.filter(cancelled_at=None, ends_at__gt=since or timezone.now())
    return rows.select_related("node", "device__node", "project", "by").order_by("starts_at", "pk")


def reservations_forget(before: datetime) -> int:
    """Delete those that were over before, cancelled or not: the audit log tells who made them. How many there were."""
    return Reservation.objects.filter(ends_at__lt=before).delete()[0]


def _device(node: Node, name: str) -> Device:
    kind, _, index = name.partition(":")
    is_number = index.isdecimal() and len(index) < _DIGITS_MOST
    found = device_find(node, kind, int(index)) if is_number else None
    if found is None:
        raise NotFound(f"{node.name} has no device {name[:20]}.", field="device", hint="Name it like cpu:0 or cuda:0.")
    return found


def _free_check(
    target: Node | Device,
    starts_at: datetime,
    ends_at: datetime,
    *,
    besides: str = "",
    within: Project | None = None,
) -> None:
    """`reservation_free_check`; whoever reserves on this node waits until our transaction is over."""
    node_id = target.pk if isinstance(target, Node) else target.node_id
    Node.objects.select_for_update().filter(pk=node_id).first()
    reservation_free_check(target, starts_at, ends_at, besides=besides, within=within)


def reservation_free_check(
    target: Node | Device, starts_at: datetime, ends_at: datetime, *, besides: str = "", within: Project | None = None
) -> None:
    """Pass where nothing is reserved meanwhile, or is while it is renewed, but for the project `within`.

    Raises `Conflict`.
    """
    rows = _overlapping(target, starts_at, ends_at).exclude(pk=besides)
    other = (rows.exclude(project=within) if within is not None else rows).first()
    if other is not None:
        ends = "Stop the calibration" if other.open_ended else "Cancel that reservation"
        raise Conflict(
            f"{_target_words(other)} is reserved already for {other.purpose}, until {moment_words(other.plan_end)}.",
            hint=f"{ends}, or take another time or device.",
        )


def _overlapping(target: Node | Device, starts_at: datetime, ends_at: datetime) -> QuerySet[Reservation]:
    if isinstance(target, Node):
        same = Q(node=target) | Q(device__node=target)
    else:
        same = Q(node=target.node_id) | Q(device=target)
    # What is still renewed is in the way until it is expected to be over (`Reservation.plan_end`).
    is_renewed = Q(ends_at__gt=timezone.now(), planned_until__gt=starts_at)
    lasts = Q(ends_at__gt=starts_at) | is_renewed
    return Reservation.objects.filter(same, lasts, cancelled_at=None, starts_at__lt=ends_at)


def _target_words(reservation: Reservation) -> str:
    if reservation.node is not None:
        return reservation.node.name
    device = reservation.device
    assert device is not None  # noqa: S101 - a constraint of the table says so
    return f"{'GPU' if device.kind == 'cuda' else 'CPU'} {device.index} of {device.node.name}"


def _tell(reservation: Reservation, kind: str) -> None:
    publish_pool(kind, {"reservation": reservation.pk})
    task_send_on_commit("control.tick")
