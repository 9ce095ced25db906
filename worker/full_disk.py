"""Whose disk is full: a node's own, where another node may do, or the store's, where none would."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from worker.home import cache_dir

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
ROOM_BYTES = 1 << 20
"""A disk with less is the one that is full: what a node writes of a run by itself are a few small files."""


def is_own(job: Path, error: Exception) -> bool:
    """Whether a disk of this node's own is to blame for an error; `job`: the folder of the job that it has to do with.

    Where the home lies on one disk with the store, that is the store's.
    """
    if cache_dir() is not None:
        return True  # the store is out of reach
    try:
        if isinstance(error, OSError) and error.errno == errno.EDQUOT:
            # a quota does not show in what is free
            return isinstance(error.filename, str) and _disk_of(Path(error.filename)) != _disk_of(job)
        disk = os.statvfs(_there(job))
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize >= ROOM_BYTES


def _disk_of(path: Path) -> int:
    return _there(path).stat().st_dev


def _there(path: Path) -> Path:
    """The path, or the closest of the folders around it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
