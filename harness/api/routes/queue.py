"""Routes: the queue, reservations, quotas, consequences of a drain, use of devices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from ninja import Query, Router, Status
from pydantic import Field

from harness.accounts.access import require_admin, visible_projects
from harness.accounts.models import Project, User
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.paging import page_body
from harness.api.schemas.base import Done, Items, Moment, Strict
from harness.api.schemas.queue import (
    BucketOut,
    DrainDelayed,
    DrainOut,
    DrainRunning,
    QueueJob,
    QueueMove,
    QueueOut,
    QueuePatch,
    QueueRowOut,
    QuotaIn,
    QuotaOut,
    ReservationIn,
    ReservationOut,
    UseOut,
    UsePage,
    UsePointOut,
)
from harness.csv import csv_chunks
from harness.errors import Invalid, NotFound
from harness.estimates import history
from harness.jobs import drain, queue_order, queueing, timelines, use_rows, use_timeline
from harness.jobs.models import Job
from harness.jobs.quota_use import QuotaRow, quota_rows
from harness.jobs.reservation_preview import reservation_consequences
from harness.jobs.selectors import job_get
from harness.paging import page_cut
from harness.pool import quotas, reservations
from harness.pool.models import Reservation
from harness.pool.services import pool_setting_get
from harness.responses import begun, chunks_response

USE_PAGE_SIZE_MAX = 5000
_USE_SINCE = datetime(2000, 1, 1, tzinfo=UTC)
"""Nothing was used before; a span must not begin before the year 1."""
router = Router()
pool_router = Router()


class UseQuery(Strict):
    """Which time, and by what."""

    span: Literal["day", "week", "month", "year"] = "week"
    by: Literal["device", "job", "person", "project"] = "project"


class UsePaging(UseQuery):
    """The same, and which page."""

    page: int = Field(1, ge=1, le=10**6)
    page_size: int = Field(1000, ge=1, le=USE_PAGE_SIZE_MAX)
    until: Moment | None = Field(
        None, ge=_USE_SINCE, description="The end of the span, now at the latest; none: now. For pages of one list."
    )

    def window(self) -> timelines.Window:
        """The span up to then."""
        now = timezone.now()
        # to the millisecond, as answers write it: what they tell can be asked for
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        return timelines.window_of(self.span, min(now, self.until or now))


class SpanQuery(Strict):
    """Which time."""

    span: Literal["day", "week", "month", "year"] = "week"


def _row_out(row: queueing.QueueRow) -> QueueRowOut:
    job = row.job
    named = QueueJob(id=job.pk, name=job.name, project=job.project.slug, owner=job.owner.username) if job else None
    rest = {name: getattr(row, name) for name in QueueRowOut.model_fields if name != "job"}
    return QueueRowOut(job=named, **rest)


@router.get("", response=QueueOut, summary="The queue")
def queue(
    request: HttpRequest, mine: Annotated[bool, Query(description="The caller's own jobs alone.")] = False
) -> QueueOut:
    """What waits and what runs, with the times to expect. Jobs of projects the caller does not see are nameless."""
    waiting, running = queueing.queue_rows(user=person(request), mine=mine)
    return QueueOut(waiting=[_row_out(row) for row in waiting], running=[_row_out(row) for row in running])


def _job(request: HttpRequest, job_id: str) -> Job:
    user = person(request)
    require_admin(user)
    return job_get(user=user, job_id=job_id)


@router.patch("/{job_id}", response=Done, summary="Set a job's priority")
def priority_set(request: HttpRequest, job_id: str, body: QueuePatch) -> Done:
    """Higher goes first. For admins."""
    queueing.job_priority_set(user=person(request), job=_job(request, job_id), priority=body.priority)
    return Done()


@router.post("/{job_id}/move", response=Done, summary="Move a job in the queue")
def move(request: HttpRequest, job_id: str, body: QueueMove) -> Done:
    """Up, down, first, last, or just before another waiting job. For admins."""
    job = _job(request, job_id)
    if (body.to is None) == (body.before is None):
        raise Invalid("Say either where to or before which job.", field="to", hint="Give `to` or `before`.")
    if body.to is not None:
        queue_order.job_shift(user=person(request), job=job, to=body.to)
    else:
        queue_order.job_reorder(user=person(request), job=job, before=_before(request, body.before or ""))
    return Done()


def _before(request: HttpRequest, job_id: str) -> Job:
    """The job that another one is moved before. Raises `NotFound` with that field: the other one is there."""
    try:
        return _job(request, job_id)
    except NotFound as error:
        told = f"There is no job {job_id!r} to move it before."
        raise NotFound(told, field="before", hint="The page Queue and `dlh queue` show what waits.") from error


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


@pool_router.get("/reservations", response=Items[ReservationOut], summary="Reservations")
def reservation_list(request: HttpRequest) -> dict[str, Any]:
    """Devices that are kept, now or later."""
    seen = set(visible_projects(person(request)).values_list("pk", flat=True))
    return {"items": [_reservation_out(row, seen) for row in reservations.reservation_list()]}


@pool_router.post("/reservations", response={201: ReservationOut}, summary="Reserve devices")
def reservation_create(request: HttpRequest, body: ReservationIn) -> Status[Any]:
    """Keep a node or a device for a purpose over a time; running jobs are not stopped. For admins."""
    user = person(request)
    project = _reserved_for(user, body)
    made = reservations.reservation_create(user=user, project=project, **body.model_dump(exclude={"project"}))
    return Status(201, _reservation_out(made, {project.pk} if project else set()))


def _reserved_for(user: User, body: ReservationIn) -> Project | None:
    """The project that is named. Raises `Forbidden`, `Invalid` (a time without its zone), `NotFound`."""
    require_admin(user)
    for name in ("starts_at", "ends_at"):
        moment = getattr(body, name)
        if moment is not None and moment.tzinfo is None:
            raise Invalid("A time needs its zone.", field=name, hint="For example 2030-01-31T18:00:00Z.")
    return project_get(user=user, slug=body.project) if body.project else None


@pool_router.post("/reservations/consequences", response=Items[DrainDelayed], summary="What a reservation would do")
def reservation_preview(request: HttpRequest, body: ReservationIn) -> dict[str, Any]:
    """Who would wait longer, and who would end sooner; nothing is kept. For admins."""
    user = person(request)
    project = _reserved_for(user, body)
    found = reservation_consequences(user=user, project=project, **body.model_dump(exclude={"project", "purpose"}))
    return {"items": list(map(_delayed_out, found))}


@pool_router.delete("/reservations/{reservation_id}", response=Done, summary="Cancel a reservation")
def reservation_cancel(request: HttpRequest, reservation_id: str) -> Done:
    """Give the devices back now. For admins."""
    reservations.reservation_cancel(user=person(request), reservation_id=reservation_id)
    return Done()


@pool_router.get("/quotas", response=Items[QuotaOut], summary="Quotas")
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


@pool_router.put("/quotas/{slug}/{device_kind}", response=Done, summary="Set a quota")
def quota_set(request: HttpRequest, slug: str, device_kind: str, body: QuotaIn) -> Done:
    """How many devices of a kind the jobs of a project may hold together. For admins."""
    user = person(request)
    require_admin(user)
    quotas.quota_set(user=user, project=project_get(user=user, slug=slug), device_kind=device_kind, **body.model_dump())
    return Done()


@pool_router.delete("/quotas/{slug}/{device_kind}", response=Done, summary="Remove a quota")
def quota_remove(request: HttpRequest, slug: str, device_kind: str) -> Done:
    """No limit any more. For admins."""
    user = person(request)
    require_admin(user)
    quotas.quota_remove(user=user, project=project_get(user=user, slug=slug), device_kind=device_kind)
    return Done()


@pool_router.get("/nodes/{name}/consequences", response=DrainOut, summary="What a drain would do")
def drain_preview(request: HttpRequest, name: str) -> DrainOut:
    """Which jobs run there and until when, and who would wait longer; changes nothing. For admins."""
    found = drain.drain_consequences(user=person(request), name=name)
    running = [
        DrainRunning(job_id=row.job.pk, name=row.job.name, devices=row.devices, finish_at=row.finish_at)
        for row in found.running
    ]
    delayed = list(map(_delayed_out, found.delayed))
    return DrainOut(node=found.node.name, running=running, idle_at=found.idle_at, delayed=delayed)


def _delayed_out(row: drain.Affected) -> DrainDelayed:
    same = {name: getattr(row, name) for name in ("finish_before", "finish_after", "why", "breaks_promise", "gains")}
    return DrainDelayed(job_id=row.job.pk, name=row.job.name, **same)


@pool_router.get("/use", response=UsePage[UseOut], summary="Use of devices")
def use(request: HttpRequest, query: Annotated[UsePaging, Query()]) -> dict[str, Any]:
    """Device hours, kWh and CO2 by device, job, person or project, most energy first."""
    window = query.window()
    rows = use_rows.use_rows(user=person(request), window=window, by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    fields = ("name", "job_id", "device_hours", "kwh", "basis")

    def shown(row: use_rows.UseRow) -> UseOut:
        return UseOut(**{name: getattr(row, name) for name in fields}, co2_g=row.kwh * factor)

    return page_body(page_cut(rows, page=query.page, page_size=query.page_size), shown) | {"until": window.until}


@pool_router.get("/use.csv", summary="Use of devices as CSV")
def use_csv(request: HttpRequest, query: Annotated[UseQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    rows = use_rows.use_rows(user=person(request), window=timelines.window_of(query.span), by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    return _csv(
        request,
        use_rows.USE_COLUMNS,
        (use_rows.use_cells(row, factor) for row in rows),
        f"use-{query.by}-{query.span}.csv",
    )


@pool_router.get("/use/timeline", response=UsePage[UsePointOut], summary="Use of devices over time")
def use_over_time(request: HttpRequest, query: Annotated[UsePaging, Query()]) -> dict[str, Any]:
    """Devices at work, kWh and CO2 of each device, job, person or project, oldest first."""
    window = query.window()
    points = use_timeline.use_timeline(user=person(request), window=window, by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    fields = ("starts_at", "name", "job_id", "devices", "device_hours", "kwh", "basis")

    def shown(point: use_timeline.UsePoint) -> UsePointOut:
        return UsePointOut(**{name: getattr(point, name) for name in fields}, co2_g=point.kwh * factor)

    return page_body(page_cut(points, page=query.page, page_size=query.page_size), shown) | {"until": window.until}


@pool_router.get("/use/timeline.csv", summary="Use of devices over time as CSV")
def use_over_time_csv(request: HttpRequest, query: Annotated[UseQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    points = use_timeline.use_timeline(user=person(request), window=timelines.window_of(query.span), by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    rows = (use_timeline.use_point_cells(point, factor) for point in points)
    return _csv(request, use_timeline.USE_POINT_COLUMNS, rows, f"use-over-time-{query.by}-{query.span}.csv")


@pool_router.get("/timeline", response=Items[BucketOut], summary="Utilisation and power over time")
def timeline(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> dict[str, Any]:
    """Each kind of device, oldest first."""
    person(request)
    return {"items": timelines.pool_timeline(timelines.window_of(query.span))}


@pool_router.get("/timeline.csv", summary="Utilisation and power as CSV")
def timeline_csv(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    person(request)
    window, factor = timelines.window_of(query.span), pool_setting_get().co2_g_per_kwh
    buckets = timelines.pool_timeline(window)
    rows = (timelines.bucket_cells(bucket, window.bucket_s, factor) for bucket in buckets)
    return _csv(request, timelines.BUCKET_COLUMNS, rows, f"pool-{query.span}.csv")


@pool_router.get("/history.csv", summary="Ended jobs as a trace")
def history_csv(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> HttpResponseBase:
    """What has run on the pool, of the projects that the caller sees, as `dlh simulate` replays it."""
    rows = history.trace_rows(user=person(request), window=timelines.window_of(query.span))
    return _csv(request, history.TRACE_COLUMNS, rows, f"history-{query.span}.csv")


def _csv(
    request: HttpRequest, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]], filename: str
) -> HttpResponseBase:
    chunks = begun(csv_chunks(columns, rows))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=filename)
