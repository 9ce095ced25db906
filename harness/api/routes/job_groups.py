"""Routes: jobs by groups."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router

from harness.api.auth import person
from harness.api.job_query import GroupQuery, grouping_of, listing_of
from harness.api.paging import Paging, page_body
from harness.api.schemas.job_groups import JobGroupsOut
from harness.jobs.grouping import JobGroup, job_groups
from harness.paging import Page

router = Router()


def _out(group: JobGroup) -> dict[str, Any]:
    best = group.best
    return {
        "value": group.value,
        "metric": group.metric,
        "jobs": group.count,
        "n": len(group.figures),
        "mean": group.mean,
        "sd": group.deviation,
        "best": best[0] if best else None,
        "best_job": {"id": best[1], "name": best[2]} if best else None,
        "basis": group.basis,
    }


@router.get("", response=JobGroupsOut, summary="Jobs by groups")
def group_list(
    request: HttpRequest, query: Annotated[GroupQuery, Query()], paging: Annotated[Paging, Query()]
) -> dict[str, Any]:
    """How many jobs there are of each value, of all that the filter lets through, with mean, spread and best of a
    figure over those that succeeded; the best mean first."""
    user = person(request)
    listing = listing_of(user, query)
    grouping = grouping_of(query, listing)
    groups = job_groups(user=user, filters=listing.filters, sort=listing.sort, grouping=grouping)
    start = (paging.page - 1) * paging.page_size
    items = groups[start : start + paging.page_size]
    page = Page(items=items, total=len(groups), page=paging.page, page_size=paging.page_size)
    return {**page_body(page, _out), "by": grouping.by.key, "of": grouping.of.key}
