"""Write users, projects, memberships, tokens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from harness.accounts.access import (
    is_admin,
    project_create_check,
    require,
    require_admin,
    require_write,
    token_of,
)
from harness.accounts.audit import audit_write
from harness.accounts.keeping import account_hold, operator_keep, project_admin_keep
from harness.accounts.models import ApiToken, Identity, Membership, Project, Role, Scope, User
from harness.accounts.names import name_check
from harness.accounts.sessions import sessions_end
from harness.accounts.slugs import slugs_free
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.moments import moment_words
from harness.names import name_read
from worker.words import counted

TOKEN_PREFIX = "dlh_"  # noqa: S105  (marks our tokens for secret scanners; no secret itself)
_SLUG_TRIES = 50


def user_create(
    *,
    actor: User | None,
    username: str,
    email: str = "",
    password: str = "",
    is_admin: bool = False,
    is_own: bool = False,
) -> tuple[User, str]:
    """Make a user. Without `password` one is made; the second value is it, else empty.

    They choose another when they sign in, unless `is_own`: nobody but they is told of it. `actor` is None only for the
    command line. Raises `Forbidden`, `Invalid`, `Conflict`.
    """
    if actor is not None:
        require_admin(actor)
    user = User(username=username.strip(), email=email.strip(), is_superuser=is_admin, is_staff=is_admin)
    user.must_change_password = not is_own
    made = "" if password else password_make()
    _password_set(user, password or made)
    try:
        user.full_clean(exclude=["password"], validate_unique=False)
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        hint = "Such as ada@example.org." if field == "email" else "Use letters, digits and @ . + - _."
        raise Invalid(messages[0], field=field, hint=hint) from error
    try:
        with transaction.atomic():
            name_check(user.username)
            user.save()
            audit_write(actor, "user_create", user.username, is_admin=is_admin)
    except IntegrityError as error:
        raise Conflict(f"The user {username} already exists.", field="username", hint="Choose another name.") from error
    return user, made


def user_update(  # noqa: PLR0913 - one parameter per thing that can be changed
    *,
    actor: User | None,
    user: User,
    password: str | None = None,
    is_admin: bool | None = None,
    is_active: bool | None = None,
    email: str | None = None,
    keep_session: str | None = None,
    is_own: bool = False,
    also: Callable[[], None] | None = None,
) -> User:
    """Change a user: people change their own password, admins everything. Raises `Forbidden`, `Invalid`, `Conflict`.

    A new password signs them out everywhere but in the session of key `keep_session`, and so does an end of their
    access: it comes back without the browsers of before. Their tokens stay. One that somebody else set they change when
    they sign in; with `is_own` nobody else is told of it. `also` is done in the same transaction, which begins once the
    password is hashed: that takes a second, and SQLite lets nobody else write meanwhile.
    """
    only_own_password = actor == user and is_admin is None and is_active is None and email is None
    if actor is not None and not (only_own_password and token_of(actor) is None):
        require_admin(actor)
    if password is not None:
        _password_renew(user, password, by_themselves=actor == user, is_own=is_own)
    if email is not None:
        _email_set(user, email)
    changes: dict[str, Any] = {
        "email": email, "is_admin": is_admin, "is_active": is_active, "password": password and "changed",
    }  # fmt: skip
    written = {
        "password": password, "must_change_password": password, "email": email,
        "is_superuser": is_admin, "is_staff": is_admin, "is_active": is_active,
        "link_allowed_until": email is not None or is_active is False or None,
    }  # fmt: skip
    with transaction.atomic():
        if is_admin is False or is_active is False:
            operator_keep(user)
        account_hold(user)
        _rights_set(user, is_admin, is_active)
        # Nothing else: the row may have changed since it was read, by an admin who takes a right away.
        user.save(update_fields=list(_given(written)))
        if is_admin is not None:  # by hand: no longer a matter of the provider's group
            Identity.objects.filter(user=user, made_admin=True).update(made_admin=False)
        if password is not None or is_active is False:
            sessions_end(user=user, but_key=keep_session)
        audit_write(actor, "user_update", user.username, **_given(changes))
        if also is not None:
            also()
    return user


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _rights_set(user: User, is_admin: bool | None, is_active: bool | None) -> None:
    """On the object; None: as it is."""
    if is_active is False:
        user.link_allowed_until = None
    if is_admin is not None:
        user.is_superuser = user.is_staff = is_admin
    if is_active is not None:
        user.is_active = is_active


def user_password_reset(*, actor: User | None, user: User, is_own: bool = False) -> str:
    """Give a user a new password and return it; their sessions end, their tokens stay. Raises `Forbidden`.

    `is_own`: as in `user_update`.
    """
    made = password_make()
    user_update(actor=actor, user=user, password=made, is_own=is_own)
    return made


def _password_renew(user: User, password: str, *, by_themselves: bool, is_own: bool) -> None:
    """On the object. Raises `Invalid`, also where a password that somebody else knows would only be set again."""
    if by_themselves and user.must_change_password and user.check_password(password):
        raise Invalid(
            "That is the password that somebody else set.", field="password", hint="Choose one that only you know."
        )
    _password_set(user, password)
    user.must_change_password = not (by_themselves or is_own)


def password_make() -> str:
    """One for somebody who will choose another."""
    return secrets.token_urlsafe(12)


def _password_set(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password", hint="Choose a longer, less common one.") from error
    user.set_password(password)


def _email_set(user: User, email: str) -> None:
    user.email, user.link_allowed_until = email.strip(), None  # the link was allowed for the address of before
    try:
        user.clean_fields(exclude=[field.name for field in User._meta.fields if field.name != "email"])
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="email", hint="Such as ada@example.org.") from error


def project_create(*, user: User, name: str) -> Project:
    """Create a project; the person becomes its admin. Raises `Invalid`, `Forbidden`."""
    require_write(user)
    token = token_of(user)
    if token and token.project_id:
        raise Forbidden("This token is for one project only.", hint="Use a token without a project.")
    name = name_read(name, of="A project", letters_max=120)
    for slug in islice(slugs_free(name), _SLUG_TRIES):
        try:
            with transaction.atomic():
                account_hold(user)  # of two at once the second counts the first
                project_create_check(user)
                project = Project.objects.create(name=name, slug=slug)
                Membership.objects.create(project=project, user=user, role=Role.ADMIN)
                audit_write(user, "project_create", slug, project=project)
            return project
        except IntegrityError:  # somebody took it at this moment
            continue
    raise Conflict("Others create projects of this name right now.", field="name", hint="Try again.")


def membership_set(*, actor: User, project: Project, user: User, role: Role | str) -> Membership:
    """Give a person a role in a project. Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict`."""
    require(actor, project, Role.ADMIN)
    if role not in Role.values:
        raise Invalid(f"There is no role {role!r}.", field="role", hint=f"Use one of: {', '.join(Role.values)}.")
    with transaction.atomic():
        account_hold(user)
        if role != Role.ADMIN:
            project_admin_keep(project, user)
        membership, _ = Membership.objects.update_or_create(project=project, user=user, defaults={"role": Role(role)})
        audit_write(actor, "membership_set", user.username, project=project, role=str(Role(role).value))
    return membership


def membership_remove(*, actor: User, project: Project, user: User) -> None:
    """Take a person out of a project; everyone may leave. Raises `NotFound`, `Forbidden`, `Conflict`."""
    require(actor, project, Role.VIEWER if actor == user else Role.ADMIN)
    require_write(actor)
    with transaction.atomic():
        project_admin_keep(project, user)
        removed, _ = Membership.objects.filter(project=project, user=user).delete()
        if removed:
            audit_write(actor, "membership_remove", user.username, project=project)
    if not removed:
        raise NotFound(f"{user.username} is not a member of {project.name}.")


def token_create(
    *,
    user: User,
    name: str,
    scope: Scope | str = Scope.WRITE,
    project: Project | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token; the second value is its text, shown once and stored nowhere.

    Raises `Invalid`, `Forbidden` (a token makes no token wider than itself), `NotFound`.
    """
    if scope not in Scope.values:
        raise Invalid(f"There is no scope {scope!r}.", field="scope", hint=f"Use one of: {', '.join(Scope.values)}.")
    name = name_read(name, of="A token", letters_max=80, hint="Say what it is for.")
    if expires_at and expires_at <= timezone.now():
        raise Invalid("The token would already have expired.", field="expires_at", hint="Give a date in the future.")
    if held := token_of(user):
        _no_wider(held, scope, project, expires_at)
    if project is not None:
        require(user, project, Role.VIEWER)
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        account_hold(user)
        token = ApiToken.objects.create(
            user=user,
            name=name,
            prefix=text[:12],
            digest=token_digest(text),
            scope=scope,
            project=project,
            expires_at=expires_at,
        )
        audit_write(user, "token_create", token.prefix, project=project, name=token.name, scope=str(Scope(scope).value))
    return token, text


def _no_wider(held: ApiToken, scope: Scope | str, project: Project | None, expires_at: datetime | None) -> None:
    """Pass for a token that is worth no more than the one it is made with. Raises `Forbidden`."""
    order = list(Scope.values)
    if order.index(scope) > order.index(held.scope) or held.scope == Scope.READ:
        raise Forbidden("A token cannot create a token with a wider scope.", hint="Sign in to create this token.")
    if held.project_id and (project is None or project.pk != held.project_id):
        raise Forbidden("This token is for one project only.", hint="Sign in to create this token.")
    if held.expires_at and (expires_at is None or expires_at > held.expires_at):
        days = (held.expires_at - timezone.now()).days
        most = f", {counted(days, 'day')} from now at most" if days else ""
        raise Forbidden(
            f"This token expires at {moment_words(held.expires_at)} and cannot create one valid for longer.",
            hint=f"Give an earlier date{most}, or sign in to create this token.",
        )


def token_digest(text: str) -> str:
    """What is stored of a token: SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def token_revoke(*, user: User, token_id: str) -> None:
    """End a token of the person's own (admins: of anybody). Raises `NotFound`, `Forbidden`."""
    require_write(user)
    tokens = ApiToken.objects.filter(pk=token_id, revoked_at=None)
    if not is_admin(user):
        tokens = tokens.filter(user=user)
    held = token_of(user)
    if held and held.project_id:
        tokens = tokens.filter(project=held.project_id)
    with transaction.atomic():
        token = tokens.select_related("user", "project").first()
        if token is None or not tokens.update(revoked_at=timezone.now()):
            raise NotFound("There is no such token.", hint="Your account page and `dlh tokens` show yours.")
        audit_write(user, "token_revoke", token.prefix, project=token.project, owner=token.user.username)
