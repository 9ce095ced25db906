"""The end of a project: what goes with it, the trash, and back."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from harness.accounts.access import require
from harness.accounts.models import Role
from harness.accounts.selectors import project_get
from harness.errors import Conflict, Invalid, NotFound
from harness.jobs.project_trash import (
    ProjectHolds,
    name_to_type,
    project_any,
    project_delete,
    project_holds,
    project_purge,
    project_restore,
)
from harness.pages.forms import DeleteForm
from harness.pages.web import change, page, person, show, with_query
from worker.words import counted


@page("GET", "HEAD", "POST")
def project_end(request: HttpRequest, slug: str) -> HttpResponseBase:
    """What the project holds, and deleting it by typing its name."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    require(user, project, Role.ADMIN)
    form, problem = DeleteForm(request.POST or None), None
    if request.method == "POST" and form.is_valid():
        try:
            project_delete(user=user, project=project, name=form.cleaned_data["name"])
        except Invalid as error:
            form.add_error("name", error.message)
        except Conflict as error:
            problem = error
        else:
            messages.success(request, f"{project.name} is in the trash.", extra_tags="It can be restored below.")
            return redirect("project_list")
    holds = project_holds(user=user, project=project)
    context = {
        "project": project,
        "wanted": name_to_type(project),
        "holds": holds,
        "rows": _hold_rows(holds),
        "form": form,
        "problem": problem,
    }
    status = 200 if request.method != "POST" else problem.status if problem else Invalid.status
    return show(request, "projects/delete.html", context, nav="projects", status=status)


@page("POST")
def project_trash_act(request: HttpRequest, slug: str, action: str) -> HttpResponseBase:
    """Take a project out of the trash, or delete it for good."""
    user = person(request)
    project = project_any(user=user, slug=slug)
    acts = {
        "restore": (project_restore, f"{project.name} is restored. Its reservations ended when it was deleted."),
        "purge": (project_purge, f"{project.name} is being deleted for good."),
    }
    if action not in acts:
        raise NotFound("There is no such action.")
    (act, done), to = acts[action], with_query(request, reverse("project_list"))
    return change(request, lambda: act(user=user, project=project), done=done, to=to)


def _hold_rows(holds: ProjectHolds) -> list[tuple[str, int, int | None]]:
    """(Words, how many, bytes where there are some)."""
    use = holds.use
    run_bytes = use.checkpoint_bytes + use.result_bytes + use.other_bytes
    return [
        (f"Jobs, of them {counted(holds.drafts, 'draft')}", holds.jobs, run_bytes),
        ("Datasets and weights files", holds.datasets + holds.weights, use.dataset_bytes),
        ("Unfinished uploads", holds.uploads, use.upload_bytes),
        ("Memberships", holds.members, None),
        ("API tokens for this project", holds.tokens, None),
        ("Reservations", holds.reservations, None),
        ("Quotas", holds.quotas, None),
        ("Shared views", holds.saved_views, None),
        ("Notifications sent or waiting", holds.notifications, None),
    ]
