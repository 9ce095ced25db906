"""Read users, projects, memberships, tokens."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from harness.accounts.access import (
    project_refused,
    projects_made,
    projects_with_role,
    require,
    require_admin,
    require_write,
    token_of,
    visible_projects,
)
from harness.accounts.models import ApiToken, Identity, Membership, Project, Role, User
from harness.accounts.names import NAME_MAX, name_meant
from harness.accounts.second_factor import with_second_factor
from harness.accounts.services import TOKEN_PREFIX, token_digest
from harness.database import DATABASE_AWAY
from harness.errors import Conflict, Invalid, NotFound

_SLUGS_TOLD = 10
_LAST_USED_STEP = timedelta(minutes=1)
"""`last_used_at` is written at most this often, so that reading costs no write."""


def project_list(*, user: User) -> QuerySet[Project]:
    """Projects the person sees, by name, each with `members_count`."""
    return visible_projects(user).annotate(members_count=Count("memberships", distinct=True)).order_by("name", "pk")


def projects_seen(*, user: User) -> QuerySet[Project]:
    """Projects the person sees, by name."""
    return visible_projects(user).order_by("name", "pk")


def project_get(*, user: User, slug: str) -> Project:
    """One project by slug. Raises `NotFound`."""
    project = visible_projects(user).filter(slug=slug).first()
    if project is None:
        raise NotFound(f"There is no project {slug}.", hint="Check the list of your projects.")
    return project


def projects_writable(*, user: User) -> QuerySet[Project]:
    """Projects in which the person may add things, by name."""
    return projects_with_role(user, Role.MEMBER).order_by("name", "pk")


def project_default(*, user: User) -> Project | None:
    """The project used where none is named: the only one in which the person may add things, else the only one of these
    that they created. None: it must be named, since whoever is added to a project is not asked first."""
    writable = projects_writable(user=user)
    for rows in (writable, writable.filter(pk__in=projects_made(user))):
        if len(found := rows[:2]) == 1:
            return found[0]
    return None


def project_chosen(*, user: User, slug: str) -> Project:
    """The project of that slug, or the default one where none is named. Raises `NotFound`, `Forbidden`, `Invalid`."""
    if slug:
        return project_get(user=user, slug=slug)
    require_write(user)
    if (project := project_default(user=user)) is not None:
        return project
    if writable := list(projects_writable(user=user)):
        raise project_needed(writable)
    if seen := visible_projects(user).first():
        require(user, seen, Role.MEMBER)
    raise Invalid(
        "You are not in a project yet.",
        field="project",
        hint="Have a project's admin add you."
        if project_refused(user)
        else "Create one on the page Projects or with `dlh projects add NAME`; or have a project's admin add you.",
    )


def project_needed(projects: Iterable[Project]) -> Invalid:
    """The refusal where a project must be named, with those that may be."""
    slugs = sorted(project.slug for project in projects)
    more = f" and {len(slugs) - _SLUGS_TOLD:,} more" if len(slugs) > _SLUGS_TOLD else ""
    return Invalid(
        f"You can add to several projects: {', '.join(slugs[:_SLUGS_TOLD])}{more}.",
        field="project",
        hint="Name one of them: choose it on the page, put it first on the command line (`dlh --project SLUG ...`), or "
        "send it as `project`.",
    )


def membership_list(*, user: User, project: Project) -> QuerySet[Membership]:
    """Members of a project with their users. Raises `NotFound` for outsiders."""
    require(user, project, Role.VIEWER)
    return Membership.objects.filter(project=project).select_related("user").order_by("user__username")


def user_list(*, user: User) -> QuerySet[User]:
    """All users, for admins. Raises `Forbidden`."""
    require_admin(user)
    return _users().order_by("username")


def _users() -> QuerySet[User]:
    links = Identity.objects.filter(user=OuterRef("pk"), issuer=settings.OIDC.issuer if settings.OIDC else "")
    rows = User.objects.filter(deleted_at=None).annotate(
        token_used_at=Max("tokens__last_used_at"),
        has_identity=Exists(links),
        is_admin_by_link=Exists(links.filter(made_admin=True, user__is_superuser=True)),
    )
    return with_second_factor(rows)


def user_seen_at(user: User) -> datetime | None:
    """When a user of `user_list` or `user_get` last signed in or used a token."""
    moments = (user.last_login, getattr(user, "token_used_at", None))
    return max((moment for moment in moments if moment is not None), default=None)


def user_get(*, username: str, disabled: bool = False) -> User:
    """One active user by name as people sign in with it, with `disabled` also one who may not. Raises `NotFound`."""
    found = _users().filter(username=name_meant(username)).first()
    if found is None or not (found.is_active or disabled):
        raise NotFound(f"There is no user {username[:NAME_MAX]}.", field="username", hint="An admin adds users.")
    return found


def user_for_role(*, user: User, project: Project, username: str) -> User:
    """Whom this admin of the project means to give a role there. Raises `Forbidden`, `NotFound`; `Conflict` where the
    account is disabled."""
    require(user, project, Role.ADMIN)
    found = user_get(username=username, disabled=True)
    if found.is_active:
        return found
    if Membership.objects.filter(project=project, user=found).exists():
        told = f"The account of {found.username}, who is in the project, is disabled: their role stays as it is."
        hint = "An admin of the installation enables it again; meanwhile they can only be removed from the project."
    else:
        told = f"{found.username} cannot be added: their account is disabled."
        hint = "An admin of the installation enables it again."
    raise Conflict(told, field="username", hint=hint, code="account_disabled")


def token_list(*, user: User) -> QuerySet[ApiToken]:
    """The person's live tokens, newest first; asked with a token for one project, those for that project."""
    rows = ApiToken.objects.filter(user=user, revoked_at=None)
    held = token_of(user)
    if held and held.project_id:
        rows = rows.filter(project=held.project_id)
    return rows.select_related("project").order_by("-created_at")


def token_find(text: str) -> ApiToken | None:
    """The live token of that text, its user loaded and bound to it (`user.api_token`), or None.

    Found by its digest, so the comparison leaks nothing about other tokens.
    """
    if not text.startswith(TOKEN_PREFIX):
        return None
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user", "project")
        .filter(Q(expires_at=None) | Q(expires_at__gt=now), digest=token_digest(text), revoked_at=None)
        .filter(Q(project=None) | Q(project__deleted_at=None), user__is_active=True)
        .first()
    )
    if token is None:
        return None
    if token.last_used_at is None or now - token.last_used_at > _LAST_USED_STEP:
        with suppress(*DATABASE_AWAY):  # a locked or full disk is no reason to refuse a reader
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        token.last_used_at = now
    token.user.api_token = token  # type: ignore[attr-defined]
    return token
