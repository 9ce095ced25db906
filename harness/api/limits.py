"""How large a request body may be, per kind of address; kept before a byte of the body is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from harness.errors import TooLarge
from worker.words import size_words

MIB = 2**20
JSON_LIMIT_BYTES = 4 * MIB
"""Specs, program files, notes."""
CHUNK_LIMIT_BYTES = 64 * MIB
"""One PATCH of a resumable upload; clients send 8 MiB."""
_MULTIPART_ROOM_BYTES = MIB
_UPLOADS = re.compile(r"/api/v1/uploads(/[^/]*)?/?")
_POINTS = re.compile(r"/api/v1/pool/calibration/points/?|/pool/calibration/import/")
POINTS_LIMIT_BYTES = 68 * MIB
"""A file of measured points, as text in JSON."""
_PIECES = re.compile(r"/api/v1/node/runs/[^/]+/[^/]+/(pieces|logs/[^/]+)/?")
PIECE_LIMIT_BYTES = 9 * MIB
"""Of what a node returns; nodes send 8 MiB."""
_PREDICTIONS = re.compile(r"/api/v1/jobs/[^/]+/predictions/?|/jobs/[^/]+/predict/")

Scope = dict[str, Any]
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


class _BodyTooLarge(Exception):
    """The client sent more than it may."""


class BodyLimit:
    """ASGI wrapper that answers 413 as soon as a body passes its limit, with or without a Content-Length."""

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
        limit = body_limit(path)
        if _content_length(scope) > limit:
            await _refuse(send, path, limit)
            return
        seen = 0
        answered = False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _BodyTooLarge
            return message

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self.app(scope, counted, watched)
        except _BodyTooLarge:
            if not answered:
                await _refuse(send, path, limit)


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Send, path: str, limit_bytes: int) -> None:
    error = too_large(limit_bytes)
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
