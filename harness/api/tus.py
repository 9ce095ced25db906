"""The tus 1.0 protocol: what its headers say, and what ours answer. https://tus.io/protocols/resumable-upload"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.http import http_date

from harness.api.limits import CHUNK_LIMIT_BYTES, too_large
from harness.datasets.models import Upload
from harness.errors import HarnessError, Invalid
from harness.plain import json_read
from harness.store import CHUNK_BYTES

VERSION = "1.0.0"
EXTENSIONS = "creation,creation-with-upload,termination,checksum,expiration"
ALGORITHMS = ("sha256", "sha1")
CONTENT_TYPE = "application/offset+octet-stream"
_METADATA_KEYS_MAX = 20
_NUMBER_DIGITS_MAX = 15


class WrongVersion(HarnessError):
    """The client speaks another version of tus."""

    status = 412
    default_code = "tus_version"


class WrongContentType(HarnessError):
    """The body is not announced as a piece of an upload."""

    status = 415
    default_code = "content_type"


class ChecksumMismatch(HarnessError):
    """The piece did not arrive as it was sent; it was not kept."""

    status = 460
    default_code = "checksum_mismatch"


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """What a piece should hash to."""

    algorithm: str
    digest: bytes

    def passed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same pieces; after the last one raises `ChecksumMismatch` where they hash to something else."""
        found = hashlib.new(self.algorithm, usedforsecurity=False)
        for piece in pieces:
            found.update(piece)
            yield piece
        if not hmac.compare_digest(found.digest(), self.digest):
            raise ChecksumMismatch(
                "This chunk was damaged in transit; nothing of it was kept.",
                hint="Send the chunk again from the same offset.",
            )


def version_check(request: HttpRequest) -> None:
    """Raise `WrongVersion` unless the request speaks tus 1.0.0."""
    if request.headers.get("Tus-Resumable") != VERSION:
        raise WrongVersion("Uploads speak tus 1.0.0.", hint=f"Send the header Tus-Resumable: {VERSION}.")


def number_header(request: HttpRequest, name: str) -> int:
    """A header that is a whole number, 0 or more. Raises `Invalid`."""
    text = request.headers.get(name, "")
    if not (text.isascii() and text.isdigit()) or len(text) > _NUMBER_DIGITS_MAX:
        raise Invalid(f"The header {name} must be a whole number of bytes.", field=name, hint="See the tus protocol.")
    return int(text)


def metadata(request: HttpRequest) -> dict[str, str]:
    """`Upload-Metadata` as names and texts. Raises `Invalid`."""
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in request.headers.get("Upload-Metadata", "").split(","))):
        key, _, value = pair.partition(" ")
        try:
            found[key] = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Invalid(
                f"Upload-Metadata: {key} is not base64 of UTF-8 text.", field=key, hint="See the tus protocol."
            ) from error
        if len(found) > _METADATA_KEYS_MAX:
            raise Invalid("Upload-Metadata has too many keys.", field="Upload-Metadata")
    return found


def options_read(text: str) -> dict[str, Any]:
    """The metadata key `options`: a JSON object or nothing. Raises `Invalid`."""
    if not text:
        return {}
    try:
        body = json_read(text)
    except ValueError as error:
        raise Invalid("options is not JSON.", field="options") from error
    if not isinstance(body, dict):
        raise Invalid("options is a JSON object.", field="options")
    return body


def checksum(request: HttpRequest) -> Checksum | None:
    """`Upload-Checksum`, if the request has one. Raises `Invalid`."""
    text = request.headers.get("Upload-Checksum")
    if text is None:
        return None
    algorithm, _, value = text.partition(" ")
    if algorithm not in ALGORITHMS:
        raise Invalid(
            f"There is no checksum algorithm {algorithm!r} here.",
            field="Upload-Checksum",
            hint=f"Use one of: {', '.join(ALGORITHMS)}.",
        )
    try:
        return Checksum(algorithm=algorithm, digest=base64.b64decode(value, validate=True))
    except binascii.Error as error:
        raise Invalid("Upload-Checksum is not base64.", field="Upload-Checksum") from error


def content_type_check(request: HttpRequest) -> None:
    """Raise `WrongContentType` unless the body is announced as a piece of an upload."""
    if request.content_type != CONTENT_TYPE:
        raise WrongContentType(f"A chunk of an upload must have the content type {CONTENT_TYPE}.")


def pieces(request: HttpRequest) -> Iterator[bytes]:
    """The body of a PATCH or POST as it is read, never whole in memory; its checksum is compared at its end.

    Raises `ChecksumMismatch`, `TooLarge`, `Invalid`.
    """
    wanted = checksum(request)
    return wanted.passed(_stream(request)) if wanted else _stream(request)


def _stream(request: HttpRequest) -> Iterator[bytes]:
    seen = 0
    while piece := request.read(CHUNK_BYTES):
        seen += len(piece)
        if seen > CHUNK_LIMIT_BYTES:
            raise too_large(CHUNK_LIMIT_BYTES)
        yield piece


def answer(status: int, upload: Upload | None = None) -> HttpResponse:
    """An empty tus response; with an upload its offset, its expiry, and what it has become once it has."""
    response = HttpResponse(status=status)
    response["Tus-Resumable"] = VERSION
    response["Cache-Control"] = "no-store"
    if upload is None:
        return response
    response["Upload-Offset"] = str(upload.offset_bytes)
    if upload.dataset_id:
        response["Dataset-Id"] = upload.dataset_id
    elif upload.weights_id:
        response["Weights-Id"] = upload.weights_id
    else:
        expires = upload.updated_at + timedelta(days=settings.UPLOAD_EXPIRES_DAYS)
        response["Upload-Expires"] = http_date(expires.timestamp())
    return response


def capabilities() -> HttpResponse:
    """What this server can do, for OPTIONS."""
    response = answer(204)
    response["Tus-Version"] = VERSION
    response["Tus-Extension"] = EXTENSIONS
    response["Tus-Max-Size"] = str(settings.UPLOAD_LIMIT_BYTES)
    response["Tus-Checksum-Algorithm"] = ",".join(ALGORITHMS)
    return response
