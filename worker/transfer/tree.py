"""What travels between the store and a node's cache: flat folders whose files are known by size and SHA-256.

Portal and nodes both speak it, so names are checked in one place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from worker.plan import RunPaths
from worker.telemetry.tail import open_below

FILES_MAX = 500
_BLOCK_BYTES = 8 << 20
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
CHECKPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
JOB_FOLDER = re.compile(rf"(?:jobs|inspections)/{_PART}|calibration/{_PART}/{_PART}")
"""Folders of the store that hold a `program/`."""
DATASET_FOLDER = re.compile(r"datasets/[0-9a-f]{64}/packed")
_JOB = RunPaths(Path("jobs", _PART))
CHECKPOINT_FOLDER = re.compile(f"{_JOB.checkpoints}/{CHECKPOINT_NAME.pattern}")
AHEAD_FOLDER = re.compile(f"{DATASET_FOLDER.pattern}|{_JOB.program}|{CHECKPOINT_FOLDER.pattern}")
"""Folders of the store that go to a node while the job that needs them waits."""


@dataclass(frozen=True, kw_only=True)
class TreeFile:
    """One file of a tree."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Tree:
    """A flat folder: its files, in the order of their names."""

    files: tuple[TreeFile, ...]

    @property
    def digest(self) -> str:
        """Name of the content: SHA-256 over names, sizes and hashes."""
        body = [[file.name, file.bytes, file.sha256] for file in self.files]
        return hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [{"name": file.name, "bytes": file.bytes, "sha256": file.sha256} for file in self.files]

    @staticmethod
    def from_list(body: object) -> Tree:
        """Inverse of `to_list`. Raises `ValueError` for what is no tree, or has a name that may not be written."""
        if not isinstance(body, list) or len(body) > FILES_MAX:
            raise ValueError("this is not a list of files")
        try:
            files = [TreeFile(name=str(row["name"]), bytes=row["bytes"], sha256=str(row["sha256"])) for row in body]
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a list of files: {error}") from error
        for file in files:
            sized = isinstance(file.bytes, int) and not isinstance(file.bytes, bool) and file.bytes >= 0
            if not FILE_NAME.fullmatch(file.name) or not sized or not _SHA256.fullmatch(file.sha256):
                raise ValueError(f"{file.name!r} is not a file of a tree")
        if len({file.name for file in files}) != len(files):
            raise ValueError("a file is named twice")
        return Tree(tuple(sorted(files, key=lambda file: file.name)))


def job_folder(path: str) -> str:
    """`jobs/<id>` and the like: the part of a path in control's store that a node may ask for. Raises `ValueError`."""
    return _tail(path, JOB_FOLDER)


def dataset_folder(path: str) -> str:
    """`datasets/<sha256>/packed` of a path in control's store. Raises `ValueError`."""
    return _tail(path, DATASET_FOLDER)


def ahead_folder(path: str) -> str:
    """`jobs/<id>/program` and the like: the part of a path in control's store that may go ahead of a run.

    Raises `ValueError`.
    """
    return _tail(path, AHEAD_FOLDER)


def _tail(path: str, wanted: re.Pattern[str]) -> str:
    parts = Path(path).parts
    for length in (2, 3, 5):
        tail = "/".join(parts[-length:])
        if wanted.fullmatch(tail):
            return tail
    raise ValueError(f"{path} is not a folder of the store that a node may ask for")


def tree_here(root: Path, folder: Path, names: Sequence[str] | None = None) -> Tree | None:
    """The same as `tree_read`; None also where it cannot be read."""
    try:
        return tree_read(root, folder, names)
    except OSError:
        return None


def tree_read(
    root: Path, folder: Path, names: Sequence[str] | None = None, read: Callable[[], None] = lambda: None
) -> Tree | None:
    """The flat folder `folder` below `root`, which ranks may write, as a tree; no link is followed.

    Of the files `names`, else of all whose names do not begin with a dot (those are being made). None where it is none,
    or is gone. `read` is called after each block, and may raise. Raises `OSError` where that cannot be told now.
    """
    files = []
    try:
        if names is None:
            names = sorted(path.name for path in (root / folder).iterdir() if not path.name.startswith("."))
        for name in names:
            fd = open_below(root, folder / name)
            if fd is None:
                return None
            with os.fdopen(fd, "rb") as stream:
                files.append({"name": name, "sha256": _sha256(stream, read), "bytes": stream.tell()})
        return Tree.from_list(files)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _sha256(stream: BinaryIO, read: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    while block := stream.read(_BLOCK_BYTES):
        digest.update(block)
        read()
    return digest.hexdigest()


def file_mark(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """Size and time of change in ns of a plain file; None for anything else, and where it has gone meanwhile."""
    try:
        told = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (told.st_size, told.st_mtime_ns) if stat.S_ISREG(told.st_mode) else None
