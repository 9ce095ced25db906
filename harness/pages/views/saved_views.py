"""Saved views of the list of jobs: save, rename, share, delete, open with; and what the list shows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from harness.accounts.models import Project, User
from harness.accounts.selectors import project_get
from harness.errors import HarnessError, NotFound
from harness.jobs.listing import DEFAULT_SORT, listing_query, listing_read
from harness.pages.project_options import project_options
from harness.pages.web import change, page, person, show
from harness.saved_views.models import SavedView
from harness.saved_views.selectors import view_default, view_get, view_list
from harness.saved_views.services import (
    NAME_LETTERS_MAX,
    view_create,
    view_default_clear,
    view_default_set,
    view_delete,
    view_share,
    view_update,
)

NAMED, FOR = "named", "for"
"""In the address of a list after a view was refused: the name that was typed for it, and the project that sees it; of
the list of views, after a name was: the name, and the view that it was for."""
_NAMED_MAX = 200
"""Letters of such a name: more than a view may have, so that one too long can be shortened."""


def list_address(view_id: str, given: QueryDict) -> str:
    """The list as it is shown, written the short way; naming a view, even none, keeps the default one away."""
    query = QueryDict(mutable=True)
    query["view"] = view_id
    shown = listing_query(given) or (f"sort={DEFAULT_SORT}" if view_id else "")
    return f"{reverse('job_list')}?{query.urlencode()}{'&' if shown else ''}{shown}"


def address_of(view: SavedView) -> str:
    """The list as the view shows it, all of it in the address."""
    return list_address(view.pk, QueryDict(view.query))


def view_address(request: HttpRequest) -> str:
    """Where a list goes that says nothing but which view, or nothing at all and has a default; else nothing.

    Raises `NotFound`.
    """
    user = person(request)
    if set(request.GET) == {"view"} and request.GET["view"]:
        return address_of(view_get(user=user, view_id=request.GET["view"]))
    view = None if request.GET else view_default(user=user)
    if view is None:
        return ""
    try:
        listing_read(QueryDict(view.query), user=user)
    except HarnessError as error:  # such as a project that the person has left: the list must not be shut by it
        messages.warning(request, f"Your view {view.name} cannot be shown: {error.message}", extra_tags=error.hint)
        return ""
    return address_of(view)


def view_context(request: HttpRequest) -> dict[str, Any]:
    """The views, which of them is shown, and whether the list has been changed since."""
    views = list(view_list(user=person(request)))
    shown = next((view for view in views if view.pk == request.GET.get("view")), None)
    query = listing_query(request.GET)
    return {
        "views": [(view, address_of(view)) for view in views],
        "view": shown,
        "view_query": query,
        "view_changed": shown is not None and shown.query != query,
        "name_letters_max": NAME_LETTERS_MAX,
        **_typed(request),
    }


def _typed(request: HttpRequest) -> dict[str, str | None]:
    """Taken out of the request: addresses that the page makes of its own, such as of an export, do not say it."""
    typed = {"named": request.GET.get(NAMED), "named_for": request.GET.get(FOR, "")}
    rest = request.GET.copy()
    for name in (NAMED, FOR):
        rest.pop(name, None)
    request.GET = QueryDict(rest.urlencode())
    return typed


@page("GET", "HEAD")
def views(request: HttpRequest) -> HttpResponseBase:
    """All views that the person can use, and what can be done with each."""
    user = person(request)
    rows = [(view, address_of(view)) for view in view_list(user=user)]
    shared_with = [view.project.slug for view, _ in rows if view.project and view.owner_id == user.pk]
    context = {
        "rows": rows,
        "share_projects": project_options(user, "add", shared_with),
        "name_letters_max": NAME_LETTERS_MAX,
        **_typed(request),
    }
    return show(request, "jobs/views.html", context, nav="jobs")


@page("POST")
def view_new(request: HttpRequest) -> HttpResponseBase:
    """Save what the list shows under a name; a refused one stands in its field again."""
    user = person(request)
    query = request.POST.get("query", "")
    try:
        view = view_create(user=user, name=request.POST.get("name", ""), query=query, project=_project(request, user))
    except HarnessError as error:
        messages.error(request, error.message, extra_tags=error.hint)
        typed = urlencode({NAMED: request.POST.get("name", "")[:_NAMED_MAX], FOR: request.POST.get("project", "")})
        return redirect(f"{reverse('job_list')}?{query or 'view='}&{typed}")
    messages.success(request, f"The view {view.name} is saved.")
    return redirect(address_of(view))


def _project(request: HttpRequest, user: User) -> Project | None:
    slug = request.POST.get("project", "")
    return project_get(user=user, slug=slug) if slug else None


@page("POST")
def view_act(request: HttpRequest, view_id: str, action: str) -> HttpResponseBase:
    """Change one view."""
    act = _ACTS.get(action)
    if act is None:
        raise NotFound("There is no such action.")
    return act(request, view_get(user=person(request), view_id=view_id))


def _changed(request: HttpRequest, action: Callable[[], Any], done: str) -> HttpResponse:
    return change(request, action, done=done, to=reverse("view_list"))


def _rename(request: HttpRequest, view: SavedView) -> HttpResponse:
    name = request.POST.get("name", "")
    here = reverse("view_list")
    return change(
        request,
        lambda: view_update(user=person(request), view=view, name=name),
        done="The view is renamed.",
        to=here,
        failed_to=f"{here}?{urlencode({NAMED: name[:_NAMED_MAX], FOR: view.pk})}",
    )


def _update(request: HttpRequest, view: SavedView) -> HttpResponse:
    query = request.POST.get("query", "")
    back = f"{reverse('job_list')}?view={view.pk}&{query}"
    done = f"The view {view.name} now shows this."
    return change(request, lambda: view_update(user=person(request), view=view, query=query), done=done, to=back)


def _share(request: HttpRequest, view: SavedView) -> HttpResponse:
    user = person(request)
    project = _project(request, user)
    done = f"The view is shared with {project.name}." if project else "The view is yours alone."
    return _changed(request, lambda: view_share(user=user, view=view, project=project), done)


def _delete(request: HttpRequest, view: SavedView) -> HttpResponse:
    return _changed(request, lambda: view_delete(user=person(request), view=view), f"The view {view.name} is deleted.")


def _open_with(request: HttpRequest, view: SavedView) -> HttpResponse:
    done = f"Your list of jobs opens with {view.name}."
    return _changed(request, lambda: view_default_set(user=person(request), view=view), done)


def _open_plain(request: HttpRequest, view: SavedView) -> HttpResponse:
    done = "Your list of jobs opens with all jobs."
    return _changed(request, lambda: view_default_clear(user=person(request), view=view), done)


_ACTS: dict[str, Callable[[HttpRequest, SavedView], HttpResponse]] = {
    "rename": _rename,
    "update": _update,
    "share": _share,
    "delete": _delete,
    "open-with": _open_with,
    "open-plain": _open_plain,
}
