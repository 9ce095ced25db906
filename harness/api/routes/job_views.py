"""Routes: saved views of the list of jobs."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest, QueryDict
from ninja import Router, Status

from harness.accounts.models import Project, User
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.schemas.base import Done, Items
from harness.api.schemas.job_views import JobViewIn, JobViewOut, JobViewPatch
from harness.jobs.columns import DEFAULT
from harness.saved_views import selectors, services
from harness.saved_views.models import SavedView

router = Router()


def _out(view: SavedView) -> dict[str, Any]:
    return {
        **{name: getattr(view, name) for name in ("id", "name", "query", "created_at")},
        "owner": view.owner.username,
        "project": view.project.slug if view.project else None,
        "columns": QueryDict(view.query).getlist("column") or list(DEFAULT),
        "is_default": getattr(view, "is_default", False),
    }


def _project(user: User, slug: str) -> Project | None:
    return project_get(user=user, slug=slug) if slug else None


@router.get("", response=Items[JobViewOut], summary="Saved views")
def view_list(request: HttpRequest) -> dict[str, Any]:
    """The caller's own, and those shared with the projects that the caller sees."""
    user = person(request)
    return {"items": [_out(view) for view in selectors.view_list(user=user)]}


@router.post("", response={201: JobViewOut}, summary="Save a view")
def view_create(request: HttpRequest, body: JobViewIn) -> Status[Any]:
    """Filters, order and columns under a name, for oneself or a project."""
    user = person(request)
    project = _project(user, body.project)
    return Status(201, _out(services.view_create(user=user, name=body.name, query=body.query, project=project)))


@router.patch("/{view_id}", response=JobViewOut, summary="Change a view")
def view_update(request: HttpRequest, view_id: str, body: JobViewPatch) -> dict[str, Any]:
    """Its owner may; of a shared one the project's admins, too."""
    user = person(request)
    view = selectors.view_get(user=user, view_id=view_id)
    project = None if body.project is None else _project(user, body.project)
    with transaction.atomic():  # all of it, or nothing
        if body.name is not None or body.query is not None:
            services.view_update(user=user, view=view, name=body.name, query=body.query)
        if body.project is not None:
            services.view_share(user=user, view=view, project=project)
    return _out(view)


@router.delete("/{view_id}", response=Done, summary="Delete a view")
def view_delete(request: HttpRequest, view_id: str) -> Done:
    """The jobs stay; whose default it was has none."""
    user = person(request)
    services.view_delete(user=user, view=selectors.view_get(user=user, view_id=view_id))
    return Done()


@router.put("/{view_id}/default", response=Done, summary="Open the list with a view")
def view_default_set(request: HttpRequest, view_id: str) -> Done:
    """The caller's own list; it is nobody else's default by that."""
    user = person(request)
    services.view_default_set(user=user, view=selectors.view_get(user=user, view_id=view_id))
    return Done()


@router.delete("/{view_id}/default", response=Done, summary="Do not open the list with a view")
def view_default_clear(request: HttpRequest, view_id: str) -> Done:
    """Where the caller's list opens with it; else nothing happens."""
    user = person(request)
    services.view_default_clear(user=user, view=selectors.view_get(user=user, view_id=view_id))
    return Done()
