"""Delete accounts: the row stays for the datasets and jobs that name it, without anything of the person."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.keeping import admins_hold, operator_keep
from harness.accounts.models import (
    ApiToken,
    AuditEvent,
    Identity,
    Membership,
    RecoveryCode,
    Role,
    SignInFailure,
    User,
)
from harness.accounts.names import gone_name
from harness.accounts.sessions import sessions_end
from harness.errors import Conflict, Forbidden
from harness.hooks import Question

FORGET: Question[[User, str], None] = Question()
"""Remove what tells of this person, and write this name where theirs is written down; in the transaction."""
_ABOUT_PEOPLE = (
    Q(action__startswith="user_")
    | Q(action__startswith="identity_")
    | Q(action__startswith="membership_")
    | Q(action__startswith="second_factor_")
    | Q(action__startswith="recovery_code")
)
"""Lines of the audit log whose target is a person."""


def user_delete(*, actor: User | None, user: User, is_proven: bool = False) -> str:
    """Delete an account for good; the answer is the name under which what it made stays. Again: does nothing.

    Sign-in, tokens, memberships and personal data go; datasets and jobs stay where they are, and jobs that run go on.
    `actor` is an admin, None for the command line, or the person, who has shown who they are (`is_proven`). Raises
    `Forbidden`, `Conflict` (the last admin of the installation, or of a project with other members).
    """
    if actor == user and not is_proven:
        raise Forbidden("Your own account is deleted with your password.", hint="Use Account → Delete account.")
    if actor is not None and actor != user:
        require_admin(actor)
    with transaction.atomic():
        admins_hold()  # before the row, also of somebody who is none: see `keeping`
        row = User.objects.select_for_update().get(pk=user.pk)
        if row.deleted_at is not None:
            return row.username
        _keep(row)
        name = gone_name(row.pk)
        FORGET.ask(row, name)
        _access_end(row)
        _audit_forget(row, name)
        _row_empty(row, name)
        audit_write(row if actor == user else actor, "user_delete", name)
    return name


def leaving_problem(user: User) -> Conflict | None:
    """Why the account could not be deleted now, to be told before anybody proves who they are; None: it could."""
    try:
        with transaction.atomic():
            _keep(user)
    except Conflict as error:
        return error
    return None


def _keep(user: User) -> None:
    """Raises `Conflict` where the installation or a project with other members would be left without an admin."""
    if user.is_superuser and user.is_active:
        operator_keep(user)
    _projects_keep(user)


def _projects_keep(user: User) -> None:
    """Raises `Conflict` where members would be left without an admin of their project."""
    own = Membership.objects.filter(user=user, role=Role.ADMIN, project__deleted_at=None).values("project")
    rows = Membership.objects.select_for_update(of=("self",)).filter(project__in=own).select_related("project")
    others: dict[str, list[str]] = {}
    for row in rows.order_by("pk"):
        if row.user_id != user.pk:
            others.setdefault(row.project.name, []).append(row.role)
    left = sorted(name for name, roles in others.items() if Role.ADMIN not in roles)
    if left:
        raise Conflict(
            f"{user.username} is the last admin of {', '.join(left)}, where others are members.",
            code="last_admin",
            hint="Make another member an admin there first, or delete the project.",
        )


def _access_end(user: User) -> None:
    sessions_end(user=user)
    for model in (ApiToken, Identity, RecoveryCode, TOTPDevice, Membership):
        model.objects.filter(user=user).delete()
    SignInFailure.objects.filter(name=user.username.lower()).delete()


def _audit_forget(user: User, name: str) -> None:
    """Lines stay, and what they tell of the person's name, address and tokens goes."""
    about = AuditEvent.objects.filter(_ABOUT_PEOPLE, target=user.username)
    for event in about.filter(data__has_key="email"):
        event.data["email"] = "changed"
        event.save(update_fields=["data"])
    about.update(target=name)
    for event in AuditEvent.objects.filter(actor=user, action="token_create"):
        event.data.pop("name", None)
        event.save(update_fields=["data"])
    for event in AuditEvent.objects.filter(action="token_revoke", data__owner=user.username):
        event.data["owner"] = name
        event.save(update_fields=["data"])


def _row_empty(user: User, name: str) -> None:
    user.username, user.email, user.first_name, user.last_name = name, "", "", ""
    user.time_zone = user.browser_time_zone = ""
    user.is_active = user.is_superuser = user.is_staff = user.must_change_password = False
    user.last_login = user.link_allowed_until = None
    user.deleted_at = timezone.now()
    user.set_unusable_password()
    user.save()
