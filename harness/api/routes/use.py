"""Routes: use of devices over time, and what has run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from ninja import Query, Router
from pydantic import Field

from harness.api.auth import person
from harness.api.paging import page_body
from harness.api.schemas.base import Items, Moment, Strict
from harness.api.schemas.queue import BucketOut, IdleOut, UseOut, UsePage, UsePointOut
from harness.csv import csv_chunks
from harness.estimates import history
from harness.jobs import timelines, use_rows, use_timeline, windows
from harness.paging import page_cut
from harness.pool.services import pool_setting_get
from harness.responses import begun, chunks_response

USE_PAGE_SIZE_MAX = 5000
_USE_SINCE = datetime(2000, 1, 1, tzinfo=UTC)
"""Nothing was used before; a span must not begin before the year 1."""
router = Router()


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

    def window(self) -> windows.Window:
        """The span up to then."""
        now = timezone.now()
        # to the millisecond, as answers write it: what they tell can be asked for
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        return windows.window_of(self.span, min(now, self.until or now))


class SpanQuery(Strict):
    """Which time."""

    span: Literal["day", "week", "month", "year"] = "week"


@router.get("/use", response=UsePage[UseOut], summary="Use of devices")
def use(request: HttpRequest, query: Annotated[UsePaging, Query()]) -> dict[str, Any]:
    """Device hours, kWh and CO2 by device, job, person or project, most energy first; of devices their idle energy."""
    window = query.window()
    rows = use_rows.use_rows(user=person(request), window=window, by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    fields = ("name", "job_id", "device_hours", "kwh", "basis")

    def shown(row: use_rows.UseRow) -> UseOut:
        same = {name: getattr(row, name) for name in fields}
        return UseOut(**same, co2_g=row.kwh * factor, idle=_idle_out(row, query.by, factor))

    return page_body(page_cut(rows, page=query.page, page_size=query.page_size), shown) | {"until": window.until}


def _idle_out(row: use_rows.UseRow, by: str, factor: float) -> IdleOut | None:
    """Of a device alone."""
    if by != "device":
        return None
    return IdleOut(hours=row.idle_hours, kwh=row.idle_kwh, co2_g=row.idle_kwh * factor, basis=row.idle_basis)


@router.get("/use.csv", summary="Use of devices as CSV")
def use_csv(request: HttpRequest, query: Annotated[UseQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    rows = use_rows.use_rows(user=person(request), window=windows.window_of(query.span), by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    return _csv(
        request,
        use_rows.use_columns(query.by),
        (use_rows.use_cells(row, query.by, factor) for row in rows),
        f"use-{query.by}-{query.span}.csv",
    )


@router.get("/use/timeline", response=UsePage[UsePointOut], summary="Use of devices over time")
def use_over_time(request: HttpRequest, query: Annotated[UsePaging, Query()]) -> dict[str, Any]:
    """Devices at work, kWh and CO2 of each device, job, person or project, oldest first."""
    window = query.window()
    points = use_timeline.use_timeline(user=person(request), window=window, by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    fields = ("starts_at", "name", "job_id", "devices", "device_hours", "kwh", "basis")

    def shown(point: use_timeline.UsePoint) -> UsePointOut:
        same = {name: getattr(point, name) for name in fields}
        return UsePointOut(**same, co2_g=point.kwh * factor, idle=_idle_out(point, query.by, factor))

    return page_body(page_cut(points, page=query.page, page_size=query.page_size), shown) | {"until": window.until}


@router.get("/use/timeline.csv", summary="Use of devices over time as CSV")
def use_over_time_csv(request: HttpRequest, query: Annotated[UseQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    points = use_timeline.use_timeline(user=person(request), window=windows.window_of(query.span), by=query.by)
    factor = pool_setting_get().co2_g_per_kwh
    rows = (use_timeline.use_point_cells(point, query.by, factor) for point in points)
    return _csv(request, use_timeline.use_point_columns(query.by), rows, f"use-over-time-{query.by}-{query.span}.csv")


@router.get("/timeline", response=Items[BucketOut], summary="Utilisation and power over time")
def timeline(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> dict[str, Any]:
    """Each kind of device, oldest first."""
    person(request)
    return {"items": timelines.pool_timeline(windows.window_of(query.span))}


@router.get("/timeline.csv", summary="Utilisation and power as CSV")
def timeline_csv(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> HttpResponseBase:
    """The same as CSV."""
    person(request)
    window, factor = windows.window_of(query.span), pool_setting_get().co2_g_per_kwh
    buckets = timelines.pool_timeline(window)
    rows = (timelines.bucket_cells(bucket, window.bucket_s, factor) for bucket in buckets)
    return _csv(request, timelines.BUCKET_COLUMNS, rows, f"pool-{query.span}.csv")


@router.get("/history.csv", summary="Ended jobs as a trace")
def history_csv(request: HttpRequest, query: Annotated[SpanQuery, Query()]) -> HttpResponseBase:
    """What has run on the pool, of the projects that the caller sees, as `dlh simulate` replays it."""
    rows = history.trace_rows(user=person(request), window=windows.window_of(query.span))
    return _csv(request, history.TRACE_COLUMNS, rows, f"history-{query.span}.csv")


def _csv(
    request: HttpRequest, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]], filename: str
) -> HttpResponseBase:
    chunks = begun(csv_chunks(columns, rows))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=filename)
