"""How large a request body may be, per kind of address, and how slow; kept before a byte of the body is stored."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from harness.api.callers import Scope, claimed, is_known
from harness.errors import HarnessError, NoSpace, TooLarge, TooSlow, Unauthenticated
from worker.words import size_words

MIB = 2**20
JSON_LIMIT_BYTES = 4 * MIB
"""Specs, program files, notes."""
CHUNK_LIMIT_BYTES = 64 * MIB
"""One PATCH of a resumable upload; clients send 8 MiB."""
STRANGER_LIMIT_BYTES = MIB
"""Of a request that is of nobody: signing in and joining the pool need less."""
PART_LIMIT_S = 60.0
"""A body of which nothing comes for so long is given up."""
LEAST_BYTES_PER_S = 1024
"""So is one that has been slower than this since, `PART_LIMIT_S` left aside."""
_MULTIPART_ROOM_BYTES = MIB
_UPLOADS = re.compile(r"/api/v1/uploads(/[^/]*)?/?")
_POINTS = re.compile(r"/api/v1/pool/calibration/points/?|/pool/calibration/import/")
POINTS_LIMIT_BYTES = 68 * MIB
"""A file of measured points, as text in JSON."""
_PIECES = re.compile(r"/api/v1/node/(probe|runs/[^/]+/[^/]+/(pieces|logs/[^/]+))/?")
PIECE_LIMIT_BYTES = 9 * MIB
"""Of what a node returns, or sends to see whether it could; nodes send 8 MiB."""
_PREDICTIONS = re.compile(r"/api/v1/jobs/[^/]+/predictions/?|/jobs/[^/]+/predict/")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[..., Awaitable[None]]


def body_limit(path: str) -> int:
    """Bytes that a body sent to this path may have, of whomever: Django writes all of it to the disk unasked."""
    if _UPLOADS.fullmatch(path):
        return CHUNK_LIMIT_BYTES
    if _PIECES.fullmatch(path):
        return PIECE_LIMIT_BYTES
    if _POINTS.fullmatch(path):
        return POINTS_LIMIT_BYTES
    if _PREDICTIONS.fullmatch(path):
        return int(settings.PREDICTION_LIMIT_BYTES) + _MULTIPART_ROOM_BYTES
    return JSON_LIMIT_BYTES if _is_api(path) else int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def _is_api(path: str) -> bool:
    return path.startswith("/api/")


def too_large(limit_bytes: int) -> TooLarge:
    """The error for a body above its limit."""
    return TooLarge(
        f"The request body is larger than {size_words(limit_bytes)}.",
        hint="Send large files through /uploads, in chunks of 8 MiB.",
        details={"limit_bytes": limit_bytes},
    )


def _too_large_of_stranger() -> TooLarge:
    return TooLarge(
        f"The request body is larger than {size_words(STRANGER_LIMIT_BYTES)}, and nobody is signed in.",
        hint="Sign in, or send `Authorization: Bearer <token>`.",
        details={"limit_bytes": STRANGER_LIMIT_BYTES},
    )


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        "The token or session of this request is unknown, has expired or was ended.",
        hint="Sign in again, or send a token that is valid; make one on the page *Account*.",
    )


class _Refused(Exception):
    """The client sent more than it may, or too slowly."""

    def __init__(self, error: HarnessError) -> None:
        super().__init__(error.message)
        self.error = error


class _Body:
    """Receives the body of one request. Raises `_Refused`."""

    def __init__(self, receive: Receive, error: TooLarge, scope: Scope) -> None:
        self._receive = receive
        self._error = error
        self._scope: Scope | None = scope
        """Until it has been asked whose it is."""
        self._limit_bytes = error.details["limit_bytes"]
        self._seen_bytes = 0
        self._whole = False
        self._began_s = time.monotonic()

    async def __call__(self) -> Message:
        """The next message: a part of the body, and after its end that the client has left, whenever it does."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(PART_LIMIT_S):
                message = await self._receive()
        except TimeoutError as error:
            raise _Refused(_too_slow()) from error
        self._whole = not message.get("more_body")
        self._seen_bytes += len(message.get("body", b""))
        if self._seen_bytes > self._limit_bytes:
            raise _Refused(self._error)
        if self._scope is not None and self._seen_bytes > STRANGER_LIMIT_BYTES:
            scope, self._scope = self._scope, None
            if not await is_known(scope):
                raise _Refused(_unknown())
        late_s = time.monotonic() - self._began_s - PART_LIMIT_S
        if not self._whole and self._seen_bytes < late_s * LEAST_BYTES_PER_S:
            raise _Refused(_too_slow())
        return message


def _too_slow() -> TooSlow:
    return TooSlow("The request body came too slowly.", hint="Try again over a better connection.")


def _no_room() -> NoSpace:
    return NoSpace("The portal has no room for this request now.", hint="Try again in a minute.")


class BodyLimit:
    """ASGI wrapper that answers 413 as soon as a body passes its limit, with or without a Content-Length, 401 where it
    has more than a stranger's and is of nobody, and 408 where it does not come."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection; one for a web socket, of which there is none here, is refused (403)."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope.get("path", "")
        limit = too_large(body_limit(path))
        if claimed(scope) == (None, None) and limit.details["limit_bytes"] > STRANGER_LIMIT_BYTES:
            limit = _too_large_of_stranger()
        if _content_length(scope) > limit.details["limit_bytes"]:
            await _refuse(send, path, limit)
            return
        answered = False

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, _Body(receive, limit, scope), watched)
        except _Refused as refused:
            if not answered:
                await _refuse(send, path, refused.error)
        except OSError as error:  # no view has begun: a large body is put aside on the disk first
            if answered or error.errno != errno.ENOSPC:
                raise
            await _refuse(send, path, _no_room())


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Send, path: str, error: HarnessError) -> None:
    kind, text = "application/json", json.dumps({"error": error.to_dict()})
    if not _is_api(path):
        kind, text = "text/plain; charset=utf-8", f"{error.message}\n"
    body = text.encode()
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
