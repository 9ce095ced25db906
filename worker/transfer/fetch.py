"""Fetch a tree: byte ranges over several connections, gone on with after a cut, every file checked by its SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from worker.transfer.heeding import heeding
from worker.transfer.portal import Portal, Stopped, TransferError, patiently
from worker.transfer.signed import BucketAway, Signed
from worker.transfer.tree import Tree, TreeFile

CHUNK_BYTES = 4 << 20
AWAY_LIMIT_S = 600.0
"""So long one range may stay without an answer."""
READ_BYTES = 1 << 20
_MARKS = ".{}.chunks"
"""Name of the file beside a half-fetched one that tells, a number a line, which of its chunks are there."""
_log = logging.getLogger(__name__)


class Source(NamedTuple):
    """Where the portal serves files of a tree: a path of its API, and what is asked for beside `name`."""

    path: str
    query: dict[str, str]
    addresses: Mapping[str, str] = MappingProxyType({})
    """Of files that the object store has as well, signed: by name."""


def _nobody(_: int, __: int) -> None:
    """Nobody wants to be told."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a fetch goes about it."""

    connections: int = 4
    ahead: bool = False
    """It is for a job that still waits: it takes no room that others like it need."""
    arrived: Callable[[int, int], None] = _nobody
    """Told now and then: bytes that are here, of how many."""


PLAIN = Manner()


class Damaged(TransferError):
    """A file did not arrive as the store has it, twice."""


@dataclass
class _Half:
    """One file while it arrives. Open only while chunks of it are under way: a tree has more files than a process may
    have open."""

    file: TreeFile
    path: Path
    done: set[int] = field(default_factory=set)
    fd: int = -1
    marks: int = -1
    """File of the chunks that are there."""
    good: bool | None = None
    """Whether it is as it should be, once it has arrived."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    hashed: int = 0
    """Chunks at its beginning that went through `digest`."""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def marks_path(self) -> Path:
        return self.path.with_name(_MARKS.format(self.file.name))

    @property
    def chunks(self) -> int:
        return -(-self.file.bytes // CHUNK_BYTES)

    def span(self, chunk: int) -> tuple[int, int]:
        return chunk * CHUNK_BYTES, min(self.file.bytes, (chunk + 1) * CHUNK_BYTES)

    @property
    def here_bytes(self) -> int:
        return sum(stop - start for start, stop in map(self.span, self.done))

    def open(self) -> None:
        """Have it open; nothing where it is."""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self.marks = os.open(self.marks_path, flags, 0o600)

    def recall(self) -> None:
        """Make it as long as it shall be, and find what an earlier fetch got of it."""
        done: set[int] = set()
        if os.fstat(self.fd).st_size == self.file.bytes:
            done = {int(line) for line in self.marks_path.read_text().split() if line.isdigit()}
        else:
            os.ftruncate(self.marks, 0)
            os.ftruncate(self.fd, self.file.bytes)
        self.done = {chunk for chunk in done if chunk * CHUNK_BYTES < self.file.bytes}

    def keep(self, chunk: int) -> None:
        """A chunk has been written."""
        with self.lock:
            os.write(self.marks, f"{chunk}\n".encode())
            self.done.add(chunk)

    def hash_on(self) -> None:
        """Hash what has arrived without a gap, so that little is left to do at the end."""
        while self.hashed in self.done:
            start, stop = self.span(self.hashed)
            while start < stop and (block := os.pread(self.fd, min(READ_BYTES, stop - start), start)):
                self.digest.update(block)
                start += len(block)
            self.hashed += 1

    def settle(self) -> bool:
        """All of it has arrived: whether it is as it should be. It is on the disk then, else it begins anew."""
        if self.good is None:
            self.open()
            self.hash_on()
            self.good = self.digest.hexdigest() == self.file.sha256
            if self.good:
                os.fsync(self.fd)
            else:
                self.path.unlink(missing_ok=True)
                self.marks_path.unlink(missing_ok=True)
            self.close()
        return self.good

    def close(self) -> None:
        """Nothing where it is closed."""
        for fd in (self.fd, self.marks):
            if fd >= 0:
                os.close(fd)
        self.fd = self.marks = -1


@dataclass
class _Ways:
    """Where bytes come from: the object store while it answers, for files with an address there; else the portal."""

    portal: Portal
    source: Source
    signed: Signed | None
    manner: Manner

    @property
    def connections(self) -> list[HTTPConnection]:
        """Those on which something may be waited for."""
        return self.portal.connections + (self.signed.connections if self.signed is not None else [])

    def signed_span(self, name: str, start: int, stop: int) -> Iterator[bytes] | None:
        """From the object store; None where that is not the way."""
        address = self.source.addresses.get(name)
        if not address or self.signed is None or not self.signed.answers:
            return None
        return self.signed.span(address, start, stop)

    def span(self, name: str, start: int, stop: int) -> Iterator[bytes]:
        """From the portal."""
        return self.portal.span(self.source.path, start, stop, **self.source.query, name=name)


def tree_fetch(
    portal: Portal,
    source: Source,
    tree: Tree,
    folder: Path,
    *,
    stopped: Callable[[], bool] = lambda: False,
    signed: Signed | None = None,
    manner: Manner = PLAIN,
) -> int:
    """Make `folder` hold the tree; return how many bytes were fetched. What an earlier call got is kept.

    `signed`: takes what it can from the object store. Raises `TransferError`, `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fetched = 0
    for last in (False, True):
        bad, count = _round(_Ways(portal, source, signed, manner), tree, folder, stopped)
        fetched += count
        if not bad:
            break
        signed = None  # damaged there, perhaps; the portal has it
        if last:
            raise Damaged(f"{', '.join(bad)} did not arrive as the store has it, twice")
    _keep_only(folder, tree)
    return fetched


def _round(ways: _Ways, tree: Tree, folder: Path, stopped: Callable[[], bool]) -> tuple[list[str], int]:
    """(files that are not as they should be, bytes fetched)."""
    with contextlib.ExitStack() as opened:
        halves = [_Half(file, folder / file.name) for file in tree.files]
        for half in halves:
            opened.callback(half.close)
            half.open()
            half.recall()
            half.close()
        with ways.portal.apart() as own:
            fetched = _chunks_fetch(replace(ways, portal=own), halves, stopped)
        return [half.file.name for half in halves if not half.settle()], fetched


def _missing(halves: list[_Half]) -> Iterator[tuple[_Half, int]]:
    for half in halves:
        yield from ((half, chunk) for chunk in range(half.chunks) if chunk not in half.done)


def _chunks_fetch(ways: _Ways, halves: list[_Half], stopped: Callable[[], bool]) -> int:
    """Fetch what is missing; return how many bytes that was. The caller's thread hashes meanwhile."""
    waiting = deque(_missing(halves))
    fetched, ended, manner = 0, threading.Event(), ways.manner
    here, total = sum(half.here_bytes for half in halves), sum(half.file.bytes for half in halves)

    def stop() -> bool:
        return ended.is_set() or stopped()

    with (
        heeding(stop, lambda: ways.connections),
        ThreadPoolExecutor(manner.connections, thread_name_prefix="fetch") as pool,
    ):
        running: dict[Future[int], _Half] = {}
        try:
            while waiting or running:
                manner.arrived(here + fetched, total)
                while waiting and len(running) < manner.connections * 2:
                    half, chunk = waiting.popleft()
                    half.open()
                    running[pool.submit(_chunk_fetch, ways, half, chunk, stop)] = half
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    fetched += future.result()
                    half = running.pop(future)
                    half.hash_on()
                    if len(half.done) == half.chunks:
                        half.settle()
        finally:
            ended.set()
            for future in running:
                future.cancel()
    return fetched


def _chunk_fetch(ways: _Ways, half: _Half, chunk: int, stopped: Callable[[], bool]) -> int:
    start, stop = half.span(chunk)

    def written(blocks: Iterator[bytes]) -> int:
        position = start
        for block in blocks:
            if stopped():
                raise Stopped("it is not wanted any more")
            rest = memoryview(block)
            while rest:
                count = os.pwrite(half.fd, rest, position)
                position, rest = position + count, rest[count:]
        return position - start

    def once() -> int:
        if (blocks := ways.signed_span(half.file.name, start, stop)) is not None:
            try:
                return written(blocks)
            except BucketAway as error:
                _log.warning("%s comes by the portal: %s", half.file.name, error)
        return written(ways.span(half.file.name, start, stop))

    count = patiently(once, limit_s=AWAY_LIMIT_S, stopped=stopped)
    half.keep(chunk)
    return count


def _keep_only(folder: Path, tree: Tree) -> None:
    """Remove whatever is not of the tree: notes of chunks, files of an older listing."""
    names = {file.name for file in tree.files}
    for path in folder.iterdir():
        if path.name not in names:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
