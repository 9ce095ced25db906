"""HTTP responses for large or unsafe bytes: streamed, with Range, never shown inline by the browser as a page."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import quote as quote_header
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from harness.store import ByteRange, range_parse, stream_read, stream_read_async


def _disposition(filename: str, *, inline: bool) -> str:
    plain = quote_header(filename.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " "))
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename)}"


def file_response(
    request: HttpRequest,
    source: Path | BinaryIO,
    *,
    filename: str,
    content_type: str = "application/octet-stream",
    inline: bool = False,
) -> HttpResponseBase:
    """Serve a file in chunks under ASGI and WSGI; honours one `Range`. An opened stream is closed at the end."""
    stream = source.open("rb") if isinstance(source, Path) else source
    size_bytes = stream.seek(0, 2)
    try:
        span = range_parse(request.headers.get("Range", ""), size_bytes)
    except ValueError:
        stream.close()
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size_bytes}"})
    whole = ByteRange(start=0, stop=size_bytes)
    taken = span or whole
    if request.method == "HEAD":
        stream.close()
        response: HttpResponseBase = HttpResponse(content_type=content_type)
    else:
        response = chunks_response(request, stream_read(stream, taken), content_type=content_type)
    if span:
        response.status_code = 206
        response["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size_bytes}"
    response["Content-Length"] = str(taken.stop - taken.start)
    response["Accept-Ranges"] = "bytes"
    response["Content-Disposition"] = _disposition(filename, inline=inline)
    response["X-Content-Type-Options"] = "nosniff"
    return response


def chunks_response(
    request: HttpRequest, chunks: Iterator[bytes], *, content_type: str, filename: str = ""
) -> StreamingHttpResponse:
    """Stream chunks that are made as they are sent (zip, CSV), under ASGI and WSGI."""
    is_asgi = hasattr(request, "scope")
    response = StreamingHttpResponse(stream_read_async(chunks) if is_asgi else chunks, content_type=content_type)
    if filename:
        response["Content-Disposition"] = _disposition(filename, inline=False)
    response["X-Content-Type-Options"] = "nosniff"
    return response
