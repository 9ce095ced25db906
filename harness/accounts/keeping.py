"""Rows that are held until a transaction ends, so that of two people at once the second sees what the first did.

On PostgreSQL all take them in one order, or they would wait for each other: admins of the installation by their key,
then the account, then memberships.
"""

from __future__ import annotations

from harness.accounts.models import Membership, Project, Role, User
from harness.errors import Conflict, NotFound


def admins_hold() -> set[int]:
    """Keys of those who run the installation; call it before `account_hold`."""
    rows = User.objects.select_for_update().filter(is_superuser=True, is_active=True).order_by("pk")
    return set(rows.values_list("pk", flat=True))


def operator_keep(user: User) -> None:
    """Raises `Conflict` where nobody else runs the installation; of two who leave at once the second is refused."""
    if admins_hold() == {user.pk}:
        raise Conflict("This is the last admin.", hint="Make someone else an admin first.")


def account_hold(user: User) -> None:
    """Have a deletion of the account wait. Raises `NotFound` where it was deleted since the row was read."""
    rows = User.objects.select_for_update(no_key=True).filter(pk=user.pk, deleted_at=None)
    if rows.values_list("pk").first() is None:
        raise NotFound("This account has been deleted.", hint="Nothing of it can be changed any more.")


def project_admin_keep(project: Project, user: User) -> None:
    """Raises `Conflict` where nobody else is an admin of the project."""
    admins = Membership.objects.select_for_update().filter(project=project, role=Role.ADMIN)
    holders = {membership.user_id for membership in admins}
    if holders == {user.pk}:
        raise Conflict(
            f"{user.username} is the last admin of {project.name}.", hint="Make someone else an admin first."
        )
