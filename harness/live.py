"""Live words as server-sent events: `/live?topics=job:<id>,jobs,pool,dataset:<id>`.

The id of an event is the position in every stream that spoke so far, so that `Last-Event-ID` resumes without gap or
duplicate; the first event, `position`, tells where the stream begins to those who leave before anything is said. Rights
are checked for every topic at the start and again while the stream is open.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from harness.accounts.access import visible_projects
from harness.accounts.bearer import bearer_token
from harness.accounts.models import User
from harness.accounts.selectors import token_find
from harness.broker import POOL_STREAM, project_stream
from harness.datasets.selectors import dataset_get
from harness.errors import HarnessError, Invalid, NotFound, TooMany
from harness.jobs.selectors import job_get
from harness.live_hub import Entry, follow, hub, id_key, is_cut
from worker.events import EventKind, job_stream

PING_S = 15.0
RECHECK_S = 30.0
"""Somebody who lost a role, a token, the session or the account hears nothing after this."""
REPLAY_MS = 5_000
"""A new stream starts this far back: what happened between the page and its stream. Events are absolute."""
TOPICS_MAX = 20
RETRY_MS = 1000
_PROGRESS = '{"kind":"progress"'
"""How a run's progress begins in its own stream, which is of one job."""
_NAMED = {*(str(kind) for kind in EventKind if kind != EventKind.ERROR), "state", "job", "dataset", "node"}
"""Kinds that are names of events. `error` is not: browsers use that name for broken connections; it and the rest come
as `message` with their kind in the body."""


@dataclass(frozen=True)
class Topic:
    """One thing to watch, and which entries of its stream belong to it."""

    name: str
    stream: str
    kind: str = ""
    """Only entries of this kind; empty: all."""
    dataset_id: str = ""

    def takes(self, body: dict[str, Any]) -> bool:
        """Whether an entry belongs to the topic."""
        if self.kind and body.get("kind") != self.kind:
            return False
        data = body.get("data")
        return not self.dataset_id or (isinstance(data, dict) and data.get("dataset_id") == self.dataset_id)


def topics_resolve(user: User, names: str) -> list[Topic]:
    """Topics by name that the person may watch. Raises `NotFound`, `Invalid`."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted or len(wanted) > TOPICS_MAX:
        raise Invalid(f"Name 1 to {TOPICS_MAX} topics.", field="topics", hint="For example ?topics=jobs,pool.")
    return [topic for name in wanted for topic in _topics(user, name)]


def _topics(user: User, name: str) -> list[Topic]:
    what, _, key = name.partition(":")
    if what == "job" and key:
        return [Topic(name, job_stream(job_get(user=user, job_id=key).pk))]
    if what == "dataset" and key:
        dataset = dataset_get(user=user, dataset_id=key)
        return [Topic(name, project_stream(dataset.project_id), "dataset", dataset.pk)]
    if name in {"jobs", "datasets"}:
        projects = visible_projects(user).values_list("pk", flat=True)
        return [Topic(name, project_stream(project_id), what[:-1]) for project_id in projects]
    if name == "pool":
        return [Topic(name, POOL_STREAM)]
    raise NotFound(
        f"There is no topic {name}.", field="topics", hint="Use job:<id>, dataset:<id>, jobs, datasets, pool."
    )


def _user_of(request: HttpRequest) -> User | None:
    """The person of a session or a bearer token, read anew: who was switched off, signed out or got another password
    is nobody."""
    text = bearer_token(request.headers.get("Authorization", ""))
    if text is not None:
        token = token_find(text)
        return token.user if token else None
    request.session = type(request.session)(request.session.session_key)
    user = get_user(request)
    return user if isinstance(user, User) else None


class Seat:
    """One open stream of a person. It counts for as long as somebody holds it: also where a page goes away before the
    first word, its seat is free again."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id


_seats: WeakSet[Seat] = WeakSet()


def seat_take(user_id: int) -> Seat:
    """A seat for one more stream of the person. Raises `TooMany`."""
    if sum(seat.user_id == user_id for seat in _seats) >= settings.LIVE_STREAMS_MAX:
        raise TooMany(
            f"You have {settings.LIVE_STREAMS_MAX} live pages open, which is the maximum per person.",
            hint="Close some of them (or end some `dlh watch`); this one then continues automatically.",
        )
    seat = Seat(user_id)
    _seats.add(seat)
    return seat


def _resolve(request: HttpRequest) -> tuple[int, list[Topic]] | None:
    """(key of the person, topics), or None for nobody."""
    try:
        user = _user_of(request)
        return (user.pk, topics_resolve(user, request.GET.get("topics", ""))) if user else None
    finally:
        # The request lives as long as its page is open; its connection to the database must not.
        close_old_connections()


@require_GET
async def live_view(request: HttpRequest) -> HttpResponseBase:
    """The stream, or 401, 404, 422, 429 as JSON."""
    try:
        resolved = await sync_to_async(_resolve)(request)
        if resolved is None:
            return JsonResponse(_error_body("unauthenticated", "Sign in, or send a token."), status=401)
        user_id, topics = resolved
        last_id = request.headers.get("Last-Event-ID") or request.GET.get("last_event_id", "")
        positions, seat = positions_of(last_id, topics), seat_take(user_id)
        words = _speak(request, topics, positions, seat, last_id)
    except HarnessError as error:
        return JsonResponse({"error": error.to_dict()}, status=error.status)
    response = StreamingHttpResponse(words, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    # Says that the body is encoded already, so that no middleware compresses (and thereby holds back) the stream.
    response["Content-Encoding"] = "identity"
    return response


def _error_body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": "", "field": None, "details": None}}


def positions_of(last_event_id: str, topics: list[Topic]) -> dict[str, str]:
    """Where each stream goes on: after the last event that was heard, or a little before now. Raises `Invalid`."""
    opened, heard = _opened_now(), {}
    for part in last_event_id.split(",") if last_event_id else ():
        stream, _, entry_id = part.rpartition("@")
        try:
            id_key(entry_id)
        except ValueError as error:
            raise Invalid("Last-Event-ID is not valid.", field="last_event_id") from error
        if stream:
            heard[stream] = entry_id
        else:
            opened = entry_id
    return {topic.stream: heard.get(topic.stream, opened) for topic in topics}


def _opened_now() -> str:
    return f"{max(0, int(time.time() * 1000) - REPLAY_MS)}-0"


def event_id(start: dict[str, str], now: dict[str, str]) -> str:
    """The id that `positions_of` understands: the start for silent streams, and the position of those that spoke."""
    first = min(start.values(), key=id_key, default=_opened_now())  # of who sees no project there is no stream
    spoke = [f"{stream}@{entry_id}" for stream, entry_id in now.items() if entry_id != first]
    return ",".join([f"@{first}", *spoke])


async def _speak(
    request: HttpRequest, topics: list[Topic], positions: dict[str, str], seat: Seat, last_id: str
) -> AsyncIterator[bytes]:
    """Words until the page goes away or may not hear them any more; its seat is free then."""
    try:
        yield await _opening(positions, last_id)
        async with aclosing(_words(request, topics, positions)) as words:
            async for word in words:
                yield word
    finally:
        _seats.discard(seat)


async def _opening(positions: dict[str, str], last_id: str) -> bytes:
    """Where the stream begins, and whether words are gone that somebody who was away would have heard."""
    heard = {part.rpartition("@")[0] for part in last_id.split(",")}
    body = json.dumps({"kind": "position", "gap": bool(last_id) and await is_cut(positions, heard)})
    return f"retry: {RETRY_MS}\nevent: position\nid: {event_id(positions, positions)}\ndata: {body}\n\n".encode()


async def _words(request: HttpRequest, topics: list[Topic], positions: dict[str, str]) -> AsyncGenerator[bytes]:
    start, now = dict(positions), dict(positions)
    by_stream: dict[str, list[Topic]] = {}
    for topic in topics:
        by_stream.setdefault(topic.stream, []).append(topic)
    checked_s, is_away = time.monotonic(), False
    # Closed by hand: a generator in a generator would otherwise be closed only when it is collected.
    async with aclosing(follow(positions, idle_s=PING_S)) as batches:
        async for entries in batches:
            if not entries:
                yield b": ping\n\n"
            if hub().is_away != is_away:
                is_away = not is_away
                yield f"event: broker\ndata: {json.dumps({'kind': 'broker', 'away': is_away})}\n\n".encode()
            for entry in newest(entries):
                now[entry.stream] = entry.id
                for topic in by_stream.get(entry.stream, ()):
                    if text := _text(topic, entry, event_id(start, now)):
                        yield text
            if time.monotonic() - checked_s > RECHECK_S:
                checked_s = time.monotonic()
                if not await _may_still(request, topics):
                    yield b'event: end\ndata: {"kind":"end"}\n\n'
                    return


def newest(entries: list[Entry]) -> list[Entry]:
    """Without progress that a later entry of the same stream in the batch overtakes: progress is absolute.

    After a pause hundreds may wait; only the last moves a bar. (A run itself speaks at most three times a second.)
    """
    kept: list[Entry] = []
    seen: set[str] = set()
    for entry in reversed(entries):
        if entry.event.startswith(_PROGRESS):
            if entry.stream in seen:
                continue
            seen.add(entry.stream)
        kept.append(entry)
    return kept[::-1]


def _text(topic: Topic, entry: Entry, entry_id: str) -> bytes | None:
    try:
        body = json.loads(entry.event)
    except ValueError:
        return None
    if not isinstance(body, dict) or not topic.takes(body):
        return None
    kind = str(body.get("kind", "message"))
    name = kind if kind in _NAMED else "message"
    data = json.dumps({**body, "topic": topic.name}, separators=(",", ":"))
    return f"event: {name}\nid: {entry_id}\ndata: {data}\n\n".encode()


async def _may_still(request: HttpRequest, topics: list[Topic]) -> bool:
    try:
        now = await sync_to_async(_resolve)(request)
    except HarnessError:
        return False
    return now is not None and {topic.stream for topic in topics} <= {topic.stream for topic in now[1]}
