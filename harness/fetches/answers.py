"""What a server's answer to a request for a file says: whether it is one, which part, how long, under which name."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.fetches.names import name_of_answer
from harness.fetches.trouble import FetchChanged, FetchRefused, FetchTrouble

WAIT_S_MAX = 600
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_DIGITS_MAX = 18
_VALIDATOR_LETTERS_MAX = 250


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A file, or the rest of one."""

    url: str
    """Where it came from in the end."""
    name: str
    content_type: str
    offset: int
    """Where its first byte belongs."""
    body_bytes: int | None
    """Still to come, as they are sent; None: until the connection ends."""
    total_bytes: int | None
    """Of the whole file; None: nobody can say, or it comes packed."""
    validator: str
    """Names this very content; empty: nothing does."""
    is_gzipped: bool
    """Packed for the way alone."""


def answer_read(response: http.client.HTTPResponse, *, asked_url: str, url: str, offset: int) -> Answer:
    """The answer to a request for bytes from `offset`. Raises `FetchTrouble`."""
    headers = response.headers
    status_check(response, urlsplit(url).hostname or "The server")
    content_type = headers.get("Content-Type", "")
    name = name_of_answer(headers.get("Content-Disposition", ""), content_type, asked_url, url)
    is_gzipped = _is_gzipped(headers.get("Content-Encoding", ""), name)
    length = None if response.chunked else _number(headers.get("Content-Length", ""))
    begins, total = (
        (_range(headers.get("Content-Range", ""), offset, length)) if response.status == 206 else (0, length)
    )
    return Answer(
        url=url,
        name=name,
        content_type=content_type,
        offset=begins,
        body_bytes=length,
        total_bytes=None if is_gzipped else total,
        # Parts of what is packed on the way say nothing of the file's own bytes.
        validator="" if is_gzipped else _validator(headers.get("ETag", ""), headers.get("Last-Modified", "")),
        is_gzipped=is_gzipped,
    )


def status_check(response: http.client.HTTPResponse, host: str) -> None:
    """Pass where a file comes. Raises `FetchTrouble` by what the server says instead."""
    status = response.status
    if status in {200, 206}:
        return
    if status == 416:
        raise FetchChanged("changed", f"{host} has no more of the file than what has arrived.")
    if status in {401, 403, 407}:
        raise FetchRefused(
            "sign_in",
            f"{host} only gives this file to people who are signed in ({status}).",
            "Give an address that needs no sign-in (a signed or public one), or download the file and upload it here.",
        )
    if status in {404, 410}:
        raise FetchRefused("not_found", f"{host} has no file at this address ({status}).", "Check the address.")
    if status in {408, 425, 429} or status >= 500:
        wait_s = _number(response.headers.get("Retry-After", "")) or 0
        raise FetchTrouble("server", f"{host} cannot give the file now ({status}).", wait_s=min(wait_s, WAIT_S_MAX))
    raise FetchRefused("answered", f"{host} answered {status} instead of the file.", "Check the address.")


def _is_gzipped(encoding: str, name: str) -> bool:
    """Whether it has to be unpacked. Servers tell of files that are gzip themselves that they were packed, too."""
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return False
    if encoding not in {"gzip", "x-gzip"}:
        message = f"The server compresses the file in a way that was not requested ({encoding[:20]})."
        raise FetchRefused("encoding", message, "Download the file with your browser, then upload it here.")
    return not name.lower().endswith((".gz", ".tgz"))


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


def _range(text: str, offset: int, length: int | None) -> tuple[int, int | None]:
    """(where it begins, bytes of the whole file) of a part that was asked for."""
    match = _RANGE.fullmatch(text.strip())
    if match is None or not offset or int(match[1]) != offset:
        raise FetchChanged("changed", "The server sent a different part of the file than requested.")
    total = None if match[3] == "*" else int(match[3])
    if total is None or int(match[2]) + 1 != total or (length is not None and length != total - offset):
        raise FetchChanged("changed", "The server sent a different part of the file than requested.")
    return offset, total


def _validator(etag: str, modified: str) -> str:
    """A weak ETag names no bytes; a date does where nothing better is said."""
    found = etag.strip() if etag.strip().startswith('"') else modified.strip()
    return found if found.isascii() and found.isprintable() and len(found) <= _VALIDATOR_LETTERS_MAX else ""
