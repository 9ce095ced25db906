"""Job history: filters, sorting and paging in the address; export; comparison; the trash."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse, QueryDict

from harness.accounts.models import User
from harness.accounts.selectors import project_get, project_list
from harness.csv import csv_chunks
from harness.datasets.selectors import dataset_list
from harness.errors import Invalid, NotFound
from harness.jobs.models import Job
from harness.jobs.selectors import JobFilters, job_get, job_list, job_owners
from harness.pages.compare_view import compare_rows
from harness.pages.days import days_read
from harness.pages.job_view import curves_source
from harness.pages.spec_diff import spec_differences
from harness.pages.views.bulk import COMPARE_MAX
from harness.pages.web import asks_part, page, page_number, person, show
from harness.pages.words import NAME_WORDS, STATE_WORDS, TASK_WORDS
from harness.paging import PAGE_SIZE_MAX, Page
from harness.responses import chunks_response
from worker.states import JobState

PAGE_SIZE = 25
_MORE = ("task", "project", "owner", "metric_min", "tag", "since", "until")
"""Filters of the form that are folded in until one of them is set."""
_PINNED = {"dataset": "Dataset", "family": "Model", "metric_max": "Best at most"}
_COLUMNS = ("id", "name", "state", "task", "family", "dataset", "project", "owner", "metric_name", "metric_best",
            "metric_test", "epoch", "epochs", "run_s", "created_at", "finished_at", "tags")  # fmt: skip


def _number(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise Invalid(f"{text!r} is not a number.", field="metric_min", hint="Write it like 0.9.") from error


def filters_read(request: HttpRequest, *, user: User) -> JobFilters:
    """Filters out of the address. Raises `NotFound` for a project of others, `Invalid`."""
    given = request.GET
    slug = given.get("project", "")
    since, before = days_read(given)
    return JobFilters(
        project=project_get(user=user, slug=slug) if slug else None,
        states=tuple(state for state in given.getlist("state") if state),
        task=given.get("task", ""),
        family=given.get("family", ""),
        owner=given.get("owner", ""),
        dataset=given.get("dataset", ""),
        tag=given.get("tag", ""),
        query=given.get("q", "").strip(),
        metric_min=_number(given.get("metric_min", "")),
        metric_max=_number(given.get("metric_max", "")),
        since=since,
        before=before,
    )


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
        words = named.name if named else NAME_WORDS.get(value, value)
        found.append({"name": name, "value": value, "label": label, "words": words, "without": f"?{rest.urlencode()}"})
    return found


@page("GET", "HEAD")
def job_index(request: HttpRequest) -> HttpResponseBase:
    """The list; htmx asks for its table only."""
    user = person(request)
    sort = request.GET.get("sort", "-created")
    filters = filters_read(request, user=user)
    is_part = asks_part(request) and not request.headers.get("HX-History-Restore-Request")
    context: dict[str, Any] = {
        "rows": job_list(user=user, filters=filters, sort=sort, page=page_number(request), page_size=PAGE_SIZE),
        "is_part": is_part,
        "pinned": pinned_filters(request.GET, user=user),
        "sort": sort,
        "filtered": filters != JobFilters(),
        "given": request.GET,
        "chosen_states": set(filters.states),
        "states": [(state.value, STATE_WORDS[state.value][0]) for state in JobState],
        "tasks": TASK_WORDS.items(),
    }
    if not is_part:
        context |= {"projects": project_list(user=user), "owners": job_owners(user=user)}
        context["more_given"] = any(request.GET.get(name) for name in _MORE)
    template = "jobs/table.html" if is_part else "jobs/list.html"
    response = show(request, template, context, nav="jobs")
    response["Vary"] = "HX-Request"
    return response


def _record(job: Job) -> dict[str, Any]:
    record = {name: getattr(job, name) for name in _COLUMNS if name not in {"dataset", "project", "owner"}}
    record |= {"dataset": job.dataset.name, "project": job.project.slug, "owner": job.owner.username}
    return {name: record[name] for name in _COLUMNS}


def _all_jobs(user: User, filters: JobFilters, sort: str) -> Iterator[Job]:
    """Read page by page; the first at once, so that a wrong sort is refused before any byte is sent."""

    def page_at(number: int) -> Page[Job]:
        return job_list(user=user, filters=filters, sort=sort, page=number, page_size=PAGE_SIZE_MAX)

    first = page_at(1)
    rest = (page_at(number).items for number in range(2, first.pages + 1))
    return chain(first.items, chain.from_iterable(rest))


def _row(job: Job) -> list[Any]:
    return [" ".join(value) if isinstance(value, list) else value for value in _record(job).values()]


@page("GET", "HEAD")
def job_export(request: HttpRequest, kind: str) -> HttpResponseBase:
    """The present filter, all pages of it, as CSV or JSON."""
    user = person(request)
    jobs = _all_jobs(user, filters_read(request, user=user), request.GET.get("sort", "-created"))
    if kind == "json":
        return JsonResponse({"items": [_record(job) for job in jobs]})
    if kind != "csv":
        raise NotFound("Jobs can be exported as CSV or JSON.")
    chunks = csv_chunks(_COLUMNS, map(_row, jobs))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename="jobs.csv")


@page("GET", "HEAD")
def trash(request: HttpRequest) -> HttpResponseBase:
    """What was deleted and can still be restored."""
    user = person(request)
    context = {
        "jobs": job_list(user=user, filters=JobFilters(deleted=True), page_size=100).items,
        "datasets": dataset_list(user=user, deleted=True)[:100],
    }
    return show(request, "home/trash.html", context)


@page("GET", "HEAD")
def job_compare(request: HttpRequest) -> HttpResponseBase:
    """Curves of several jobs in the same charts, and where their specs differ."""
    user = person(request)
    ids = list(dict.fromkeys(request.GET.getlist("job")))[:COMPARE_MAX]
    jobs = [job_get(user=user, job_id=job_id) for job_id in ids]
    context = {
        "jobs": jobs,
        "compared": compare_rows(jobs),
        "differences": spec_differences([job.resolved.get("spec") or job.spec for job in jobs]),
        "source": [curves_source(job) for job in jobs],
    }
    return show(request, "jobs/compare.html", context, nav="jobs")
