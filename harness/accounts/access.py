"""Who may do what: one rule for services, API and pages.

Outsiders get `NotFound`, never a hint that something exists; members with too low a role get `Forbidden`.
A token narrows what its person may do: by scope, and to one project if it names one.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q, QuerySet

from harness.accounts.models import ROLE_ORDER, ApiToken, AuditEvent, Membership, Project, Role, Scope, User
from harness.errors import Forbidden, NotFound
from worker.words import counted

_SCOPE_ROLE = {Scope.READ: Role.VIEWER, Scope.WRITE: Role.MEMBER, Scope.ADMIN: Role.ADMIN}


def token_of(user: User, token: ApiToken | None = None) -> ApiToken | None:
    """The token this request came with: the given one, or the one `token_find` bound to the user."""
    return token or getattr(user, "api_token", None)


def role_rank(role: str) -> int:
    """Order of roles: viewer 0, member 1, admin 2."""
    return ROLE_ORDER.index(Role(role))


def role_of(user: User, project: Project, token: ApiToken | None = None) -> Role | None:
    """The role in force, after the token's limits; None for an outsider, and for all in a project in the trash."""
    return None if project.deleted_at is not None else _role_held(user, project, token)


def _role_held(user: User, project: Project, token: ApiToken | None) -> Role | None:
    if not user.is_active:
        return None
    token = token_of(user, token)
    if token and token.project_id and token.project_id != project.pk:
        return None
    if user.is_superuser:
        role = Role.ADMIN
    else:
        held = Membership.objects.filter(project=project, user=user).values_list("role", flat=True).first()
        if held is None:
            return None
        role = Role(held)
    if token:
        ceiling = _SCOPE_ROLE[Scope(token.scope)]
        role = min(role, ceiling, key=role_rank)
    return role


def require(user: User, project: Project, role: Role, token: ApiToken | None = None, *, in_trash: bool = False) -> Role:
    """Return the person's role if it is at least `role`; with `in_trash` also in a project that lies there.

    Raises `NotFound` for outsiders, `Forbidden` below.
    """
    held = _role_held(user, project, token) if in_trash else role_of(user, project, token)
    if held is None:
        raise NotFound("Not found, or not visible to you.")
    if role_rank(held) < role_rank(role):
        raise Forbidden(
            f"This needs the role {role.value} in the project {project.name}; yours is {held.value}.",
            hint="Ask an admin of the project, or use a token with a wider scope.",
        )
    return held


def is_admin(user: User, token: ApiToken | None = None) -> bool:
    """Whether the person acts as an admin of the installation: one with a token for less does not."""
    token = token_of(user, token)
    narrowed = token is not None and (token.scope != Scope.ADMIN or token.project_id is not None)
    return user.is_active and user.is_superuser and not narrowed


def require_admin(user: User, token: ApiToken | None = None) -> None:
    """Pass for admins of the installation only. Raises `Forbidden`."""
    if not is_admin(user, token):
        narrowed = user.is_superuser and token_of(user, token) is not None
        hint = "Use a token with the scope admin and no project." if narrowed else "Ask one of them."
        raise Forbidden("This is for admins of the installation.", hint=hint)


def require_write(user: User, token: ApiToken | None = None) -> None:
    """Pass unless the request came with a token that may only read. Raises `Forbidden`."""
    token = token_of(user, token)
    if not user.is_active or (token and token.scope == Scope.READ):
        raise Forbidden("This token is read-only.", hint="Create a token with the scope write.")


def visible_projects(user: User, token: ApiToken | None = None) -> QuerySet[Project]:
    """Projects the person may see."""
    token = token_of(user, token)
    if not user.is_active:
        return Project.objects.none()
    where = Q() if user.is_superuser else Q(pk__in=Membership.objects.filter(user=user).values("project"))
    if token and token.project_id:
        where &= Q(pk=token.project_id)
    return Project.objects.filter(where, deleted_at=None)


def project_hold(project_id: str) -> None:
    """Have a deletion of the project wait until the transaction ends. Raises `NotFound` where it has been deleted."""
    rows = Project.objects.select_for_update(no_key=True).filter(pk=project_id, deleted_at=None)
    if rows.values_list("pk").first() is None:
        raise NotFound("This project has been deleted.", hint="An admin of it can restore it from the trash.")


def projects_with_role(user: User, role: Role, token: ApiToken | None = None) -> QuerySet[Project]:
    """Projects in which the person has at least this role, after the token's limits."""
    token = token_of(user, token)
    if token and role_rank(_SCOPE_ROLE[Scope(token.scope)]) < role_rank(role):
        return Project.objects.none()
    rows = visible_projects(user, token)
    if user.is_superuser:
        return rows
    enough = ROLE_ORDER[role_rank(role) :]
    return rows.filter(pk__in=Membership.objects.filter(user=user, role__in=enough).values("project"))


def projects_made(user: User) -> QuerySet[Project]:
    """Projects that the person has created, by the audit log: into any other, and as its admin, others bring them."""
    made = AuditEvent.objects.filter(actor=user, action="project_create", project__isnull=False)
    return Project.objects.filter(pk__in=made.values("project"))


def project_create_check(user: User) -> None:
    """Pass for whoever may create one more project. Raises `Forbidden`."""
    if user.is_superuser:
        return
    if settings.PROJECTS_MAX == 0:
        raise Forbidden(
            "Only admins of the installation create projects here.", hint="Ask one to create it, and to add you."
        )
    made = projects_made(user)
    if made.count() >= settings.PROJECTS_MAX:
        trashed = "; those in the trash count, too" if made.exclude(deleted_at=None).exists() else ""
        raise Forbidden(
            f"You have created {counted(settings.PROJECTS_MAX, 'project')}, which is the maximum per person{trashed}.",
            hint="Use one of them, or ask an admin of the installation to create it, and to add you.",
        )


def project_refused(user: User) -> Forbidden | None:
    """Why the person can create no further project; None: they can."""
    try:
        project_create_check(user)
    except Forbidden as problem:
        return problem
    return None
