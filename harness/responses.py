"""HTTP responses for large or unsafe bytes: streamed, with Range, never shown inline by the browser as a page."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from email.utils import quote as quote_header
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag

from harness.bodies import Body, file_body
from harness.store import ByteRange, range_parse, stream_read_async

_ITEMS_PER_CHUNK = 100


def _disposition(filename: str, *, inline: bool) -> str:
    plain = quote_header(filename.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " "))
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename)}"


def file_response(
    request: HttpRequest,
    source: Path | BufferedReader,
    *,
    filename: str,
    content_type: str = "application/octet-stream",
    inline: bool = False,
) -> HttpResponseBase:
    """Serve a file; see `body_response`. An opened stream is closed at the end."""
    return body_response(request, file_body(source), filename=filename, content_type=content_type, inline=inline)


def body_response(
    request: HttpRequest, body: Body, *, filename: str, content_type: str, inline: bool = False
) -> HttpResponseBase:
    """Serve bytes in chunks under ASGI and WSGI. A cut download goes on: one `Range` is honoured, and with `If-Range`
    only while the bytes are the same. Whoever sends `Want-Repr-Digest: sha-256=1` (RFC 9530) is told the SHA-256."""
    etag = quote_etag(body.version)
    response = get_conditional_response(request, etag=etag) or _sent(request, body, etag, content_type)
    if not response.streaming:
        body.close()
    response["ETag"] = etag
    response["Accept-Ranges"] = "bytes"
    response["Cache-Control"] = "private, no-cache"
    response["Content-Disposition"] = _disposition(filename, inline=inline)
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _sent(request: HttpRequest, body: Body, etag: str, content_type: str) -> HttpResponseBase:
    is_same = request.headers.get("If-Range", etag) == etag
    try:
        span = range_parse(request.headers.get("Range", "") if is_same else "", body.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{body.size_bytes}"})
    taken = span or ByteRange(start=0, stop=body.size_bytes)
    headers = {"Content-Length": str(taken.stop - taken.start)}
    if "sha-256" in request.headers.get("Want-Repr-Digest", ""):
        digest = base64.b64encode(bytes.fromhex(body.sha256())).decode()
        headers["Repr-Digest"] = f"sha-256=:{digest}:"
    if request.method == "HEAD":
        response: HttpResponseBase = HttpResponse(content_type=content_type)
    else:
        response = chunks_response(request, body.read(taken), content_type=content_type)
    if span:
        response.status_code = 206
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{body.size_bytes}"
    for name, value in headers.items():
        response[name] = value
    return response


def chunks_response(
    request: HttpRequest, chunks: Iterator[bytes], *, content_type: str, filename: str = ""
) -> StreamingHttpResponse:
    """Stream chunks that are made as they are sent (CSV), under ASGI and WSGI."""
    is_asgi = hasattr(request, "scope")
    response = StreamingHttpResponse(stream_read_async(chunks) if is_asgi else chunks, content_type=content_type)
    if filename:
        response["Content-Disposition"] = _disposition(filename, inline=False)
    response["X-Content-Type-Options"] = "nosniff"
    return response


def begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks with the first one made now, so that an error becomes an answer and not a cut stream."""
    first = next(chunks, b"")
    return chain([first], chunks)


def json_chunks(items: Iterable[Any]) -> Iterator[bytes]:
    """`{"items": [...]}` in chunks of a hundred items, so that a list of any length takes no memory."""
    rest, before = iter(items), '{"items": ['
    while part := list(islice(rest, _ITEMS_PER_CHUNK)):
        yield (before + ", ".join(json.dumps(item, cls=DjangoJSONEncoder) for item in part)).encode()
        before = ", "
    yield (before.removesuffix(", ") + "]}").encode()
