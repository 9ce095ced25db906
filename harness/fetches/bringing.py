"""One try: asks for the file, or for the rest of it, and appends what comes to the upload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from django.conf import settings

from harness.datasets.safetensors_header import is_weights
from harness.datasets.uploads import upload_append, upload_resize, upload_restart
from harness.errors import NoSpace, TooLarge
from harness.fetches import claims
from harness.fetches.answers import Answer
from harness.fetches.models import Fetch
from harness.fetches.pace import Pace
from harness.fetches.rules import NO_WEIGHTS, NO_WEIGHTS_HINT, fetch_rules
from harness.fetches.share_pages import page_answered
from harness.fetches.source import PIECE_BYTES, Asked, Source
from harness.fetches.trouble import FetchChanged, FetchRefused, FetchTrouble
from harness.fetches.unpacking import Unpacked
from worker.words import size_words

SEGMENT_BYTES, SEGMENT_S = 8 << 20, 1.0
"""After so much or so long what has arrived is made durable, and it is looked whether it is still wanted."""
GROWTH_BYTES = 64 << 20
"""Room that is held at a time where nobody says how long the file is."""
_HEAD_BYTES = 64
_BLANK = b" \t\r\n\xef\xbb\xbf"
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body")
Read = Callable[[], bytes]


class Bringing:
    """One try to bring a fetch's bytes; after `run` all of them are there."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch, self._upload = fetch, fetch.upload
        self._had_bytes = fetch.upload.offset_bytes
        self._pace = Pace()

    def run(self) -> None:
        """Raises `FetchTrouble`, `HarnessError`, `Lost`."""
        had_bytes = self._upload.offset_bytes if self._fetch.validator else 0
        asked = Asked(
            url=self._fetch.url, rules=fetch_rules(), offset=had_bytes, validator=self._fetch.validator
        )  # fmt: skip
        with Source(asked) as source:
            claims.write(self._fetch)
            answer = source.answer
            self._same_check(answer, had_bytes)
            arrive: Read = partial(self._arrive, source)
            read: Read = Unpacked(arrive).read if answer.is_gzipped else arrive
            if not answer.offset:
                read = self._begin(answer, read)
            self._pour(read)
        self._end()

    def _arrive(self, source: Source) -> bytes:
        """The next bytes as they are sent. Raises `FetchTrouble` also where hardly any come and none of the file's."""
        if piece := source.read():
            self._pace.add(len(piece))
        return piece

    def _same_check(self, answer: Answer, had_bytes: int) -> None:
        """Pass where it is the file of which bytes have arrived. Raises `FetchChanged`."""
        if not had_bytes:
            return
        is_other = bool(answer.validator) and answer.validator != self._fetch.validator
        is_longer = None not in {answer.total_bytes, self._fetch.total_bytes} and (
            answer.total_bytes != self._fetch.total_bytes
        )
        if is_other or is_longer:
            raise FetchChanged("changed", "The file at this address changed while it was being fetched.")

    def _begin(self, answer: Answer, read: Read) -> Read:
        """Take it as a new file, unless it is a web page; the value reads it from its first byte."""
        head = b""
        while len(head) < _HEAD_BYTES and (piece := read()):
            head += piece
        start = head.lstrip(_BLANK).lower()
        if start.startswith(_PAGES) or ("html" in answer.content_type.lower() and start.startswith(b"<")):
            page = page_answered(answer.url)
            raise FetchRefused("web_page", page.message, page.hint)
        if not head:
            raise FetchRefused("empty", "The file at this address is empty.", "Check the address.")
        if is_weights(answer.name):  # the address need not say so
            raise FetchRefused("weights", NO_WEIGHTS, NO_WEIGHTS_HINT)
        upload_restart(upload=self._upload, filename=answer.name)
        if answer.total_bytes is not None:
            upload_resize(upload=self._upload, size_bytes=answer.total_bytes)
        claims.write(self._fetch, validator=answer.validator, total_bytes=answer.total_bytes)
        waiting = [head]
        return lambda: waiting.pop() if waiting else read()

    def _pour(self, read: Read) -> None:
        while piece := read():
            self._room(len(piece))
            segment = self._segment(piece, read)
            upload_append(upload=self._upload, offset=self._upload.offset_bytes, chunk=segment)
            tries = 0 if claims.brought(self._fetch, self._had_bytes) else self._fetch.tries
            claims.write(self._fetch, rate_bytes_s=self._pace.rate_bytes_s, tries=tries)

    def _segment(self, piece: bytes, read: Read) -> Iterator[bytes]:
        ends_s = time.monotonic() + SEGMENT_S
        room_bytes = min(self._upload.size_bytes - self._upload.offset_bytes, SEGMENT_BYTES)
        while piece:
            room_bytes -= len(piece)
            yield piece
            if room_bytes < PIECE_BYTES or time.monotonic() >= ends_s:
                return
            piece = read()

    def _room(self, more_bytes: int) -> None:
        """Hold room for what comes, where nobody has said how much that is. Raises `TooLarge`, `NoSpace`."""
        offset, size = self._upload.offset_bytes, self._upload.size_bytes
        if self._fetch.total_bytes is not None or offset + more_bytes <= size:
            return
        if offset + more_bytes > settings.UPLOAD_LIMIT_BYTES:
            raise TooLarge(
                f"{self._upload.filename} is larger than the limit, {size_words(settings.UPLOAD_LIMIT_BYTES)}.",
                hint="Use a smaller file, or ask an admin to raise DLH_UPLOAD_LIMIT_GIB.",
            )
        wanted = offset + more_bytes + min(GROWTH_BYTES, max(PIECE_BYTES, offset))
        try:
            upload_resize(upload=self._upload, size_bytes=min(wanted, settings.UPLOAD_LIMIT_BYTES))
        except NoSpace:  # not so much ahead
            upload_resize(upload=self._upload, size_bytes=offset + more_bytes)

    def _end(self) -> None:
        """Note that all has arrived."""
        offset = self._upload.offset_bytes
        if self._fetch.total_bytes is None:
            upload_resize(upload=self._upload, size_bytes=offset)
            claims.write(self._fetch, total_bytes=offset)
        elif offset != self._fetch.total_bytes:
            raise FetchTrouble("cut_off", "The connection broke before the whole file arrived.")
