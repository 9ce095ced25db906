"""What devices did and drew."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase

from harness.jobs.idle import devices_idle
from harness.jobs.timelines import pool_timeline
from harness.jobs.use_rows import rows_of, use_grouped
from harness.jobs.use_timeline import idle_series, use_series
from harness.jobs.uses import GROUPS, uses_read
from harness.jobs.windows import SPANS, window_of
from harness.pages.use_view import SERIES_DRAWN, energy_unit, use_charts, use_lines, use_totals
from harness.pages.web import page, page_number, person, show
from harness.pool.services import pool_setting_get

PAGE_SIZE = 100


@page("GET", "HEAD")
def pool_use(request: HttpRequest) -> HttpResponseBase:
    """Utilisation and energy over time; hours, kWh and CO2 by device, job, person or project."""
    user = person(request)
    span = request.GET.get("span", "week")
    by = request.GET.get("by", "project")
    window = window_of(span)
    uses = uses_read(window, by)
    grouped, idle = use_grouped(user, uses), devices_idle(uses)
    rows, series = rows_of(grouped, idle if by == "device" else ()), use_series(grouped, SERIES_DRAWN)
    buckets = pool_timeline(window, uses, idle)
    stood_idle = idle_series(idle, window, SERIES_DRAWN) if by == "device" else []
    factor, unit = pool_setting_get().co2_g_per_kwh, energy_unit(rows)
    shown = Paginator(rows, PAGE_SIZE).get_page(page_number(request))
    context = {
        "rows": use_lines(list(shown.object_list), factor, unit),
        "listed": shown,
        "unit": unit,
        "charts": use_charts(buckets, rows, series, span, by, co2_g_per_kwh=factor, idle=stood_idle),
        "totals": use_totals(buckets, window, factor),
        "factor": factor,
        "span": span,
        "by": by,
        "spans": list(SPANS),
        "groups": list(GROUPS),
        "part": "use",
        "is_admin": user.is_superuser,
    }
    return show(request, "pool/use.html", context, nav="pool")
