"""Which fetch comes next, who is at it, and what became of it. Every change is a compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.models import User
from harness.database import DATABASE_AWAY
from harness.fetches.models import Fetch, FetchState
from harness.fetches.trouble import FetchTrouble
from harness.lease_renewer import LeaseRenewer

STALE = timedelta(seconds=90)
"""Longer than any wait between two beats: its process was killed."""
PER_PERSON = 2
TRY_AFTER_S = (2, 10, 30, 120, 600)
"""After the first try in a row that brought next to nothing, the second, ...; then it has failed."""
LITTLE_BYTES = 1 << 20
"""A try that brought more counts as none."""
_LOOKED_AT = 500
HOLD_EVERY_S = 20.0
HOLDS_MAX = 360
"""Two hours: who hashes one file for longer hangs."""
_log = logging.getLogger(__name__)


class Lost(Exception):
    """It was given up, or another process has taken it."""


def due() -> QuerySet[Fetch]:
    """What may be fetched now, the one that has waited longest first."""
    now = timezone.now()
    waits = Q(state=FetchState.WAITING, due_at__lte=now)
    stale = Q(state=FetchState.FETCHING, beat_at__lt=now - STALE)
    return Fetch.objects.filter(waits | stale).order_by("due_at", "pk")


def claim() -> Fetch | None:
    """Take the next one, at most `PER_PERSON` of one person at a time; None: there is none."""
    busy: set[int] = set()
    for found in due().select_related("upload")[:_LOOKED_AT]:
        owner_id = found.upload.owner_id
        if owner_id in busy:
            continue
        with transaction.atomic():
            User.objects.select_for_update().filter(pk=owner_id).first()
            if _at_it(owner_id).exclude(pk=found.pk).count() >= PER_PERSON:
                busy.add(owner_id)
                continue
            now = timezone.now()
            rows = Fetch.objects.filter(pk=found.pk, run=found.run, state=found.state)
            was_killed = found.state == FetchState.FETCHING
            if rows.update(
                state=FetchState.FETCHING,
                run=found.run + 1,
                tries=found.tries + was_killed,
                beat_at=now,
                begun_at=_begun_at(found, now),
                rate_bytes_s=0.0,
            ):
                return Fetch.objects.select_related("upload__owner", "upload__project").get(pk=found.pk)
    return None


def _begun_at(fetch: Fetch, now: datetime) -> datetime:
    """Later by the time in which nobody could be at it: control was off, or others had their turn. The time in which a
    killed process might still have been counts, or a file that kills each would be fetched for ever."""
    if fetch.begun_at is None:
        return now
    since = fetch.beat_at + STALE if fetch.state == FetchState.FETCHING and fetch.beat_at else fetch.due_at
    return fetch.begun_at + max(now - since, timedelta())


def _at_it(owner_id: int) -> QuerySet[Fetch]:
    return Fetch.objects.filter(upload__owner=owner_id, state=FetchState.FETCHING, beat_at__gte=timezone.now() - STALE)


def write(fetch: Fetch, **fields: Any) -> None:
    """Note where it stands, as long as it is ours. Raises `Lost`."""
    rows = Fetch.objects.filter(pk=fetch.pk, run=fetch.run, state=FetchState.FETCHING)
    if not rows.update(beat_at=timezone.now(), **fields):
        raise Lost
    for name, value in fields.items():
        setattr(fetch, name, value)


@contextmanager
def held(fetch: Fetch) -> Iterator[None]:
    """Keep it ours within, for what notes nothing on its way, such as the hash of a large file."""
    rows = Fetch.objects.filter(pk=fetch.pk, run=fetch.run, state=FetchState.FETCHING)

    def renew() -> bool:
        try:
            return rows.update(beat_at=timezone.now()) > 0
        except DATABASE_AWAY as error:
            _log.warning("cannot note that fetch %s is being worked on yet: %s", fetch.pk, error)
            return True

    with LeaseRenewer(renew, every_s=HOLD_EVERY_S, most=HOLDS_MAX):
        yield


def brought(fetch: Fetch, had_bytes: int) -> bool:
    """Whether more than next to nothing has arrived since it had so many bytes."""
    return fetch.upload.offset_bytes - had_bytes > LITTLE_BYTES


def killed_check(fetch: Fetch) -> None:
    """Pass unless the last of too many tries in a row was killed; others may have ended with a word. Raises
    `FetchTrouble`."""
    if fetch.tries > len(TRY_AFTER_S):  # who writes what happened to them gets no further than this many
        before = str((fetch.problem or {}).get("message") or "")
        message = (
            f"{fetch.tries} tries in a row came no further; in the last one the process that fetches was killed."
            f"{f' Before that: {before}' if before else ''}"
        )
        hint = "What has arrived is kept. Ask an admin why control is killed (often it is out of memory), then retry."
        raise FetchTrouble("killed", message, hint)


def failed(fetch: Fetch, problem: dict[str, Any]) -> None:
    """It has ended, until its owner tries it again. Raises `Lost`."""
    write(fetch, state=FetchState.FAILED, problem=problem, rate_bytes_s=0.0)


def later(fetch: Fetch, trouble: FetchTrouble) -> bool:
    """Have it tried again after a while; False where it was tried too often. Raises `Lost`."""
    if fetch.tries >= len(TRY_AFTER_S):
        return False
    due_at = timezone.now() + timedelta(seconds=max(TRY_AFTER_S[fetch.tries], trouble.wait_s))
    write(
        fetch,
        state=FetchState.WAITING,
        due_at=due_at,
        tries=fetch.tries + 1,
        problem=trouble.to_dict(),
        rate_bytes_s=0.0,
    )
    return True
