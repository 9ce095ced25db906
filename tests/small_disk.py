"""A disk of a few MiB, to be filled: a tmpfs of its own, where this machine lets us mount one."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.untested import untested

NO_MOUNT = untested("full disks", "a tmpfs cannot be mounted here (it takes root and CAP_SYS_ADMIN)")
BLOCK = b"\xa5" * 4096


@contextlib.contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """Mount one at `folder`, gone afterwards. Raises `PermissionError` where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_mib}m,mode=755"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        raise PermissionError(errno.EPERM, done.stderr.strip() or "mount failed", str(folder))
    try:
        yield folder
    finally:
        # lazy: a process that a failed test left may still hold a file
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, name: str = "filler") -> Path:
    """Leave not one free block on the disk of `folder`; remove the file that is returned to free it again."""
    filler = folder / name
    with filler.open("ab", buffering=0) as file:
        try:
            while file.write(BLOCK) == len(BLOCK):
                pass
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
    assert os.statvfs(folder).f_bavail == 0
    return filler
