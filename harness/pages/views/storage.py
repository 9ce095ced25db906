"""Disk by project: use beside quotas, what a project's bytes are, and what is deleted for good."""

from __future__ import annotations

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from harness.accounts.access import require_admin
from harness.accounts.models import User
from harness.accounts.selectors import project_get
from harness.datasets.purging import dataset_purge
from harness.datasets.selectors import dataset_get
from harness.datasets.services import dataset_delete
from harness.datasets.uploads import upload_delete, upload_get
from harness.datasets.weights import weights_delete, weights_get
from harness.errors import Invalid, NotFound
from harness.jobs.selectors import job_get
from harness.jobs.services import job_delete, job_purge
from harness.pages.pool_forms import StorageQuotaForm
from harness.pages.web import change, form_page, page, page_number, person, show, with_query
from harness.plain import INTEGER_MAX
from harness.storage.items import ITEMS_MAX, storage_items
from harness.storage.quotas import storage_quota_remove, storage_quota_set
from harness.storage.use import storage_of, storage_rows
from harness.store_disk import store_free_bytes
from worker.words import size_words

GIB = 2**30
PAGE_SIZE = 50
_IN_TRASH = "It is in the trash: it counts until it is deleted for good."
_DONE = {
    ("dataset", "trash"): _IN_TRASH,
    ("job", "trash"): _IN_TRASH,
    ("dataset", "forever"): "Deleted for good.",
    ("job", "forever"): "Deleted for good.",
    ("weights", "forever"): "Deleted for good.",
    ("upload", "forever"): "Given up.",
}


@page("GET", "HEAD")
def pool_storage(request: HttpRequest) -> HttpResponseBase:
    """What the person's projects take of the disk; for admins all, and a form to set quotas."""
    return _pool_storage(request, StorageQuotaForm())


def _pool_storage(request: HttpRequest, form: StorageQuotaForm, *, status: int = 200) -> HttpResponseBase:
    user = person(request)
    form.set_projects(user)
    context = {
        "rows": Paginator(storage_rows(user=user), PAGE_SIZE).get_page(page_number(request)),
        "form": form,
        "is_admin": user.is_superuser,
        "default_bytes": settings.STORAGE_QUOTA_BYTES,
        "free_bytes": store_free_bytes(settings.STORE),
        "part": "storage",
    }
    return show(request, "pool/storage.html", context, nav="pool", status=status)


@form_page("pool_storage")
def storage_quota_save(request: HttpRequest) -> HttpResponseBase:
    """Set a project's storage quota. What is refused can be corrected."""
    user = person(request)
    require_admin(user)
    form = StorageQuotaForm(request.POST)
    form.set_projects(user)
    if not form.is_valid():
        return _pool_storage(request, form, status=422)
    project = project_get(user=user, slug=form.cleaned_data["project"])
    try:
        limit_bytes = _limit(form.cleaned_data["gib"])
    except Invalid as problem:
        form.add_error("gib", f"{problem.message} {problem.hint}")
        return _pool_storage(request, form, status=422)
    told = "as much as there is" if limit_bytes is None else size_words(limit_bytes)
    return change(
        request,
        lambda: storage_quota_set(user=user, project=project, limit_bytes=limit_bytes),
        done=f"{project.name} may take {told}. Nothing was deleted, and running jobs continue.",
        to=with_query(request, reverse("pool_storage")),
    )


def _limit(text: str) -> int | None:
    """Bytes of the GiB that were typed; None for an empty field. Raises `Invalid`."""
    if not text:
        return None
    said = f"{text[:20]!r} is not a number of GiB that a project may take."
    refusal = Invalid(said, field="gib", hint="Such as 20 or 0.5.")
    try:
        limit_bytes = int(float(text) * GIB)
    except (ValueError, OverflowError) as error:
        raise refusal from error
    if not 0 <= limit_bytes <= INTEGER_MAX:
        raise refusal
    return limit_bytes


@page("POST")
def storage_quota_end(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Have the installation's default hold again."""
    user = person(request)
    require_admin(user)
    project = project_get(user=user, slug=slug)
    done, to = f"The default holds for {project.name} again.", with_query(request, reverse("pool_storage"))
    return change(request, lambda: storage_quota_remove(user=user, project=project), done=done, to=to)


@page("GET", "HEAD")
def project_storage(request: HttpRequest, slug: str) -> HttpResponseBase:
    """What a project takes of the disk, its largest things first, and what may be deleted."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    items = storage_items(user=user, project=project)
    context = {"project": project, "row": storage_of(project), "items": items, "is_cut": len(items) == ITEMS_MAX}
    return show(request, "projects/storage.html", context, nav="projects")


@page("POST")
def storage_act(request: HttpRequest, slug: str, kind: str, item_id: str, action: str) -> HttpResponseBase:
    """Move one thing to the trash, or delete it for good; back to where it was asked for."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    if (kind, action) not in _DONE:
        raise NotFound("There is no such action.")
    to = reverse("trash") if request.POST.get("from") == "trash" else reverse("project_storage", args=[project.slug])
    return change(request, lambda: _do(user, kind, item_id, action), done=_DONE[kind, action], to=to)


def _do(user: User, kind: str, item_id: str, action: str) -> None:
    if kind == "upload":
        upload_delete(upload=upload_get(user=user, upload_id=item_id))
    elif kind == "weights":
        weights_delete(user=user, weights=weights_get(user=user, weights_id=item_id))
    elif kind == "dataset":
        dataset = dataset_get(user=user, dataset_id=item_id)
        (dataset_purge if action == "forever" else dataset_delete)(user=user, dataset=dataset)
    else:
        job = job_get(user=user, job_id=item_id)
        (job_purge if action == "forever" else job_delete)(user=user, job=job)
