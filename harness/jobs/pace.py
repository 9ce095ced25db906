"""How often one person may have programs tried, counted by each portal process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.core.cache import cache

from harness.accounts.models import User
from harness.errors import Invalid, TooMany

TRIALS_PER_MINUTE_MAX = 20


def trial_count(user: User) -> None:
    """Count a trial. Raises `TooMany` where there were too many in this minute."""
    _check(_trials(user), "Too many trial runs in one minute.")
    _count(_trials(user))


@contextmanager
def refusals_counted(user: User) -> Iterator[None]:
    """Read a program that may be refused, as often as trials: reading takes about as long. Raises `TooMany`."""
    _check(_refusals(user), "Too many programs that cannot run in one minute.")
    try:
        yield
    except Invalid:
        _count(_refusals(user))
        raise


def _check(key: str, message: str) -> None:
    if cache.get(key, 0) >= TRIALS_PER_MINUTE_MAX:
        raise TooMany(message, hint="Wait a minute and try again.")


def _count(key: str) -> None:
    cache.add(key, 0, timeout=60)
    with suppress(ValueError):  # it ended just now
        cache.incr(key)


def _trials(user: User) -> str:
    return f"program-checks-{user.pk}"


def _refusals(user: User) -> str:
    return f"program-refusals-{user.pk}"
