"""The store: names every file once, and serves large ones without reading them into memory."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from asgiref.sync import sync_to_async

from harness.plain import plain
from worker.plan import RunPaths
from worker.words import size_words

CHUNK_BYTES = 1 << 20
JSON_BYTES_MAX = 8 << 20
JSON_VALUES_MAX = 500_000
"""Of a file that a program wrote, each time somebody looks at it: a value may be three bytes, and take 150 when it is
read. Results of ours have 60,000 at most, in 2 MiB."""
_RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")


@dataclass(frozen=True)
class DatasetPaths:
    """Files of one dataset content."""

    root: Path

    @property
    def source(self) -> Path:
        """Folder that holds the uploaded file under its own name."""
        return self.root / "source"

    @property
    def packed(self) -> Path:
        """Training-ready form: profile.json, table.parquet or images.parquet, thumbnails/."""
        return self.root / "packed"


@dataclass(frozen=True)
class StorePaths:
    """Names every file and folder below the store."""

    root: Path

    @property
    def uploads(self) -> Path:
        """Folder of uploads in progress."""
        return self.root / "uploads"

    def upload(self, upload_id: str) -> Path:
        """Bytes received so far."""
        return self.uploads / upload_id

    @property
    def datasets(self) -> Path:
        """One folder per content hash."""
        return self.root / "datasets"

    def dataset(self, sha256: str) -> DatasetPaths:
        """Folder of one content."""
        return DatasetPaths(self.datasets / sha256)

    @property
    def contents_lock(self) -> Path:
        """Held, with others, by who places a content, and alone by who removes one."""
        return self.root / "contents.lock"

    @property
    def gone(self) -> Path:
        """What is being removed: out of sight in one moment, so that a kill leaves no half of it in its place."""
        return self.root / "gone"

    @property
    def orphans(self) -> Path:
        """One empty file per folder of a job that the database does not know; its time: since when that is known."""
        return self.root / "orphans"

    @property
    def jobs(self) -> Path:
        """One folder per job."""
        return self.root / "jobs"

    def job(self, job_id: str) -> RunPaths:
        """Files of one job."""
        return RunPaths(self.jobs / job_id)

    @property
    def bucket(self) -> Path:
        """What is known of the copy in the object store; no part of a backup."""
        return self.root / "bucket"

    def free_bytes(self) -> int:
        """Free space on the store's disk."""
        self.root.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.root).free


class UnsafePath(Exception):
    """A folder that ranks may write holds a link where a plain file is expected, or the file is too large."""


class FileTooLarge(UnsafePath):
    """A file that ranks may write has more bytes or values than are read."""


def open_beneath(root: Path, relative: Path | str) -> BufferedReader:
    """Open a plain file below `root` for reading and follow no link on the way.

    For folders that people's code can write. Raises `FileNotFoundError`, `UnsafePath`.
    """
    parts = Path(relative).parts
    if not parts or any(part in {"..", "/", ""} for part in parts) or Path(relative).is_absolute():
        raise UnsafePath(f"not a path below the run folder: {relative}")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafePath(f"{relative}: {error.strerror}") from error
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsafePath(f"{relative} is not a plain file")
    return os.fdopen(descriptor, "rb")


@contextmanager
def folder_beneath(root: Path, relative: str) -> Iterator[int]:
    """The descriptor of a folder below `root`, made where it is missing; no link is followed. Raises `UnsafePath`."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in Path(relative).parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=folder)
            try:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                raise UnsafePath(f"{relative}: {error.strerror}") from error
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def read_beneath(root: Path, relative: Path | str, limit_bytes: int = 64 << 20) -> bytes:
    """Bytes of a file opened by `open_beneath`. Raises `UnsafePath`, `FileTooLarge`."""
    with open_beneath(root, relative) as stream:
        body = stream.read(limit_bytes + 1)
    if len(body) > limit_bytes:
        raise FileTooLarge(f"{relative} is larger than {size_words(limit_bytes)}")
    return body


def json_beneath(
    root: Path, relative: Path | str, limit_bytes: int = JSON_BYTES_MAX, limit_values: int = JSON_VALUES_MAX
) -> Any:
    """The JSON of a file opened by `open_beneath`, as `harness.plain.plain` leaves it.

    Raises `FileNotFoundError`, `FileTooLarge`, and `UnsafePath` for what is no JSON or too deep.
    """
    body = read_beneath(root, relative, limit_bytes)
    if sum(map(body.count, (b",", b"[", b"{"))) > limit_values:  # one before each value, and those in texts
        raise FileTooLarge(f"{relative} has more than {limit_values:,} values")
    try:
        return plain(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise UnsafePath(f"{relative} is not JSON that can be read: {error}") from error


def tree_sync(root: Path) -> None:
    """Have all below a folder that is ours on the disk for good: after a power cut, what was renamed to its place may
    be there without its bytes."""
    for folder, _, files, descriptor in os.fwalk(root):
        for name in files:
            with Path(folder, name).open("rb") as stream:
                os.fsync(stream.fileno())
        os.fsync(descriptor)


@dataclass(frozen=True, kw_only=True)
class ByteRange:
    """A span of a file: `start` inclusive, `stop` exclusive."""

    start: int
    stop: int


def range_parse(header: str, size_bytes: int) -> ByteRange | None:
    """The single span an HTTP `Range` header asks for; None where there is none or it is not understood (RFC 9110).

    Raises `ValueError` where the span lies outside the file (HTTP 416).
    """
    match = _RANGE.match(header.strip())
    if not match or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size_bytes - int(last)), size_bytes
    else:
        start, stop = int(first), min(size_bytes, int(last) + 1 if last else size_bytes)
    if start >= size_bytes or start >= stop:
        raise ValueError("range not satisfiable")
    return ByteRange(start=start, stop=stop)


def stream_read(stream: BinaryIO, span: ByteRange) -> Iterator[bytes]:
    """The bytes of a span, a chunk at a time; closes the stream."""
    with stream:
        stream.seek(span.start)
        left = span.stop - span.start
        while left > 0 and (chunk := stream.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk


async def stream_read_async(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks, made one by one in the request's own thread: its database connection is closed with the request."""

    def take() -> bytes | None:
        return next(chunks, None)

    while (chunk := await sync_to_async(take)()) is not None:
        yield chunk
