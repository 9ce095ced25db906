"""Bytes that are sent in parts: files, and archives that are made while they are sent and are the same each time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from harness.hashes import Hashes
from harness.store import ByteRange, stream_read

_HASHES = Hashes()


@dataclass(frozen=True, kw_only=True)
class Body:
    """What a download sends. Two with one `version` are the same to the last byte, so that a cut one can go on."""

    size_bytes: int
    version: str
    """Letters and digits; changes with the bytes."""
    read: Callable[[ByteRange], Iterator[bytes]]
    """The bytes of a span; what was opened for them is closed at their end."""
    sha256: Callable[[], str]
    """Of the whole, in hexadecimal; reads all of it unless it is known."""
    close: Callable[[], None] = lambda: None
    """Called where nothing is read."""


def file_body(source: Path | BufferedReader) -> Body:
    """A file, or one that is open; known by its number, size and time, not by its hash, which would read it all."""
    stream = source.open("rb") if isinstance(source, Path) else source
    told = os.fstat(stream.fileno())

    def sha256() -> str:
        stream.seek(0)
        return _HASHES.sha256(stream)

    return Body(
        size_bytes=told.st_size,
        version=f"{told.st_ino:x}-{told.st_mtime_ns:x}-{told.st_size:x}",
        read=lambda span: stream_read(stream, span),
        sha256=sha256,
        close=stream.close,
    )


def made_body(chunks: Callable[[], Iterator[bytes]], *, size_bytes: int, version: str) -> Body:
    """What `chunks` makes anew at each call: a later span costs the making of what lies before it, not its sending."""

    def sha256() -> str:
        digest = hashlib.sha256()
        for chunk in chunks():
            digest.update(chunk)
        return digest.hexdigest()

    return Body(size_bytes=size_bytes, version=version, read=lambda span: _cut(chunks(), span), sha256=sha256)


def _cut(chunks: Iterator[bytes], span: ByteRange) -> Iterator[bytes]:
    position = 0
    for chunk in chunks:
        part = chunk[max(0, span.start - position) : max(0, span.stop - position)]
        position += len(chunk)
        if part:
            yield part
        if position >= span.stop:
            return
