"""User names as people write them: two that differ in case alone are taken as one person's."""

from __future__ import annotations

from itertools import count

from harness.accounts.models import User
from harness.errors import Conflict

GONE_PREFIX = "deleted-person-"
"""So begins the name under which stays what a person made whose account was deleted."""


NAME_MAX = 150
"""Letters of a user name."""


def names_alike(name: str) -> list[str]:
    """Names of users that are `name` but for their case: several only where they are older than this rule."""
    if len(name) > NAME_MAX:  # a database refuses to look for some ten thousand letters
        return []
    rows = User.objects.values_list("username", flat=True)
    if name.isascii():  # of other letters SQLite does not know the case
        rows = rows.filter(username__iexact=name)
    return [found for found in rows if found.lower() == name.lower()]


def name_meant(name: str) -> str:
    """The name of the user who is meant: the one written so, else the only one that is alike; else `name` itself."""
    alike = names_alike(name)
    return alike[0] if len(alike) == 1 else name


def gone_name(number: int) -> str:
    """The name that a deleted account of this number gets, or the next that is free: somebody may have chosen it
    before such names were refused."""
    return next(name for one in count(number) if not names_alike(name := f"{GONE_PREFIX}{one}"))


def name_check(name: str) -> None:
    """Pass unless a new name differs from somebody's in case alone, or is that of a deleted account. Raises
    `Conflict`."""
    if name.lower().startswith(GONE_PREFIX):
        raise Conflict(
            f"Names that begin with {GONE_PREFIX} stand for deleted accounts.",
            field="username",
            hint="Choose another name.",
        )
    alike = [other for other in names_alike(name) if other != name]
    if alike:
        raise Conflict(
            f"The user {alike[0]} already exists, whose name differs from {name} in upper and lower case only.",
            field="username",
            hint="Choose another name.",
        )
