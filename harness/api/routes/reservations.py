"""Routes: reservations, quotas, consequences of a drain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from harness.accounts.access import require_admin, visible_projects
from harness.accounts.models import User
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.schemas.base import Items
from harness.api.schemas.queue import (
    ChangeDone,
    DrainDelayed,
    DrainOut,
    DrainRunning,
    QuotaDone,
    QuotaIn,
    QuotaLook,
    QuotaOut,
    ReservationDone,
    ReservationIn,
    ReservationLook,
    ReservationOut,
)
from harness.jobs import drain
from harness.jobs.consequences import (
    change_consequences,
    quota_consequences,
    quota_end_consequences,
    reservation_cancel_told,
    reservation_create_told,
)
from harness.jobs.quota_use import QuotaRow, quota_rows
from harness.jobs.reservation_preview import reservation_consequences, reservation_outlasting
from harness.pool import quotas, reservations
from harness.pool.models import Quota, Reservation
from harness.pool.reservations import ReservationWish

router = Router()


def _reservation_out(row: Reservation, seen: set[str]) -> ReservationOut:
    node = row.node or (row.device.node if row.device else None)
    return ReservationOut(
        id=row.pk,
        node=node.name if node else "",
        device=f"{row.device.kind}:{row.device.index}" if row.device else "",
        starts_at=row.starts_at,
        ends_at=row.told_end,
        purpose=row.purpose,
        project=row.project.slug if row.project and row.project_id in seen else None,
        by=row.by.username if row.by else None,
    )


@router.get("/reservations", response=Items[ReservationOut], summary="Reservations")
def reservation_list(request: HttpRequest) -> dict[str, Any]:
    """Devices that are kept, now or later."""
    seen = set(visible_projects(person(request)).values_list("pk", flat=True))
    return {"items": [_reservation_out(row, seen) for row in reservations.reservation_list()]}


@router.post("/reservations", response={201: ReservationDone}, summary="Reserve devices")
def reservation_create(request: HttpRequest, body: ReservationIn) -> Status[Any]:
    """Keep a node or a device for a purpose over a time, and say who waits longer for it. Running jobs are not stopped:
    those that will be there still when it begins are named. For admins."""
    user = person(request)
    wish = _wish(user, body)
    running = list(map(_running_out, reservation_outlasting(user=user, wish=wish)))
    made, found = reservation_create_told(user=user, wish=wish)
    kept = _reservation_out(made, {wish.project.pk} if wish.project else set())
    delayed = list(map(delayed_out, found))
    return Status(201, ReservationDone(**kept.model_dump(), delayed=delayed, running=running))


def _wish(user: User, body: ReservationIn) -> ReservationWish:
    """What is to be kept. Raises `Forbidden`, `NotFound`."""
    require_admin(user)
    project = project_get(user=user, slug=body.project) if body.project else None
    return ReservationWish(project=project, **body.model_dump(exclude={"project"}))


@router.post("/reservations/consequences", response=ReservationLook, summary="What a reservation would do")
def reservation_preview(request: HttpRequest, body: ReservationIn) -> ReservationLook:
    """Who would wait longer, who would end sooner, and who will be there still when it begins; nothing is kept. For
    admins."""
    user = person(request)
    wish = _wish(user, body)
    delayed = list(map(delayed_out, reservation_consequences(user=user, wish=wish)))
    running = list(map(_running_out, reservation_outlasting(user=user, wish=wish)))
    return ReservationLook(items=delayed, running=running)


@router.delete("/reservations/{reservation_id}", response=ChangeDone, summary="Cancel a reservation")
def reservation_cancel(request: HttpRequest, reservation_id: str) -> ChangeDone:
    """Give the devices back now, and say who waits longer for it: those whom they were kept for. For admins."""
    user = person(request)
    found = reservation_cancel_told(user=user, reservation_id=reservation_id)
    return ChangeDone(delayed=list(map(delayed_out, found)))


@router.get("/quotas", response=Items[QuotaOut], summary="Quotas")
def quota_list(request: HttpRequest) -> dict[str, Any]:
    """Quotas of the projects that the caller sees, and what is used of them."""
    return {"items": [_quota_out(row) for row in quota_rows(user=person(request))]}


def _quota_out(row: QuotaRow) -> QuotaOut:
    quota = row.quota
    return QuotaOut(
        project=quota.project.slug,
        device_kind=quota.device_kind,
        devices=quota.devices,
        may_borrow=quota.may_borrow,
        held=row.held,
    )


@router.put("/quotas/{slug}/{device_kind}", response=QuotaDone, summary="Set a quota")
def quota_set(request: HttpRequest, slug: str, device_kind: str, body: QuotaIn) -> QuotaDone:
    """How many devices of a kind the jobs of a project may hold together, and who waits longer for it. For admins."""
    wanted = _quota_wanted(request, slug, device_kind) | body.model_dump()
    kept: list[Quota] = []
    done = change_done(lambda: kept.append(quotas.quota_set(**wanted)))
    return QuotaDone(delayed=done.delayed, may_borrow=kept[0].may_borrow)


@router.post("/quotas/{slug}/{device_kind}/consequences", response=Items[DrainDelayed], summary="What a quota would do")
def quota_preview(request: HttpRequest, slug: str, device_kind: str, body: QuotaLook) -> dict[str, Any]:
    """Who would wait longer or could not start, and who would end sooner; nothing is kept. For admins."""
    wanted = _quota_wanted(request, slug, device_kind)
    if body.devices is None:
        return preview(quota_end_consequences(**wanted))
    return preview(quota_consequences(**wanted, **body.model_dump()))


@router.delete("/quotas/{slug}/{device_kind}", response=ChangeDone, summary="Remove a quota")
def quota_remove(request: HttpRequest, slug: str, device_kind: str) -> ChangeDone:
    """No limit any more, and who waits longer for it. For admins."""
    wanted = _quota_wanted(request, slug, device_kind)
    return change_done(lambda: quotas.quota_remove(**wanted))


def _quota_wanted(request: HttpRequest, slug: str, device_kind: str) -> dict[str, Any]:
    """Whose quota, of what, by whom. Raises `Forbidden`, `NotFound`."""
    user = person(request)
    require_admin(user)
    return {"user": user, "project": project_get(user=user, slug=slug), "device_kind": device_kind}


def preview(found: Iterable[drain.Affected]) -> dict[str, Any]:
    """Whom a change would delay, and who would end sooner."""
    return {"items": list(map(delayed_out, found))}


def change_done(change: Callable[[], Any]) -> ChangeDone:
    """Carry it out; the answer says who waits longer for it, and who ends sooner."""
    return ChangeDone(delayed=list(map(delayed_out, change_consequences(change))))


@router.get("/nodes/{name}/consequences", response=DrainOut, summary="What a drain would do")
def drain_preview(request: HttpRequest, name: str) -> DrainOut:
    """Which jobs run there and until when, and who would wait longer; changes nothing. For admins."""
    found = drain.drain_consequences(user=person(request), name=name)
    running = list(map(_running_out, found.running))
    delayed = list(map(delayed_out, found.delayed))
    return DrainOut(node=found.node.name, running=running, idle_at=found.idle_at, delayed=delayed)


def _running_out(row: drain.RunningThere) -> DrainRunning:
    return DrainRunning(job_id=row.job.pk, name=row.job.name, devices=row.devices, finish_at=row.finish_at)


def delayed_out(row: drain.Affected) -> DrainDelayed:
    """One job."""
    same = {name: getattr(row, name) for name in ("finish_before", "finish_after", "why", "breaks_promise", "gains")}
    return DrainDelayed(job_id=row.job.pk, name=row.job.name, **same)
