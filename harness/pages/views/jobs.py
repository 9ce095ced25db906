"""Job history: filters, sorting and paging in the address; export; the trash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect

from harness.accounts.access import projects_with_role
from harness.accounts.models import Role, User
from harness.csv import csv_chunks
from harness.datasets.selectors import dataset_list
from harness.errors import Invalid, NotFound
from harness.jobs.columns import columns_get, columns_values, with_bases
from harness.jobs.grouping import JobGroup, job_groups
from harness.jobs.listing import Listing, listing_read
from harness.jobs.models import Job
from harness.jobs.selectors import JobFilters, job_list, job_metric_keys, job_owners, job_rows, jobs_read
from harness.pages.job_columns import column_groups, columns_shown
from harness.pages.job_groups import CSV_COLUMNS, group_choices, groups_csv, groups_shown
from harness.pages.named import words
from harness.pages.project_options import project_options
from harness.pages.views.saved_views import list_address, view_address, view_context
from harness.pages.web import asks_part, page, page_number, person, show
from harness.pages.words import STATE_WORDS, TASK_WORDS
from harness.paging import Page, page_within
from harness.responses import begun, chunks_response, json_chunks
from worker.states import JobState

PAGE_SIZE, TRASH_PAGE_SIZE = 25, 50
_FORM_ID = "job-filters"
_MORE = ("task", "project", "owner", "metric_min", "tag", "since", "until")
"""Filters of the form that are folded in until one of them is set."""
_PINNED = {
    "dataset": "Dataset",
    "family": "Model",
    "metric": "Metric",
    "target": "Target",
    "metric_max": "Best at most",
}
_IN_WORDS = {"family", "metric"}
"""Of these, those whose values are names."""
_COLUMNS = ("state", "task", "family", "dataset", "project", "owner", "metric_name", "metric_best", "metric_test",
            "epoch", "epochs", "run_s", "created_at", "finished_at", "tags")  # fmt: skip
"""What an export has where no columns are chosen."""


def pinned_filters(given: QueryDict, *, user: User) -> list[dict[str, str]]:
    """Filters that links set and the form has no field for: shown as tags that one takes away."""
    found = []
    for name, label in _PINNED.items():
        value = given.get(name, "")
        if not value:
            continue
        rest = given.copy()
        for key in (name, "page"):
            rest.pop(key, None)
        named = dataset_list(user=user).filter(pk=value).first() if name == "dataset" else None
        text = named.name if named else words(value) if name in _IN_WORDS else value
        found.append({"name": name, "value": value, "label": label, "words": text, "without": f"?{rest.urlencode()}"})
    return found


@page("GET", "HEAD")
def job_index(request: HttpRequest) -> HttpResponseBase:
    """The list; htmx asks for its table only. Without anything in the address it opens with the person's own view."""
    is_part = asks_part(request) and not request.headers.get("HX-History-Restore-Request")
    if not is_part and (address := view_address(request)):
        return redirect(address)
    return jobs_page(request, is_part=is_part)


def jobs_page(
    request: HttpRequest, *, is_part: bool = False, ticked: Collection[str] = (), tags: str | None = None
) -> HttpResponseBase:
    """The list that the address asks for; `ticked` jobs and `tags` as they were sent, where these were refused."""
    user = person(request)
    listing = listing_read(request.GET, user=user)
    groups = _groups(user, listing)
    rows = _rows(user, listing, page_number(request), groups)
    if rows and rows.total and not rows.items:  # the list got shorter since somebody was on its last page
        rows = _rows(user, listing, rows.pages, groups)
    context = {
        **columns_shown(rows.items if rows else (), listing.columns),
        **(groups_shown(groups, listing.grouping) if listing.grouping else {}),
        **view_context(request),
        "rows": rows,
        "is_part": is_part,
        "sort": listing.sort,
        "filtered": listing.filters != JobFilters(),
        "ticked": ticked,
        "tags": tags,
    }
    if not is_part:
        context |= _form(request, listing, context["named_for"])
    template = "jobs/table.html" if is_part else "jobs/list.html"
    response = show(request, template, context, nav="jobs", status=200 if tags is None else Invalid.status)
    response["Vary"] = "HX-Request"
    if is_part and request.headers.get("HX-Trigger") == _FORM_ID:  # somebody has changed it
        response["HX-Push-Url"] = list_address(request.GET.get("view", ""), request.GET)
    return response


def _groups(user: User, listing: Listing) -> list[JobGroup]:
    if listing.grouping is None:
        return []
    return job_groups(user=user, filters=listing.filters, sort=listing.sort, grouping=listing.grouping)


def _rows(user: User, listing: Listing, number: int, groups: Sequence[JobGroup]) -> Page[Job] | None:
    """One page of the jobs that are listed: of the opened group where there are groups; None where none is open."""
    filters, opened = listing.filters, None
    if groups and listing.grouping:
        opened = next((group.jobs for group in groups if group.key == listing.grouping.opened), None)
        if opened is None:
            return None
        filters = replace(filters, ids=tuple(opened[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]))
    found = job_list(
        user=user,
        filters=filters,
        sort=listing.sort,
        page=number if opened is None else 1,
        page_size=PAGE_SIZE,
        columns=with_bases(listing.columns),
        without=("last_values",),
    )
    return found if opened is None else replace(found, total=len(opened), page=number)


def _form(request: HttpRequest, listing: Listing, named_for: str) -> dict[str, Any]:
    """What stands around the table: the filters, and the columns that can be chosen. `named_for`: the project for which
    a view was to be saved."""
    user = person(request)
    metric_keys = job_metric_keys(user=user)
    return {
        **group_choices(listing.grouping, metric_keys),
        "pinned": pinned_filters(request.GET, user=user),
        "given": request.GET,
        "form_id": _FORM_ID,
        "chosen_states": set(listing.filters.states),
        "states": [(state.value, STATE_WORDS[state.value][0]) for state in JobState],
        "tasks": TASK_WORDS.items(),
        "projects": project_options(user, "see", request.GET.getlist("project")),
        "owners": job_owners(user=user),
        "more_given": any(request.GET.get(name) for name in _MORE),
        "column_groups": column_groups(listing.columns, metric_keys),
        "share_projects": project_options(user, "add", [named_for]),
    }


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


@page("GET", "HEAD")
def job_export(request: HttpRequest, kind: str) -> HttpResponseBase:
    """The present filter, all pages of it, as CSV or JSON: with the chosen columns, where some are chosen."""
    user = person(request)
    listing = listing_read(request.GET, user=user)
    columns = listing.columns if any(request.GET.getlist("column")) else columns_get(_COLUMNS)
    jobs = jobs_read(user=user, filters=listing.filters, sort=listing.sort, columns=columns, without=("last_values",))
    records = ({"id": job.pk, "name": job.name, **columns_values(job, columns)} for job in jobs)
    if kind == "json":
        return chunks_response(request, begun(json_chunks(records)), content_type="application/json")
    if kind != "csv":
        raise NotFound("Jobs can be exported as CSV or JSON.")
    names = dict.fromkeys(("id", "name", *(column.key for column in columns)))
    chunks = csv_chunks(list(names), ([_cell(record[name]) for name in names] for record in records))
    return chunks_response(request, begun(chunks), content_type="text/csv; charset=utf-8", filename="jobs.csv")


@page("GET", "HEAD")
def job_groups_csv(request: HttpRequest) -> HttpResponseBase:
    """All groups of the present filter as CSV."""
    user = person(request)
    listing = listing_read(request.GET, user=user)
    if listing.grouping is None:
        raise NotFound("No group is named.", hint="Name a column, such as ?group=dataset.")
    chunks = csv_chunks(CSV_COLUMNS, groups_csv(_groups(user, listing), listing.grouping))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename="job-groups.csv")


@page("GET", "HEAD")
def trash(request: HttpRequest) -> HttpResponseBase:
    """What was deleted and can still be restored: two lists, each with pages of its own."""
    user = person(request)
    all_jobs = job_rows(user=user, filters=JobFilters(deleted=True))
    all_datasets = dataset_list(user=user, deleted=True)
    jobs = page_within(all_jobs, page=page_number(request), page_size=TRASH_PAGE_SIZE)
    datasets = page_within(all_datasets, page=page_number(request, "datasets"), page_size=TRASH_PAGE_SIZE)
    of_member, of_admin = (
        set(projects_with_role(user, role).values_list("pk", flat=True)) for role in (Role.MEMBER, Role.ADMIN)
    )
    rows = [*jobs.items, *datasets.items]
    restorable = {row.pk for row in rows if row.project_id in of_member}
    deletable = {row.pk for row in rows if row.project_id in (of_member if row.owner_id == user.pk else of_admin)}
    context = {
        "jobs": jobs,
        "datasets": datasets,
        "restorable": restorable,
        "deletable": deletable,
        "jobs_restorable": any(job.pk in restorable for job in jobs.items),
        "jobs_deletable": any(job.pk in deletable for job in jobs.items),
    }
    return show(request, "home/trash.html", context)
