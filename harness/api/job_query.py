"""What an address of the API says of a list of jobs: filters, a saved view, order and columns; or groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from django.http import QueryDict
from pydantic import AfterValidator, BeforeValidator, Field

from codegen.catalog import FAMILIES
from codegen.spec import Metric, Task
from harness.accounts.models import User
from harness.accounts.selectors import project_get
from harness.api.schemas.base import Moment, Strict
from harness.jobs.columns import COMPUTED, FIELDS, columns_get
from harness.jobs.finding import SORTS, JobFilters, job_owner_check
from harness.jobs.grouping import DEFAULT_FIGURE, DEFAULT_GROUP, FIGURES, GROUPS, Grouping, grouping_get
from harness.jobs.listing import DEFAULT_SORT, Listing, listing_read
from harness.saved_views.selectors import view_find
from worker.states import JobState

_SORTS = ", ".join((*SORTS, *COMPUTED))
_EXACT = (
    *("task", "family", "owner", "dataset", "parent", "tag", "query", "metric", "target", "metric_min", "metric_max"),
    *("since", "before", "deleted"),
)


def _family_check(given: str) -> str:
    """Pass one of the catalogue, or none."""
    if given and given not in FAMILIES:
        raise ValueError(f"must be one of {', '.join(FAMILIES)}, not {given!r}")
    return given


class JobFilterQuery(Strict):
    """Which jobs; nothing else is understood."""

    project: str = Field("", description="Slug; empty: all that the caller sees.")
    state: list[JobState] = Field([], description="May be repeated.")
    task: Annotated[Task | None, BeforeValidator(lambda given: given or None)] = Field(None, description="Empty: any.")
    family: Annotated[str, AfterValidator(_family_check)] = Field("", max_length=40)
    owner: str = Field("", max_length=150, description="User name.")
    dataset: str = Field("", max_length=120, description="Id or name.")
    parent: str = Field("", max_length=12, description="Id of the job they were cloned from.")
    tag: str = Field("", max_length=60)
    query: str = Field("", max_length=200, description="In name, notes, dataset's name; or an id.")
    metric: Annotated[Metric | None, BeforeValidator(lambda given: given or None)] = Field(
        None, description="That their best value is of; empty: any."
    )
    target: str = Field("", max_length=200, description="Column that they predict.")
    metric_min: float | None = Field(None, allow_inf_nan=False)
    metric_max: float | None = Field(None, allow_inf_nan=False)
    since: Moment | None = Field(None, description="Made then or later.")
    before: Moment | None = Field(None, description="Made before then.")
    deleted: bool = Field(False, description="The trash instead of the list.")
    view: str = Field("", max_length=60, description="Id or name of a saved view; what is given beside it goes before.")


class JobQuery(JobFilterQuery):
    """What the list of jobs may be filtered and sorted by."""

    sort: str = Field(
        "-created", max_length=100, description=f"One of {_SORTS}, `metric:KEY`, `spec:FIELD`; `-`: downwards."
    )
    column: list[str] = Field(
        [],
        description=f"Also give under `columns`: {', '.join((*FIELDS, *COMPUTED))}, the newest value `metric:KEY` or "
        "the resolved `spec:FIELD`. May be repeated.",
    )


class GroupQuery(JobFilterQuery):
    """Which jobs, and how they are put together."""

    by: str = Field(
        "",
        max_length=100,
        description=f"One of {', '.join(GROUPS)} or `spec:FIELD`; empty: as the view, else {DEFAULT_GROUP}.",
    )
    of: str = Field(
        "",
        max_length=100,
        description=f"One of {', '.join(FIGURES)} or `metric:KEY`; empty: as the view, else {DEFAULT_FIGURE}.",
    )


def listing_of(user: User, query: JobFilterQuery) -> Listing:
    """What the view shows, changed by what is asked for beside it. Raises `Invalid`, `NotFound`."""
    if query.owner:
        job_owner_check(user=user, name=query.owner)
    if query.view:
        listing = listing_read(QueryDict(view_find(user=user, id_or_name=query.view).query), user=user)
    else:
        listing = Listing(filters=JobFilters(), sort=DEFAULT_SORT, columns=())
    given: dict[str, Any] = {name: getattr(query, name) for name in _EXACT if name in query.model_fields_set}
    if query.project:
        given["project"] = project_get(user=user, slug=query.project)
    if query.state:
        given["states"] = tuple(state.value for state in query.state)
    listing = replace(listing, filters=replace(listing.filters, **given))
    if not isinstance(query, JobQuery):
        return listing
    return replace(
        listing,
        sort=query.sort if "sort" in query.model_fields_set else listing.sort,
        columns=columns_get(query.column) if query.column else listing.columns,
    )


def grouping_of(query: GroupQuery, listing: Listing) -> Grouping:
    """What is asked for, else what the view groups by. Raises `Invalid`."""
    known = listing.grouping
    by, of = (known.by.key, known.of.key) if known else (DEFAULT_GROUP, DEFAULT_FIGURE)
    return grouping_get(by=query.by or by, of=query.of or of)
