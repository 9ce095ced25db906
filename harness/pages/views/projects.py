"""Projects and their members."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from harness.accounts.access import project_refused, require, require_admin
from harness.accounts.identities import identity_allow, identity_unlink
from harness.accounts.leaving import user_delete
from harness.accounts.models import Project, Role, User
from harness.accounts.names import name_meant
from harness.accounts.second_factor import second_factor_remove
from harness.accounts.selectors import membership_list, project_get, project_list, user_for_role, user_get, user_list
from harness.accounts.services import (
    membership_remove,
    membership_set,
    project_create,
    user_create,
    user_password_reset,
    user_update,
)
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.project_trash import projects_trashed
from harness.pages.forms import MemberForm, ProjectForm, UserForm
from harness.pages.person_acts import person_acts
from harness.pages.web import can, change, form_page, page, page_number, person, show, with_query
from harness.paging import search_check
from harness.storage.use import storage_of

PAGE_SIZE = 25


@page("GET", "HEAD")
def projects(request: HttpRequest) -> HttpResponseBase:
    """All projects the person sees; for an admin of the installation also all people."""
    return _projects(request, UserForm())


def _projects(
    request: HttpRequest,
    user_form: UserForm,
    *,
    project_form: ProjectForm | None = None,
    made: User | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponseBase:
    user, words = person(request), _words(request)
    found = project_list(user=user).filter(Q(name__icontains=words) | Q(slug__icontains=words))
    shown = Paginator(found, PAGE_SIZE).get_page(page_number(request))
    people = _people(request, words) if user.is_superuser else None
    context = {
        "projects": shown,
        "q": words,
        "is_large": bool(words) or any(rows.paginator.num_pages > 1 for rows in (shown, people) if rows is not None),
        "form": project_form or ProjectForm(),
        "no_more": project_refused(user),
        "people": people,
        "people_acts": [(someone, person_acts(someone, actor=user)) for someone in people or ()],
        "trashed": Paginator(projects_trashed(user=user), PAGE_SIZE).get_page(page_number(request, "trash")),
        "user_form": user_form,
        "made": made,
        "secret": secret,
    }
    response = show(request, "projects/list.html", context, nav="projects", status=status)
    response["Cache-Control"] = "no-store"
    return response


def _words(request: HttpRequest) -> str:
    """What the address looks for in a list. Raises `Invalid`."""
    return search_check(request.GET.get("q", "").strip(), "q")


def _people(request: HttpRequest, words: str) -> Page[User]:
    """One page of the people whose name or e-mail holds these words."""
    found = user_list(user=person(request)).filter(Q(username__icontains=words) | Q(email__icontains=words))
    return Paginator(found, PAGE_SIZE).get_page(page_number(request, "people"))


@form_page("project_list")
def user_add(request: HttpRequest) -> HttpResponseBase:
    """Make a person; their password is in this answer and nowhere else."""
    user = person(request)
    require_admin(user)
    form = UserForm(request.POST)
    if not form.is_valid():
        return _projects(request, form, status=422)
    wish = form.cleaned_data
    try:
        made, secret = user_create(
            actor=user, username=wish["username"], email=wish["email"], is_admin=wish["is_admin"]
        )
    except (Invalid, Conflict) as error:
        form.add_error("username", f"{error.message} {error.hint}")
        return _projects(request, form, status=error.status)
    return _projects(request, UserForm(), made=made, secret=secret)


class _Standing(TypedDict, total=False):
    is_active: bool
    is_admin: bool


_STANDINGS: dict[str, tuple[_Standing, str]] = {
    "disable": ({"is_active": False}, "{} can no longer sign in, and their tokens no longer work."),
    "enable": ({"is_active": True}, "{} can sign in again."),
    "admin": ({"is_admin": True}, "{} is an admin of the installation."),
    "no-admin": ({"is_admin": False}, "{} is no longer an admin of the installation."),
}


@form_page("project_list")
def user_act(request: HttpRequest, username: str, action: str) -> HttpResponseBase:
    """End a person's access, give it back, make them an admin or no longer, remove their second factor, delete
    their account, allow or end a link to the identity provider, or give them a new password, shown in this answer and
    nowhere else."""
    actor = person(request)
    require_admin(actor)
    user, to = user_get(username=username, disabled=True), with_query(request, reverse("project_list"))
    if action == "password":
        secret = user_password_reset(actor=actor, user=user)
        return _projects(request, UserForm(), made=user, secret=secret)
    if action == "second-factor":
        done = f"{username} now signs in with the password alone."
        remove = partial(second_factor_remove, actor=actor, user=user)
        return change(request, remove, done=done, to=to)
    if action == "delete":
        done = f"The account of {username} is deleted. What they made is shown as by a deleted person."
        return change(request, partial(user_delete, actor=actor, user=user), done=done, to=to)
    if action == "unlink" and settings.OIDC:
        unlink = partial(identity_unlink, actor=actor, user=user, oidc=settings.OIDC)
        lost = ", and no longer an admin of the installation" if getattr(user, "is_admin_by_link", False) else ""
        return change(request, unlink, done=f"{username} is no longer linked{lost}.", to=to)
    if action == "allow-link" and settings.OIDC:
        done = f"{username} is linked when they next sign in at the identity provider, within 7 days."
        return change(request, partial(identity_allow, actor=actor, user=user), done=done, to=to)
    if action not in _STANDINGS:
        raise NotFound("There is no such action.")
    standing, done = _STANDINGS[action]
    return change(
        request,
        lambda: user_update(actor=actor, user=user, **standing),
        done=done.format(username),
        to=to,
    )


@form_page("project_list")
def project_add(request: HttpRequest) -> HttpResponseBase:
    """Create a project; the person becomes its admin. A name that is refused can be corrected."""
    form = ProjectForm(request.POST)
    try:
        project = project_create(user=person(request), name=request.POST.get("name", ""))
    except Forbidden as problem:
        messages.error(request, problem.message, extra_tags=problem.hint)
        return redirect("project_list")
    except Invalid as problem:
        if form.is_valid():
            form.add_error("name", f"{problem.message} {problem.hint}")
        return _projects(request, UserForm(), project_form=form, status=problem.status)
    return redirect("project_page", slug=project.slug)


@page("GET", "HEAD")
def project_page(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Members, roles and what each role may do."""
    return _project_page(request, project_get(user=person(request), slug=slug), MemberForm())


def _project_page(request: HttpRequest, project: Project, form: MemberForm, *, status: int = 200) -> HttpResponseBase:
    user, words = person(request), _words(request)
    found = membership_list(user=user, project=project).filter(user__username__icontains=words)
    members = Paginator(found, PAGE_SIZE).get_page(page_number(request))
    context = {
        "project": project,
        "members": members,
        "q": words,
        "is_large": bool(words) or members.paginator.num_pages > 1,
        "roles": Role.choices,
        "is_admin": can(user, project, Role.ADMIN),
        "form": form,
        "storage": storage_of(project),
    }
    return show(request, "projects/page.html", context, nav="projects", status=status)


@form_page("project_page", project_get)
def member_set(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Give a person a role. A name that nobody has can be corrected."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    name, role = request.POST.get("username", "").strip(), request.POST.get("role", "")
    try:
        member = user_for_role(user=user, project=project, username=name)
    except (NotFound, Conflict) as error:
        return _no_member(request, project, error)
    return change(
        request,
        lambda: membership_set(actor=user, project=project, user=member, role=role),
        done=f"{member.username} now has the role {role}.",
        to=with_query(request, reverse("project_page", args=[slug])),
    )


def _no_member(request: HttpRequest, project: Project, error: NotFound | Conflict) -> HttpResponseBase:
    """Why nobody of this name gets a role: in the card for new members, or above the list for a row."""
    if isinstance(error, Conflict) and "add" not in request.POST:
        messages.error(request, error.message, extra_tags=error.hint)
        return redirect(with_query(request, reverse("project_page", args=[project.slug])))
    form = MemberForm(request.POST)
    if not form.has_error("username"):  # an empty name has its own
        form.add_error("username", f"{error.message} {error.hint}")
    return _project_page(request, project, form, status=422)


@page("POST")
def member_remove(request: HttpRequest, slug: str, username: str) -> HttpResponseBase:
    """Take a person out of the project."""
    user = person(request)
    project = project_get(user=user, slug=slug)
    here = with_query(request, reverse("project_page", args=[slug]))
    leaves = name_meant(username) == user.username
    if not leaves:
        require(user, project, Role.ADMIN)  # before a name is looked up: who exists is not for everybody
    return change(
        request,
        lambda: membership_remove(actor=user, project=project, user=user_get(username=username, disabled=True)),
        done=f"{username} is no longer in {project.name}.",
        to=reverse("project_list") if leaves else here,
        failed_to=here,
    )
