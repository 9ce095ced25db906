"""A checkpoint that a node made is put in place: an older one goes only when the newer lies there for good.

A kill at any point leaves one of them in place, or the one of the same name as `.old-NAME`, which whoever comes next
takes back (`worker.runtime.checkpoint` does so with its own).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.ids import new_id
from harness.store import folder_beneath
from worker.fence import OLD, fence_raise
from worker.transfer.tree import CHECKPOINT_NAME


def checkpoint_place(root: Path, checkpoints: str, name: str, *, staged: Path, gone: Path) -> None:
    """Put the folder `staged`, whose files are on the disk for good, among the checkpoints.

    One of that name moves to `gone` afterwards; it stays where this fails. Raises `OSError`, `UnsafePath`.
    """
    _flush(staged)
    with folder_beneath(root, checkpoints) as place:
        _take_back(place, gone)
        old = checkpoint_exchange(place, name, staged)
        os.fsync(place)
        _move(place, [old], gone)


def checkpoint_exchange(place: int, name: str, new: Path | str, *, new_in: int | None = None) -> str:
    """Rename `new` (in the folder `new_in`, if it is given) to `name` in the folder `place`, by their descriptors.

    One of that name gives way; returns what it is called then. It is back where this fails. Raises `OSError`.
    """
    old = f"{OLD}{name}"
    with suppress(FileNotFoundError):
        os.rename(name, old, src_dir_fd=place, dst_dir_fd=place)
    try:
        os.rename(new, name, src_dir_fd=new_in, dst_dir_fd=place)
    except OSError:
        with suppress(OSError):
            os.rename(old, name, src_dir_fd=place, dst_dir_fd=place)
        raise
    return old


def checkpoints_remove(root: Path, checkpoints: str, names: Iterable[str], *, gone: Path) -> None:
    """Move those that are there to `gone`, once all that was placed is on the disk for good.

    Raises `OSError`, `UnsafePath`.
    """
    with folder_beneath(root, checkpoints) as place:
        os.fsync(place)
        _move(place, names, gone)


def checkpoints_claim(root: Path, checkpoints: str, token: int) -> None:
    """From now on no older attempt that sees the store writes there; what a kill left half replaced is in place again.

    Raises `OSError`, `UnsafePath`.
    """
    with folder_beneath(root, checkpoints) as place:
        fence_raise(place, token)
        _take_back(place, None)


def _take_back(place: int, gone: Path | None) -> None:
    """One whose successor is there is not needed any more, and moves to `gone`."""
    for old in os.listdir(place):
        name = old.removeprefix(OLD)
        if name == old or not CHECKPOINT_NAME.fullmatch(name):
            continue
        try:
            os.stat(name, dir_fd=place, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(old, name, src_dir_fd=place, dst_dir_fd=place)
            continue
        if gone is not None:
            os.fsync(place)
            _move(place, [old], gone)


def _move(place: int, names: Iterable[str], gone: Path) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.rename(name, gone / new_id(), src_dir_fd=place)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
