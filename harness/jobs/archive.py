"""Zip archives made while they are sent and the same each time, so that an interrupted download can resume."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness.bodies import Body, made_body
from harness.store import CHUNK_BYTES, open_beneath

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Fixed time in archives: the same program gives the same bytes."""
_ENTRY_BYTES, _END_BYTES = 46, 22
"""Of the list at an archive's end: each entry without its name, and what follows the last one."""
_ZIP64_ENTRY_BYTES, _ZIP64_FIELD_BYTES, _ZIP64_END_BYTES = 4, 8, 76
"""What an entry has more where its file has more than 2 GiB (two fields) or begins behind so many (one), and the end
where the list begins there."""


class Large(NamedTuple):
    """A file below a folder that people's code may write: each time it is opened, no link is followed on the way."""

    root: Path
    name: str

    def told(self) -> os.stat_result:
        """What the system tells about it now."""
        with open_beneath(self.root, self.name) as stream:
            return os.fstat(stream.fileno())

    def chunks(self) -> Iterator[bytes]:
        """Its bytes."""
        with open_beneath(self.root, self.name) as stream:
            yield from iter(lambda: stream.read(CHUNK_BYTES), b"")


Members = dict[str, bytes | Large]
"""Names with texts, or with the file that holds the bytes."""


def zip_body(root: str, members: Members) -> Body:
    """The archive, everything in it below one folder `root`."""
    return made_body(
        lambda: _zip(root, members, Large.chunks), size_bytes=_zip_bytes(root, members), version=_zip_version(members)
    )


class _Drain(io.RawIOBase):
    """A stream that keeps what was written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        body = b"".join(self._parts)
        self._parts.clear()
        return body


def _zip(root: str, members: Members, read: Callable[[Large], Iterator[bytes]]) -> Iterator[bytes]:
    """Nothing is compressed: releases of the compressor differ, and a program is small."""
    drain = _Drain()
    with zipfile.ZipFile(drain, "w") as archive:
        for name, body in members.items():
            info = zipfile.ZipInfo(f"{root}/{name}", date_time=_EPOCH)
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=isinstance(body, Large)) as member:
                for chunk in [body] if isinstance(body, bytes) else read(body):
                    member.write(chunk)
                    yield drain.take()
    yield drain.take()


def _zip_bytes(root: str, members: Members) -> int:
    """Size of the archive, told without reading its large files."""
    end = listed_bytes = 0
    for name, body in members.items():
        large_bytes = body.told().st_size if isinstance(body, Large) else 0
        far = 2 * (large_bytes > zipfile.ZIP64_LIMIT) + (end > zipfile.ZIP64_LIMIT)
        entry_bytes = _ENTRY_BYTES + len(f"{root}/{name}")
        listed_bytes += entry_bytes + (_ZIP64_ENTRY_BYTES + _ZIP64_FIELD_BYTES * far if far else 0)
        alone_bytes = sum(len(chunk) for chunk in _zip(root, {name: body}, lambda large: iter(())))
        end += alone_bytes - entry_bytes - _END_BYTES + large_bytes
    return end + listed_bytes + _END_BYTES + _ZIP64_END_BYTES * (end > zipfile.ZIP64_LIMIT)


def _zip_version(members: Members) -> str:
    digest = hashlib.sha256()
    for name, body in members.items():
        mark = body if isinstance(body, bytes) else _file_mark(body)
        digest.update(f"{name} {len(mark)} ".encode() + mark)
    return digest.hexdigest()[:32]


def _file_mark(large: Large) -> bytes:
    told = large.told()
    return f"{told.st_ino} {told.st_mtime_ns} {told.st_size}".encode()
