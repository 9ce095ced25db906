"""What an admin may do to a person's account: the buttons beside them, in the page's words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from django.conf import settings

from harness.accounts.models import User


@dataclass(frozen=True, kw_only=True)
class PersonAct:
    """One button: the action it posts, its words, and with the person's name in it what it asks first."""

    action: str
    words: str
    confirm: str = ""
    label: str = ""
    """What it is called: its words, by which people who speak to their machine call it, and whom it is about."""


_PASSWORD: Final = PersonAct(
    action="password",
    words="New password",
    confirm="{} is signed out, and the old password stops working.",
)
_SECOND_FACTOR: Final = PersonAct(
    action="second-factor",
    words="Remove second factor",
    confirm="{} will sign in with the password alone. Make sure they asked.",
)
_LINK: Final = PersonAct(
    action="allow-link",
    words="Allow link",
    confirm="For 7 days, whoever signs in at the provider with the verified e-mail address of {} takes this account.",
)
_UNLINK: Final = PersonAct(
    action="unlink",
    words="Remove link",
    confirm="{} is signed out and needs a password, or a new link, to sign in.",
)
_UNLINK_ADMIN: Final = replace(
    _UNLINK,
    confirm="{} is signed out, is no longer an admin, as the provider's group made them one, and needs a password, or "
    "a new link, to sign in.",
)
_NO_ADMIN: Final = PersonAct(
    action="no-admin",
    words="No longer admin",
    confirm="{} no longer administers the installation. Projects stay as they are.",
)
_ADMIN: Final = PersonAct(
    action="admin",
    words="Make admin",
    confirm="{} will see all projects and change people, pool and settings.",
)
_DISABLE: Final = PersonAct(
    action="disable",
    words="Disable",
    confirm="{} is signed out, and their tokens no longer work. Running jobs continue.",
)
_DELETE: Final = PersonAct(
    action="delete",
    words="Delete",
    confirm="The account of {} is deleted for good, with tokens, memberships and personal data. Datasets and jobs "
    "stay, shown as by a deleted person; running jobs continue. This cannot be undone.",
)
_ENABLE: Final = PersonAct(action="enable", words="Enable")


def person_acts(person: User, *, actor: User) -> list[PersonAct]:
    """What `actor`, an admin, may do to a person of `user_list`; nothing to themselves."""
    if person == actor:
        return []
    if not person.is_active:
        acts = [_ENABLE, _DELETE]
    else:
        second_factor = [_SECOND_FACTOR] if getattr(person, "has_second_factor", False) else []
        standing = _NO_ADMIN if person.is_superuser else _ADMIN
        acts = [_PASSWORD, *second_factor, *_link_act(person), standing, _DISABLE, _DELETE]
    return [_named(act, person.username) for act in acts]


def _link_act(person: User) -> list[PersonAct]:
    if settings.OIDC and getattr(person, "has_identity", False):
        return [_UNLINK_ADMIN if getattr(person, "is_admin_by_link", False) else _UNLINK]
    return [_LINK] if settings.OIDC and person.email else []


def _named(act: PersonAct, username: str) -> PersonAct:
    return PersonAct(
        action=act.action,
        words=act.words,
        confirm=act.confirm.format(username),
        label=f"{act.words}: {username}",
    )
