"""Routes: the caller, tokens, projects, members, users."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from harness.accounts import selectors, services
from harness.accounts.access import is_admin, require, require_admin, role_of, token_of
from harness.accounts.audit import AuditFilters, audit_list
from harness.accounts.leaving import user_delete
from harness.accounts.models import ApiToken, AuditEvent, Membership, Project, Role, Scope, User
from harness.accounts.names import name_meant
from harness.accounts.second_factor import second_factor_remove
from harness.api.auth import person
from harness.api.paging import Paging, page_body
from harness.api.schemas.accounts import (
    AuditOut,
    AuditQuery,
    MemberOut,
    MeOut,
    ProjectHoldsOut,
    ProjectIn,
    ProjectOut,
    RoleIn,
    TokenIn,
    TokenMade,
    TokenOut,
    UserGone,
    UserIn,
    UserMade,
    UserOut,
    UserPatch,
)
from harness.api.schemas.base import Done, Items, PageOf
from harness.jobs.project_trash import (
    project_any,
    project_delete,
    project_holds,
    project_purge,
    project_restore,
    projects_trashed,
)
from harness.paging import page_of

router = Router()


def _project_out(user: User, project: Project) -> ProjectOut:
    count = getattr(project, "members_count", None)
    return ProjectOut(
        slug=project.slug,
        name=project.name,
        role=role_of(user, project),
        members_count=project.memberships.count() if count is None else count,
        created_at=project.created_at,
        deleted_at=project.deleted_at,
    )


def _token_out(token: ApiToken) -> dict[str, object]:
    names = ("id", "name", "prefix", "scope", "created_at", "expires_at", "last_used_at")
    return {**{name: getattr(token, name) for name in names}, "project": token.project.slug if token.project else None}


def _member_out(membership: Membership) -> MemberOut:
    return MemberOut(username=membership.user.username, role=Role(membership.role), created_at=membership.created_at)


def _user_out(user: User) -> dict[str, object]:
    seen_at = selectors.user_seen_at(user)
    names = ("username", "email", "is_active", "must_change_password")
    told = {"is_admin": user.is_superuser, "last_seen_at": seen_at}
    # one just made has none of these
    has = {name: getattr(user, name, False) for name in ("has_second_factor", "has_identity")}
    return {**{name: getattr(user, name) for name in names}, **told, **has}


@router.get("/me", response=MeOut, summary="Who am I")
def me(request: HttpRequest) -> MeOut:
    """The caller, the limits of the token, and the projects that are visible."""
    user = person(request)
    token, default = token_of(user), selectors.project_default(user=user)
    return MeOut(
        username=user.username,
        email=user.email,
        is_admin=is_admin(user),
        scope=Scope(token.scope) if token else None,
        project=token.project.slug if token and token.project else None,
        projects=[_project_out(user, project) for project in selectors.project_list(user=user)],
        default_project=default.slug if default else None,
    )


@router.get("/tokens", response=Items[TokenOut], summary="My tokens")
def token_list(request: HttpRequest) -> dict[str, object]:
    """The caller's live tokens, newest first."""
    return {"items": [_token_out(token) for token in selectors.token_list(user=person(request))]}


@router.post("/tokens", response={201: TokenMade}, summary="Make a token")
def token_create(request: HttpRequest, body: TokenIn) -> Status[Any]:
    """Make a token of the caller. A token makes no token wider than itself."""
    user = person(request)
    project = selectors.project_get(user=user, slug=body.project) if body.project else None
    token, text = services.token_create(
        user=user, name=body.name, scope=body.scope, project=project, expires_at=body.expires_at
    )
    return Status(201, {**_token_out(token), "token": text})


@router.delete("/tokens/{token_id}", response=Done, summary="Revoke a token")
def token_revoke(request: HttpRequest, token_id: str) -> Done:
    """End a token at once."""
    services.token_revoke(user=person(request), token_id=token_id)
    return Done()


@router.get("/projects", response=Items[ProjectOut], summary="My projects")
def project_list(request: HttpRequest, deleted: bool = False) -> dict[str, object]:
    """Projects that the caller sees, by name; with `deleted` those in the trash that the caller may restore."""
    user = person(request)
    rows = projects_trashed(user=user) if deleted else selectors.project_list(user=user)
    return {"items": [_project_out(user, project) for project in rows]}


@router.post("/projects", response={201: ProjectOut}, summary="Create a project")
def project_create(request: HttpRequest, body: ProjectIn) -> Status[Any]:
    """Create a project; the caller becomes its admin."""
    user = person(request)
    return Status(201, _project_out(user, services.project_create(user=user, name=body.name)))


@router.get("/projects/{slug}/holds", response=ProjectHoldsOut, summary="What a project holds")
def project_holds_get(request: HttpRequest, slug: str) -> dict[str, object]:
    """What goes with it if it is deleted, in numbers and bytes; for the project's admins."""
    user = person(request)
    holds = project_holds(user=user, project=project_any(user=user, slug=slug))
    told = {"used_bytes": holds.use.used_bytes, "jobs_active": [job.pk for job in holds.in_the_way]}
    return {**vars(holds), **told}


@router.delete("/projects/{slug}", response=Done, summary="Delete a project")
def project_end(request: HttpRequest, slug: str, name: str = "") -> Done:
    """Move it to the trash with all that is in it, from where it can be restored for two weeks; for its admins.

    `name` is that of the project, as a person types it. Refused (`jobs_active`) while jobs wait, run or return results.
    """
    user = person(request)
    project_delete(user=user, project=project_any(user=user, slug=slug), name=name)
    return Done()


@router.post("/projects/{slug}/restore", response=ProjectOut, summary="Restore a project")
def project_back(request: HttpRequest, slug: str) -> ProjectOut:
    """Take it out of the trash with all that is in it, but its reservations; for its admins."""
    user = person(request)
    project = project_any(user=user, slug=slug)
    project_restore(user=user, project=project)
    return _project_out(user, project)


@router.post("/projects/{slug}/purge", response=Done, summary="Delete a project for good")
def project_end_for_good(request: HttpRequest, slug: str) -> Done:
    """Delete one in the trash now, with all its jobs, datasets and weights; this cannot be undone. For its admins."""
    user = person(request)
    project_purge(user=user, project=project_any(user=user, slug=slug))
    return Done()


@router.get("/projects/{slug}/members", response=Items[MemberOut], summary="Members of a project")
def member_list(request: HttpRequest, slug: str) -> dict[str, object]:
    """Members and their roles, by user name."""
    user = person(request)
    project = selectors.project_get(user=user, slug=slug)
    return {"items": [_member_out(row) for row in selectors.membership_list(user=user, project=project)]}


@router.put("/projects/{slug}/members/{username}", response=MemberOut, summary="Give a role")
def member_set(request: HttpRequest, slug: str, username: str, body: RoleIn) -> MemberOut:
    """Add a person to the project or change their role; for the project's admins. Refused (`account_disabled`) while
    their account is disabled."""
    user = person(request)
    project = selectors.project_get(user=user, slug=slug)
    member = selectors.user_for_role(user=user, project=project, username=username)
    return _member_out(services.membership_set(actor=user, project=project, user=member, role=body.role))


@router.delete("/projects/{slug}/members/{username}", response=Done, summary="Remove a member")
def member_remove(request: HttpRequest, slug: str, username: str) -> Done:
    """Take a person out of the project; everyone may leave, admins may remove others."""
    user = person(request)
    project = selectors.project_get(user=user, slug=slug)
    if name_meant(username) != user.username:
        require(user, project, Role.ADMIN)
    member = selectors.user_get(username=username, disabled=True)
    services.membership_remove(actor=user, project=project, user=member)
    return Done()


def _audit_out(event: AuditEvent) -> AuditOut:
    return AuditOut(
        at=event.at,
        actor=event.actor.username if event.actor else None,
        token=event.token,
        action=event.action,
        target=event.target,
        project=event.project.slug if event.project else None,
        data=event.data,
    )


@router.get("/projects/{slug}/audit", response=PageOf[AuditOut], summary="Changes of rights in a project")
def project_audit(request: HttpRequest, slug: str, paging: Query[Paging]) -> dict[str, Any]:
    """Who gave or took which role or token, newest first; for the project's admins."""
    user = person(request)
    rows = audit_list(user=user, project=selectors.project_get(user=user, slug=slug))
    return page_body(page_of(rows, page=paging.page, page_size=paging.page_size), _audit_out)


@router.get("/audit", response=PageOf[AuditOut], summary="Changes of rights and of the pool")
def audit(request: HttpRequest, query: Query[AuditQuery], paging: Query[Paging]) -> dict[str, Any]:
    """Changes of people, rights, tokens and the pool, newest first; for admins of the installation."""
    rows = audit_list(user=person(request), filters=AuditFilters(**query.model_dump()))
    return page_body(page_of(rows, page=paging.page, page_size=paging.page_size), _audit_out)


@router.get("/users", response=Items[UserOut], summary="All users")
def user_list(request: HttpRequest) -> dict[str, object]:
    """Every account; for admins of the installation."""
    return {"items": [_user_out(user) for user in selectors.user_list(user=person(request))]}


@router.post("/users", response={201: UserMade}, summary="Make a user")
def user_create(request: HttpRequest, body: UserIn) -> Status[Any]:
    """Make an account; for admins of the installation."""
    user, password = services.user_create(
        actor=person(request),
        username=body.username,
        email=body.email,
        password=body.password,
        is_admin=body.is_admin,
    )
    return Status(201, {**_user_out(user), "password": password})


@router.patch("/users/{username}", response=UserMade, summary="Change a user")
def user_update(request: HttpRequest, username: str, body: UserPatch) -> dict[str, object]:
    """Let a person in or no longer, make them an admin or not, change their e-mail address or password, remove their
    second factor; for admins."""
    actor = person(request)
    require_admin(actor)
    user = selectors.user_get(username=username, disabled=True)
    changes = body.model_dump(exclude={"new_password", "remove_second_factor"}, exclude_none=True)
    password = services.password_make() if body.new_password else ""
    if password:
        changes["password"] = password
    remove = partial(second_factor_remove, actor=actor, user=user) if body.remove_second_factor else None
    if changes:  # all of it, or where something is refused nothing
        services.user_update(actor=actor, user=user, **changes, also=remove)
    elif remove is not None:
        remove()
    if remove is not None:
        user = selectors.user_get(username=username, disabled=True)
    return {**_user_out(user), "password": password}


@router.delete("/users/{username}", response=UserGone, summary="Delete a user")
def user_end(request: HttpRequest, username: str) -> UserGone:
    """Delete an account for good: sign-in, tokens, memberships and personal data; for admins of the installation.

    Datasets and jobs stay in their projects under the name that is answered, and jobs that run go on. Refused for the
    last admin of the installation, and of a project with other members (`last_admin`). One's own account is deleted on
    the page Account.
    """
    actor = person(request)
    require_admin(actor)
    user = selectors.user_get(username=username, disabled=True)
    return UserGone(shown_as=user_delete(actor=actor, user=user))
