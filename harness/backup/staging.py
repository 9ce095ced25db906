"""The folder `.restoring` in one that is being filled: what a restore needs until its last step, which only renames.

Whatever ends a restore, the next one takes back what is left: files that were not moved yet, and by the list `moved`
those that were. A lock keeps two from the same folder; should ours be killed, it lives on in the process that fills the
database. Knows no Django.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.backup.archive import BackupError

FOLDER = ".restoring"
LOCK_S = 20.0
"""So long a process that fills a database may live on after its restore was killed."""
_POLL_S = 0.2
_HARMLESS = {"lost+found", FOLDER}


class Staging:
    """What a restore has in one folder; made by `staging`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own = folder, folder / FOLDER
        self._moved = self.own / "moved"
        self._name, self.names = self._read()

    @property
    def tree(self) -> Path:
        """Where to unpack. A folder of another name each time: a process of a killed restore finds its own no more."""
        return self.own / self._name

    def _read(self) -> tuple[str, list[str]]:
        """Of the list that an earlier restore left."""
        try:
            told = json.loads(self._moved.read_text())
        except FileNotFoundError:
            return "", []
        except OSError as error:
            raise BackupError(f"{self.folder} cannot be used: {error.strerror}") from error
        return str(told["tree"]), [str(name) for name in told["names"]]

    def whole(self) -> bool:
        """Whether all that was to be moved is where it belongs."""
        return not any(os.path.lexists(self.tree / name) for name in self.names)

    def empty_check(self) -> None:
        """Raises `BackupError` where the folder holds anything but what a restore left there."""
        ours = {name for name in self.names if not os.path.lexists(self.tree / name)}
        try:
            there = sorted(entry.name for entry in self.folder.iterdir() if entry.name not in _HARMLESS | ours)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackupError(f"{self.folder} cannot be used: {error.strerror}") from error
        if there:
            raise BackupError(
                f"{self.folder} is not empty (it holds {there[0]}); nothing is overwritten: "
                "name a new folder by DLH_HOME"
            )

    def begin(self) -> None:
        """Take back what an earlier restore left, and make room for this one."""
        self.take_back()
        for left in self.own.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
        self._name = secrets.token_hex(4)
        self.tree.mkdir(mode=0o700)

    def move_up(self) -> None:
        """Move all to where it belongs, after a note of it."""
        self.names = sorted(entry.name for entry in self.tree.iterdir())
        draft = self.own / "moved.draft"
        with draft.open("w") as out:
            json.dump({"tree": self._name, "names": self.names}, out)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self._moved)
        for name in self.names:
            (self.tree / name).rename(self.folder / name)

    def take_back(self) -> None:
        """Undo `move_up`, however far it came; harmless where nothing was moved."""
        for name in self.names:
            if os.path.lexists(self.folder / name) and not os.path.lexists(self.tree / name):
                (self.folder / name).rename(self.tree / name)
        self.keep()

    def keep(self) -> None:
        """What was moved stays."""
        self.names = []
        self._moved.unlink(missing_ok=True)


def settle(folder: Path, check: Callable[[Staging], None] = lambda one: None) -> None:
    """Before anything works in this folder: what a restore has moved there belongs to it from now on, what else it has
    left goes.

    Raises `BackupError` where a restore goes on, where only a part was moved, or where `check` does; all is as it was
    then.
    """
    own = folder / FOLDER
    try:
        lock = (own / "lock").open("a")
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupError(f"{folder} cannot be used: {error.strerror}") from error
    with lock:
        _lock(lock.fileno(), own)
        one = Staging(folder)
        if not one.whole():
            raise BackupError(unfinished(folder))
        check(one)
        one.keep()
        shutil.rmtree(own, ignore_errors=True)


def unfinished(folder: Path) -> str:
    """What to do where a restore was killed."""
    return f"a restore into {folder} was not finished: run it again, or empty the folder"


@contextmanager
def staging(folder: Path) -> Iterator[tuple[Staging, int]]:
    """What a restore has in this folder, and its lock; both gone afterwards, and the folder if nothing came.

    Raises `BackupError` where another restore goes on.
    """
    made = not folder.exists()
    own = folder / FOLDER
    for each in (folder, own):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (own / "lock").open("a") as lock:
        _lock(lock.fileno(), own)
        one = Staging(folder)
        try:
            one.empty_check()
            yield one, lock.fileno()
        finally:
            if not one.names:
                shutil.rmtree(own, ignore_errors=True)
            if made and not any(folder.iterdir()):
                folder.rmdir()


def _lock(lock: int, own: Path) -> None:
    end_s = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > end_s:
                raise BackupError(f"another restore into {own.parent} goes on; wait until it has ended") from error
            time.sleep(_POLL_S)
    if (own / "lock").stat().st_ino != os.fstat(lock).st_ino:
        raise BackupError(f"another restore into {own.parent} has just ended")
