"""Job history: filters, sorting and paging in the address; bulk trash; export; comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from codegen.words import counted
from harness.accounts.models import User
from harness.accounts.selectors import project_get, project_list
from harness.csv import csv_chunks
from harness.datasets.selectors import dataset_list
from harness.errors import HarnessError, Invalid, NotFound
from harness.jobs.models import Job
from harness.jobs.selectors import JobFilters, job_get, job_list
from harness.jobs.services import job_delete, job_purge, job_restore
from harness.pages.compare_view import compare_rows
from harness.pages.job_view import curves_source
from harness.pages.spec_diff import spec_differences
from harness.pages.undo import undo_tag
from harness.pages.web import page, page_number, person, show
from harness.pages.words import NAME_WORDS, STATE_WORDS, TASK_WORDS
from harness.paging import PAGE_SIZE_MAX, Page
from harness.responses import chunks_response
from worker.states import JobState

PAGE_SIZE = 25
BULK_MAX = 200
COMPARE_MAX = 8
_BULK: dict[str, tuple[Callable[..., object], str]] = {
    "restore": (job_restore, "restored"),
    "purge": (job_purge, "deleted for good"),
}
"""What is done in the trash, and in words."""
_PINNED = {"dataset": "Dataset", "family": "Model", "owner": "Owner", "metric_max": "Best at most"}
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
    is_part = bool(request.headers.get("HX-Request")) and not request.headers.get("HX-History-Restore-Request")
    context = {
        "rows": job_list(user=user, filters=filters, sort=sort, page=page_number(request), page_size=PAGE_SIZE),
        "is_part": is_part,
        "pinned": pinned_filters(request.GET, user=user),
        "sort": sort,
        "filtered": filters != JobFilters(),
        "given": request.GET,
        "chosen_states": set(filters.states),
        "states": [(state.value, STATE_WORDS[state.value][0]) for state in JobState],
        "tasks": TASK_WORDS.items(),
        "projects": project_list(user=user),
    }
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


@page("POST")
def job_bulk(request: HttpRequest) -> HttpResponseBase:
    """Trash, restore, delete for good, or compare several jobs; tells with which it could not be done."""
    user = person(request)
    chosen = request.POST.getlist("job")[:BULK_MAX]
    back = reverse("job_list") + (f"?{request.GET.urlencode()}" if request.GET else "")
    if not chosen:
        messages.warning(request, "No job is chosen.", extra_tags="Tick the boxes in front of them first.")
        return redirect(back)
    if request.POST.get("do") == "compare":
        if len(chosen) > COMPARE_MAX:
            messages.info(request, f"These are the first {COMPARE_MAX} of the {len(chosen)} jobs you chose.")
        return redirect(f"{reverse('job_compare')}?{urlencode({'job': chosen[:COMPARE_MAX]}, doseq=True)}")
    does = request.POST.get("do", "")
    service, word = _BULK.get(does, (job_delete, "moved to the trash"))
    moved, refused = _bulk(user, chosen, service)
    if moved:
        again = urlencode({"do": "restore", "from": "undo", "job": moved}, doseq=True)
        undo = "" if does in _BULK else undo_tag(f"{reverse('job_bulk')}?{again}")
        messages.success(request, f"{counted(len(moved), 'job')} {word}.", extra_tags=undo)
    if refused:
        messages.error(request, f"{len(refused)} could not be {word}: {refused[0].message}", extra_tags=refused[0].hint)
    return redirect("trash" if does in _BULK and not request.POST.get("from") else back)


def _bulk(user: User, chosen: list[str], service: Callable[..., object]) -> tuple[list[str], list[HarnessError]]:
    """Do one thing to each job: ids of those it was done to, refusals of the others."""
    moved: list[str] = []
    refused: list[HarnessError] = []
    for job_id in chosen:
        try:
            service(user=user, job=job_get(user=user, job_id=job_id))
            moved.append(job_id)
        except HarnessError as error:
            refused.append(error)
    return moved, refused


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
