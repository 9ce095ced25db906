"""Quotas of devices: the list, and what setting or lifting one would do."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from harness.accounts.access import require_admin
from harness.accounts.selectors import project_get
from harness.errors import HarnessError
from harness.jobs.consequences import change_consequences, quota_consequences, quota_end_consequences
from harness.jobs.drain import Affected
from harness.jobs.quota_use import quota_rows
from harness.pages.pool_forms import QuotaForm
from harness.pages.views.queue import PAGE_SIZE, change_told, fail
from harness.pages.web import change, form_page, page, page_number, person, show, with_query
from harness.paging import search_check
from harness.pool.models import DeviceKind
from harness.pool.quotas import quota_remove, quota_set


@page("GET", "HEAD")
def quotas(request: HttpRequest) -> HttpResponseBase:
    """Quotas of the projects a person sees, and what is used of them."""
    return _quotas(request, QuotaForm(), None)


def _quotas(
    request: HttpRequest,
    form: QuotaForm,
    delayed: tuple[Affected, ...] | None,
    looked: str = "",
    *,
    status: int = 200,
) -> HttpResponseBase:
    user = person(request)
    form.set_projects(user)
    words = search_check(request.GET.get("q", "").strip(), "q")
    rows = Paginator(quota_rows(user=user, words=words), PAGE_SIZE).get_page(page_number(request))
    context = {"quotas": rows, "q": words, "is_large": bool(words) or rows.paginator.num_pages > 1}
    context |= {"form": form, "is_admin": user.is_superuser, "part": "quotas", "delayed": delayed, "looked": looked}
    return show(request, "pool/quotas.html", context, nav="pool", status=status)


@form_page("quotas")
def quota_save(request: HttpRequest) -> HttpResponseBase:
    """Set a quota; with `look` only tell who would wait longer or finish sooner. What is refused can be corrected."""
    user = person(request)
    require_admin(user)
    form = QuotaForm(request.POST)
    form.set_projects(user)
    if not form.is_valid():
        return _quotas(request, form, None, status=422)
    wanted = {**form.cleaned_data, "user": user, "project": project_get(user=user, slug=form.cleaned_data["project"])}
    if "look" in request.POST:
        return _quotas(request, form, quota_consequences(**wanted))

    def save() -> None:
        saved = quota_set(**wanted)
        messages.success(request, (_LENDS if saved.may_borrow else _LENDS_NOT).format(saved.project.name))

    return change_told(request, partial(change_consequences, save), done="", to=with_query(request, reverse("quotas")))


_LENDS = (
    "Saved: {} may use more while no other project wants them. "
    "What runs now goes on; what is borrowed may be paused for others."
)
_LENDS_NOT = "Saved: {} never uses more. What runs now goes on."


@form_page("quotas")
def quota_end(request: HttpRequest, slug: str, device_kind: str) -> HttpResponseBase:
    """Take a limit away; with `look` only tell who would wait longer or finish sooner."""
    user = person(request)
    require_admin(user)
    project = project_get(user=user, slug=slug)
    if "look" in request.POST:
        try:
            delayed = quota_end_consequences(user=user, project=project, device_kind=device_kind)
        except HarnessError as error:
            return change(request, partial(fail, error), done="", to=with_query(request, reverse("quotas")))
        looked = f"{project.name} had no limit of {DeviceKind(device_kind).label}s"
        return _quotas(request, QuotaForm(), delayed, looked)
    done, to = f"{project.name} no longer has a limit of this kind.", with_query(request, reverse("quotas"))
    remove = partial(quota_remove, user=user, project=project, device_kind=device_kind)
    return change_told(request, partial(change_consequences, remove), done=done, to=to)
