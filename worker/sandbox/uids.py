"""One user id per running sandbox, where the agent is root: two runs can never touch each other's files."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from worker.home import run_dir
from worker.sandbox.model import SandboxError

DEFAULT_RANGE = "60100-60999"
"""Ids that Debian reserves for use on demand; setting `DLH_SANDBOX_UIDS`."""

HOST_LOCKS = Path("/run/dlh-uids")


def uid_range() -> range:
    """The ids this node may use."""
    low, _, high = os.environ.get("DLH_SANDBOX_UIDS", DEFAULT_RANGE).partition("-")
    return range(int(low), int(high or low) + 1)


def way_gid() -> int:
    """Group of programs that find their folders by real paths, and of the folders above these (`trees.let_through`)."""
    return uid_range()[0]


def _locks() -> Path:
    """Locks of the ids: for the whole host, since a run ends all processes of its id, whichever agent began them."""
    try:
        HOST_LOCKS.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return run_dir("uids")
    return HOST_LOCKS


class UidSlot:
    """An id held by an exclusive lock, which the kernel frees even if this process is killed."""

    def __init__(self) -> None:
        folder = _locks()
        for uid in uid_range():
            fd = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                continue
            self.uid, self._fd = uid, fd
            return
        raise SandboxError("Every user id for sandboxes is in use; widen DLH_SANDBOX_UIDS.")

    def release(self) -> None:
        """Give the id back."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
