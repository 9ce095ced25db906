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
    if isinstance(error, OSError) and error.errno == errno.EDQUOT:
        return False  # which quota it was nobody can tell: it does not show in what is free
    try:
        disk = os.statvfs(next(folder for folder in (job, *job.parents) if folder.exists()))
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize >= ROOM_BYTES
