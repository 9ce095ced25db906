"""Where people are signed in: noted while they use the portal, ended one by one or all but one."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from harness.accounts.models import BrowserSession, User
from harness.database import DATABASE_AWAY
from harness.errors import NotFound

SEEN_STEP_S = 60.0
"""A session is noted at most this often by each process, so that reading costs no write."""
_NOTED_MAX = 10_000
_noted: dict[str, float] = {}
"""Session key -> when it was last noted (monotonic)."""
_noting = threading.Lock()


def session_seen(*, user_id: int, session_key: str, user_agent: str = "", address: str = "") -> None:
    """Note that a signed-in browser was here, unless it has just been; a database that is away is no reason to fail."""
    now_s = time.monotonic()
    with _noting:
        if now_s - _noted.get(session_key, -SEEN_STEP_S) < SEEN_STEP_S:
            return
        if len(_noted) >= _NOTED_MAX:
            _noted.clear()
        _noted[session_key] = now_s
    told = {
        "user_id": user_id,
        "user_agent": user_agent.replace("\x00", "")[:300],
        "address": address[:64],
        "seen_at": timezone.now(),
    }
    with suppress(*DATABASE_AWAY):
        BrowserSession.objects.update_or_create(session_key=session_key, defaults=told)


def session_moved(*, old_key: str | None, new_key: str | None) -> None:
    """A sign-in goes on under another key, as after a change of the password."""
    BrowserSession.objects.filter(session_key=old_key).update(session_key=new_key)


def session_list(*, user: User) -> QuerySet[BrowserSession]:
    """Where the person is signed in, the newest seen first."""
    live = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    return BrowserSession.objects.filter(Exists(live), user=user).order_by("-seen_at", "pk")


def session_end(*, user: User, session_id: str) -> None:
    """Sign a browser of the person's own out. Raises `NotFound`."""
    found = session_list(user=user).filter(pk=session_id).first()
    if found is None:
        raise NotFound("You are not signed in there.", hint="The Account page shows where you are signed in.")
    _end(BrowserSession.objects.filter(pk=found.pk))


def sessions_end(*, user: User, but_key: str | None = None) -> None:
    """Sign the person out everywhere, but for the session of that key."""
    _end(BrowserSession.objects.filter(user=user).exclude(session_key=but_key or ""))


def _end(rows: QuerySet[BrowserSession]) -> None:
    with transaction.atomic():
        Session.objects.filter(session_key__in=list(rows.values_list("session_key", flat=True))).delete()
        rows.delete()


def sessions_expire() -> int:
    """Forget sign-ins that have expired, and what is known of those that have ended."""
    expired = Session.objects.filter(expire_date__lt=timezone.now()).delete()[0]
    left = ~Exists(Session.objects.filter(session_key=OuterRef("session_key")))
    return expired + BrowserSession.objects.filter(left).delete()[0]
