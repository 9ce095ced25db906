"""How large a request body may be, per kind of address; kept before a byte of the body is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from harness.errors import TooLarge

MIB = 2**20
JSON_LIMIT_BYTES = 4 * MIB
"""Specs, program files, notes."""
CHUNK_LIMIT_BYTES = 64 * MIB
"""One PATCH of a resumable upload; clients send 8 MiB."""
_MULTIPART_ROOM_BYTES = MIB
_UPLOADS = re.compile(r"/api/v1/uploads(/[^/]*)?/?$")
_POINTS = re.compile(r"/api/v1/pool/calibration/points/?$")
POINTS_LIMIT_BYTES = 68 * MIB
"""A file of measured points, as text in JSON."""
_PIECES = re.compile(r"/api/v1/node/runs/[^/]+/[^/]+/(pieces|logs/[^/]+)/?$")
PIECE_LIMIT_BYTES = 9 * MIB
"""Of what a node returns; nodes send 8 MiB."""
_PREDICTIONS = re.compile(r"/api/v1/jobs/[^/]+/predictions/?$")

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[..., Awaitable[None]]


def body_limit(path: str) -> int | None:
    """Bytes that a body sent to this path may have; None where the portal's pages decide."""
    if "/api/" not in path:
        return None
    if _UPLOADS.search(path):
        return CHUNK_LIMIT_BYTES
    if _PIECES.search(path):
        return PIECE_LIMIT_BYTES
    if _POINTS.search(path):
        return POINTS_LIMIT_BYTES
    if _PREDICTIONS.search(path):
        return settings.PREDICTION_LIMIT_BYTES + _MULTIPART_ROOM_BYTES
    return JSON_LIMIT_BYTES


def too_large(limit_bytes: int) -> TooLarge:
    """The error for a body above its limit."""
    return TooLarge(
        f"The request body is larger than {limit_bytes // MIB} MiB.",
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
        """Serve one connection."""
        limit = body_limit(scope.get("path", "")) if scope["type"] == "http" else None
        if limit is None:
            await self.app(scope, receive, send)
            return
        if _content_length(scope) > limit:
            await _refuse(send, limit)
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
                await _refuse(send, limit)


def _content_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


async def _refuse(send: Send, limit_bytes: int) -> None:
    error = too_large(limit_bytes)
    body = json.dumps({"error": error.to_dict()}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
