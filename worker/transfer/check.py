"""Whether what lies in a node's cache still is what arrived: a bit may flip on a disk long after."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from worker.transfer.tree import Tree, TreeFile

BLOCK_BYTES = 1 << 20


class Checked(NamedTuple):
    """What a look at a folder found."""

    bad: list[str]
    """Files that are not as they should be: another hash or size, gone, or not to be read."""
    whole: bool
    """All was read; else time was up."""


class NoTime(Exception):
    """The look has taken as long as it may."""


def tree_check(folder: Path, tree: Tree, limit_s: float) -> Checked:
    """Hash the files of a tree, the small ones first, for at most `limit_s`."""
    end_s = time.monotonic() + limit_s

    def in_time(_: int) -> None:
        if time.monotonic() >= end_s:
            raise NoTime

    bad: list[str] = []
    whole = True
    for file in sorted(tree.files, key=lambda file: file.bytes):
        try:
            if not _is_good(folder, file, in_time):
                bad.append(file.name)
        except NoTime:
            whole = False
    return Checked(bad, whole)


def _is_good(folder: Path, file: TreeFile, read: Callable[[int], None]) -> bool:
    try:
        if (folder / file.name).stat().st_size != file.bytes:
            return False
        return file_sha256(folder / file.name, read) == file.sha256
    except OSError:  # gone, or a sector that cannot be read
        return False


def content_digest(folder: Path, read: Callable[[int], None]) -> str:
    """Of the flat folder as it is: the name of a content that is whole. Raises `OSError`, and what `read` raises."""
    files = [
        TreeFile(name=path.name, bytes=path.stat().st_size, sha256=file_sha256(path, read))
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
    ]
    return Tree(tuple(files)).digest


def file_sha256(path: Path, read: Callable[[int], None]) -> str:
    """Of one file; `read` is told the bytes of each block before the next, and may wait or raise."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            read(len(block))
    return digest.hexdigest()
