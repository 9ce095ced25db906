"""Datasets: list, upload, one dataset with its profile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from codegen.profile.target import unlearnable
from codegen.profile.types import DataKind
from codegen.task import task_guessed
from harness.accounts.access import require
from harness.accounts.models import Project, Role
from harness.accounts.selectors import project_get
from harness.datasets.models import Dataset, DatasetState
from harness.datasets.pictures import dataset_row_image
from harness.datasets.samples import SAMPLES, sample_create
from harness.datasets.selectors import (
    dataset_get,
    dataset_list,
    dataset_profile,
    dataset_rows,
    dataset_thumbnail,
    datasets_same,
)
from harness.datasets.services import dataset_delete, dataset_restore, dataset_update
from harness.errors import Forbidden, HarnessError, Invalid, NotFound
from harness.fetches.services import fetch_create
from harness.pages.profile_view import (
    BROKEN,
    class_bars,
    column_rows,
    finding_groups,
    may_read_otherwise,
    rows_written,
    thumbnails_by_class,
)
from harness.pages.project_choice import project_chosen, project_shown
from harness.pages.project_options import project_options
from harness.pages.views.fetches import fetch_context
from harness.pages.web import can, can_delete, change, form_page, number_read, page, person, show
from harness.pages.words import COLUMN_TYPE_WORDS
from harness.responses import file_response
from harness.storage.use import storage_of
from harness.trouble import trouble_told

PAGE_SIZE = 30
PREVIEW_ROWS = 20
SORTS = {
    "name": "name",
    "state": "state",
    "size": "source_bytes",
    "project": "project__name",
    "created": "created_at",
}


@page("GET", "HEAD")
def dataset_index(request: HttpRequest) -> HttpResponseBase:
    """Datasets of all the person's projects; the filter is in the address."""
    user = person(request)
    slug, query = request.GET.get("project", ""), request.GET.get("q", "").strip()
    project = project_get(user=user, slug=slug) if slug else None
    sort = request.GET.get("sort", "")
    sort = sort if sort.removeprefix("-") in SORTS else "-created"
    order = ("-" if sort.startswith("-") else "") + SORTS[sort.removeprefix("-")]
    found = dataset_list(user=user, project=project, query=query)
    rows = Paginator(found.order_by(order, "-created_at", "pk"), PAGE_SIZE)
    context = {
        "sort": sort,
        "rows": rows.get_page(request.GET.get("page")),
        "projects": project_options(user, "see", [slug]),
        "project": project,
        "query_text": query,
        "filtered": bool(project or query),
        "samples": _samples(),
    }
    return show(request, "datasets/list.html", context, nav="datasets")


def _samples() -> list[tuple[str, str]]:
    return [(name, words) for name, (_, _, words) in SAMPLES.items()]


@page("GET", "HEAD", "POST")
def dataset_upload(request: HttpRequest) -> HttpResponseBase:
    """Drag and drop; the bytes go to the API in resumable pieces. POST has a web address fetched by control."""
    user = person(request)
    given = request.POST if request.method == "POST" else request.GET
    project = project_shown(user, given.get("project", ""))
    error: HarnessError | None = None
    if request.method == "POST":
        try:
            project = project_chosen(user, given.get("project", ""))
            _fetch(request, project)
            return redirect(f"{reverse('dataset_upload')}?project={project.slug}")
        except HarnessError as problem:
            error = problem
    context = {
        **fetch_context(request),
        "error": error,
        # What may be given instead is put where it is sent from.
        "url": _direct_url(error) or request.POST.get("url", ""),
        "name": request.POST.get("name", ""),
        "sent": request.POST.dict(),  # a QueryDict has an `encoding` of its own
        "project": project,
        "projects": project_options(user, "add", [project.slug if project else ""]),
        "samples": _samples(),
        "storage": storage_of(project) if project else None,
    }
    return show(request, "datasets/upload.html", context, nav="datasets", status=error.status if error else 200)


def _fetch(request: HttpRequest, project: Project) -> None:
    names = ("delimiter", "encoding")
    options = {name: request.POST[name] for name in names if request.POST.get(name)}
    url, name = request.POST.get("url", ""), request.POST.get("name", "")
    fetch_create(user=person(request), project=project, url=url, name=name, options=options)


def _direct_url(error: HarnessError | None) -> str:
    details = error.details if error else None
    return str(details.get("direct_url", "")) if isinstance(details, dict) else ""


@page("POST")
def dataset_sample(request: HttpRequest) -> HttpResponseBase:
    """Add a sample with one click and go to its page; on where a project can be chosen, if it has to be."""
    user = person(request)
    try:
        project = project_chosen(user, request.POST.get("project", ""))
    except Invalid as problem:
        messages.error(request, problem.message, extra_tags=problem.hint)
        return redirect("dataset_upload")
    dataset = sample_create(user=user, project=project, name=request.POST.get("name", ""))
    return redirect("dataset_page", dataset_id=dataset.pk)


@page("GET", "HEAD")
def dataset_page(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """The profile, or how far its making is, or why it cannot be made."""
    return _dataset_page(request, dataset_get(user=person(request), dataset_id=dataset_id))


def _dataset_page(request: HttpRequest, dataset: Dataset, *, refused: HarnessError | None = None) -> HttpResponseBase:
    """`refused`: why what the request sends was not done; the page then holds what was sent."""
    user = person(request)
    may_change = can(user, dataset.project, Role.MEMBER)
    context: dict[str, Any] = {
        "dataset": dataset,
        "may_change": may_change,
        "may_delete": may_change and can_delete(user, dataset.project, dataset.owner_id),
        "same": [] if dataset.deleted_at else datasets_same(dataset),
        "read_otherwise": may_read_otherwise(dataset.problem or {}),
        "is_broken": (dataset.problem or {}).get("code") in BROKEN,
        "jobs": dataset.jobs.filter(deleted_at=None).order_by("-created_at")[:5],
        "sent": request.POST.dict(),  # a QueryDict has an `encoding` of its own
        "name_refused": refused if "name" in request.POST else None,
        "reading_refused": None if "name" in request.POST else refused,
    }
    if dataset.state == DatasetState.READY:
        context |= _profile_context(dataset, request.POST)
    status = 200 if refused is None else refused.status
    return show(request, "datasets/page.html", context, nav="datasets", status=status)


def _profile_context(dataset: Dataset, sent: QueryDict) -> dict[str, Any]:
    profile = dataset_profile(dataset)
    return {
        "profile": profile,
        "task_guessed": task_guessed(profile),
        "is_table": profile.kind == DataKind.TABLE,
        "target": sent.get("target", profile.target),
        "columns": column_rows(profile, dataset.options.get("column_types", {}), sent),
        "column_types": COLUMN_TYPE_WORDS.items(),
        "findings": finding_groups(profile.warnings),
        "unlearnable": unlearnable(profile),
        "classes": class_bars(profile),
        "thumbnails": thumbnails_by_class(profile),
    }


@page("GET", "HEAD")
def dataset_preview(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """A page of rows, as a fragment."""
    dataset = dataset_get(user=person(request), dataset_id=dataset_id)
    offset = number_read(request.GET.get("offset", ""), digits_max=11) or 0
    rows = dataset_rows(dataset, offset, PREVIEW_ROWS)
    context = {
        "dataset": dataset,
        "preview": {**rows, "rows": rows_written(dataset_profile(dataset), rows["columns"], rows["rows"])},
        "numeric": [_is_numeric(values) for values in zip(*rows["rows"], strict=True)],
        "first": offset + 1,
        "last": offset + len(rows["rows"]),
        "before": max(0, offset - PREVIEW_ROWS) if offset else None,
        "after": offset + PREVIEW_ROWS if offset + PREVIEW_ROWS < rows["total"] else None,
    }
    return show(request, "datasets/rows.html", context)


def _is_numeric(values: Iterable[Any]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in given)


@page("GET", "HEAD")
def dataset_progress(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """How far the reading is, as a fragment; tells htmx to reload when it has ended."""
    dataset = dataset_get(user=person(request), dataset_id=dataset_id)
    response = show(request, "datasets/progress.html", {"dataset": dataset})
    if dataset.state != DatasetState.PROFILING:
        response["HX-Refresh"] = "true"
    return response


@page("GET", "HEAD")
def dataset_picture(request: HttpRequest, dataset_id: str, name: str) -> HttpResponseBase:
    """One thumbnail."""
    dataset = dataset_get(user=person(request), dataset_id=dataset_id)
    path = dataset_thumbnail(dataset, name)
    kind = "image/png" if path.suffix == ".png" else "image/webp" if path.suffix == ".webp" else "image/jpeg"
    response = file_response(request, path, filename=name, content_type=kind, inline=True)
    response["Cache-Control"] = "private, max-age=86400"
    return response


@page("GET", "HEAD")
def dataset_row_picture(request: HttpRequest, dataset_id: str, row: int) -> HttpResponseBase:
    """The picture of one row."""
    dataset = dataset_get(user=person(request), dataset_id=dataset_id)
    body, kind = dataset_row_image(dataset, row)
    response = HttpResponse(body, content_type=kind)
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, max-age=86400"
    return response


@form_page("dataset_page", dataset_get)
def dataset_edit(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """Rename, or read anew with other types, target, delimiter or encoding. What is refused can be corrected."""
    user = person(request)
    dataset = dataset_get(user=user, dataset_id=dataset_id)
    try:
        with trouble_told():
            dataset_update(user=user, dataset=dataset, **_wanted(dataset, request.POST))
    except (Forbidden, NotFound):
        raise
    except HarnessError as refused:
        return _dataset_page(request, dataset_get(user=user, dataset_id=dataset_id), refused=refused)
    messages.success(request, "Saved.")
    return redirect("dataset_page", dataset_id=dataset_id)


def _wanted(dataset: Dataset, sent: QueryDict) -> dict[str, Any]:
    """What a form of the page changes: what it shows and nobody has chosen stays as it was guessed."""
    profile = dataset.profile or {}
    guessed = {column["name"]: column["guessed_type"] for column in profile.get("columns", ())}
    types = {key.removeprefix("type:"): str(value) for key, value in sent.items() if key.startswith("type:")}
    types = {column: "" if guessed.get(column) == kind else kind for column, kind in types.items()}
    options: dict[str, Any] = {key: sent[key] or None for key in ("delimiter", "encoding") if key in sent}
    target: str | None = sent.get("target") or None
    if target and not dataset.options.get("target") and target == profile.get("target"):
        target = None
    return {"name": sent.get("name"), "column_types": types or None, "target": target, "options": options or None}


@page("POST")
def dataset_remove(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """Move to the trash."""
    user = person(request)
    dataset = dataset_get(user=user, dataset_id=dataset_id)
    return change(
        request,
        lambda: dataset_delete(user=user, dataset=dataset),
        done=f"{dataset.name} is in the trash.",
        to=reverse("dataset_list"),
        failed_to=reverse("dataset_page", args=[dataset_id]),
        undo=reverse("dataset_restore", args=[dataset_id]),
    )


@page("POST")
def dataset_bring_back(request: HttpRequest, dataset_id: str) -> HttpResponseBase:
    """Take out of the trash."""
    user = person(request)
    dataset = dataset_get(user=user, dataset_id=dataset_id)
    require(user, dataset.project, Role.MEMBER)
    return change(
        request,
        lambda: dataset_restore(user=user, dataset=dataset),
        done=f"{dataset.name} is back.",
        to=reverse("dataset_page", args=[dataset_id]),
    )
