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
    trial_check(user)
    key = _key(user)
    cache.add(key, 0, timeout=60)
    with suppress(ValueError):  # it ended just now
        cache.incr(key)


def trial_check(user: User) -> None:
    """Raises `TooMany` where the next trial is to wait."""
    if cache.get(_key(user), 0) >= TRIALS_PER_MINUTE_MAX:
        raise TooMany(
            "Too many trial runs, or programs that were refused, in one minute.", hint="Wait a minute and try again."
        )


@contextmanager
def refusals_counted(user: User) -> Iterator[None]:
    """A program that is refused counts as a trial: reading it took about as long. Raises `TooMany`."""
    trial_check(user)
    try:
        yield
    except Invalid:
        trial_count(user)
        raise


def _key(user: User) -> str:
    return f"program-checks-{user.pk}"
