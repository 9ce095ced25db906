"""What the address of a list of jobs says: filters, order and columns; read, and written the short way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.http import QueryDict

from harness.accounts.models import User
from harness.accounts.selectors import project_get
from harness.accounts.time_zone import browser_time_zone_of
from harness.days import days_read
from harness.errors import Invalid
from harness.jobs.columns import DEFAULT, Column, columns_get
from harness.jobs.finding import JobFilters, job_order
from harness.jobs.grouping import DEFAULT_FIGURE, Grouping, grouping_read

DEFAULT_SORT = "-created"
NAMES = (
    *("q", "state", "task", "project", "owner", "dataset", "family", "tag", "metric", "target", "metric_min"),
    *("metric_max", "since", "until", "sort", "column", "group", "of"),
)
"""Names in the address that say what a list shows; `page`, `view` and the group that is `open` do not."""
_UNSAID = {"sort": [DEFAULT_SORT], "column": list(DEFAULT), "of": [DEFAULT_FIGURE]}


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a list shows."""

    filters: JobFilters
    sort: str
    columns: tuple[Column, ...]
    grouping: Grouping | None = None


def listing_read(given: QueryDict, *, user: User) -> Listing:
    """Out of an address. Raises `NotFound` for a project of others, `Invalid`."""
    slug = given.get("project", "")
    since, before = days_read(given, browser_time_zone_of(user))
    filters = JobFilters(
        project=project_get(user=user, slug=slug) if slug else None,
        states=tuple(state for state in given.getlist("state") if state),
        task=given.get("task", ""),
        family=given.get("family", ""),
        owner=given.get("owner", ""),
        dataset=given.get("dataset", ""),
        tag=given.get("tag", ""),
        query=given.get("q", "").strip(),
        metric=given.get("metric", ""),
        target=given.get("target", ""),
        metric_min=_number(given, "metric_min"),
        metric_max=_number(given, "metric_max"),
        since=since,
        before=before,
    )
    filters.where()  # refuses a state that does not exist
    sort = given.get("sort") or DEFAULT_SORT
    job_order(sort)
    return Listing(
        filters=filters,
        sort=sort,
        columns=columns_get([key for key in given.getlist("column") if key]),
        grouping=grouping_read(given),
    )


def _number(given: QueryDict, name: str) -> float | None:
    text = given.get(name, "")
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise Invalid(f"{text[:80]!r} is not a number.", field=name, hint="Write it like 0.9.")
    return number


def listing_query(given: QueryDict) -> str:
    """The part of an address that says what a list shows, in one order; what is empty or default is left out."""
    found = QueryDict(mutable=True)
    for name in NAMES:
        values = [value for value in given.getlist(name) if value]
        if values and values != _UNSAID.get(name):
            found.setlist(name, values)
    return found.urlencode()
