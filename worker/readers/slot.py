"""The folder of a waiting reader, bound read-only before its program is known; filled once the program is.

The program is copied, since people edit theirs; the data are hard-linked. No link is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from worker.home import node_name, run_dir
from worker.trees import DEPTH_MAX, make_readable, tree_remove

PROGRAM_BYTES = 16 << 20
"""More is not copied."""
_NEVER = {errno.EXDEV, errno.EPERM, errno.ENOTSUP}
"""Another file system, files of somebody else, a file system without hard links."""


class Unfit(Exception):
    """These files cannot be put into a slot: the program is read where they lie."""


class Unlinkable(Unfit):
    """Data cannot be linked from where they lie, nor will others be."""


@dataclass(frozen=True)
class Slot:
    """Where one reader looks for program and data."""

    folder: Path

    @property
    def program(self) -> Path:
        """With model.py itself."""
        return self.folder / "program"

    @property
    def data(self) -> Path:
        """The packed dataset."""
        return self.folder / "data"

    def fill(self, program: Path, data: Path, *, readable: bool) -> None:
        """Put both in; `readable`: by other user ids. Raises `Unfit`, and leaves it as empty as it was."""
        try:
            _mirror(program, self.program, _Copies())
            _mirror(data, self.data, _link)
            if readable:
                make_readable(self.folder)
        except (Unfit, OSError) as error:
            self.empty()
            raise error if isinstance(error, Unfit) else Unfit(str(error)) from error

    def empty(self) -> None:
        """Take out what is in it; the two folders stay, since they are bound."""
        for folder in (self.program, self.data):
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    tree_remove(Path(entry.path))
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - an entry of this scan

    def remove(self) -> None:
        """With all that is in it."""
        tree_remove(self.folder)


def slot_make() -> Slot:
    """An empty one. Raises `OSError`."""
    slot = Slot(Path(tempfile.mkdtemp(dir=_slots())))
    for folder in (slot.program, slot.data):
        folder.mkdir()
    return slot


def slots_remove() -> None:
    """Remove what a killed agent of this node left: there is one agent at a time."""
    for folder in _slots().iterdir():
        tree_remove(folder)


def _slots() -> Path:
    return run_dir("readers", node_name())


def _mirror(source: Path, target: Path, put: Callable[[str, int, Path], None]) -> None:
    """The same folders with the same files, each by `put`. Raises `Unfit`, `OSError`."""
    for path, folders, files, folder_fd in os.fwalk(source, onerror=_raise, follow_symlinks=False):
        inside = Path(path).relative_to(source)
        if len(inside.parts) > DEPTH_MAX:
            raise Unfit(f"{inside} lies too deep")
        for name in folders:
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
                raise Unfit(f"{inside / name} is a link")
            (target / inside / name).mkdir()
        for name in files:
            if not stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
                raise Unfit(f"{inside / name} is no plain file")
            put(name, folder_fd, target / inside / name)


def _raise(error: OSError) -> None:
    raise error


def _link(name: str, folder_fd: int, target: Path) -> None:
    try:
        os.link(name, target, src_dir_fd=folder_fd, follow_symlinks=False)
    except OSError as error:
        raise Unlinkable(error.strerror) if error.errno in _NEVER else error from error


class _Copies:
    """Copies files, all of them together up to `PROGRAM_BYTES`."""

    def __init__(self) -> None:
        self._left_bytes = PROGRAM_BYTES

    def __call__(self, name: str, folder_fd: int, target: Path) -> None:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        with os.fdopen(source, "rb") as file, target.open("xb") as copy:
            self._left_bytes -= os.fstat(source).st_size
            if self._left_bytes < 0:
                raise Unfit("the program is large")
            shutil.copyfileobj(file, copy)
