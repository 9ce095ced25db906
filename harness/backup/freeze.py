"""A folder as it is now, while others go on writing in it: a second tree of hard links.

Files of the store are written once, replaced in one step, or only ever appended to: a link keeps what it had, though
the name be removed or point to something newer. Takes milliseconds per thousand files and no space.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PREFIX = ".backup-"
LOCK = ".backup.lock"
"""In the root; held while a backup is made, it goes into none."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
DAMAGED = frozenset({errno.EIO, errno.ESTALE, errno.EBADMSG, errno.EUCLEAN})
"""What a disk says that does not give what lies there, though the rest may be whole."""
Unread = Callable[[Path, OSError], None]
"""Called with what nobody lets us read, or a disk does not give, named below the root, and why; it is left out unless
this raises."""


def unread_raise(path: Path, error: OSError) -> NoReturn:
    """Leave nothing out."""
    raise error


@contextmanager
def frozen(root: Path, unread: Unread = unread_raise) -> Iterator[Path]:
    """Such a tree of `root`, inside it, for the time of the block. What an earlier, killed backup left is removed.

    Whoever calls this holds `LOCK`: what another one is just reading would be removed as well.
    """
    for left in root.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    tree = root / f"{PREFIX}{os.getpid()}"
    tree.mkdir(mode=0o700)
    try:
        _links(root, tree, unread)
        yield tree
    finally:
        shutil.rmtree(tree, ignore_errors=True)


@dataclass(frozen=True)
class _Level:
    """A folder on the way."""

    path: Path
    """Below the root."""
    descriptor: int
    names: Iterator[str]
    """In it, those that are still to come."""


def _links(root: Path, tree: Path, unread: Unread) -> None:
    """Follows no link on the way, by descriptors: people's code may swap a folder of a run for a link meanwhile."""
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    names = (name for name in _listed(top) if not name.startswith(PREFIX) and name != LOCK)
    levels = [_Level(Path(), top, names)]
    try:
        while levels:
            here = levels[-1]
            name = next(here.names, None)
            if name is None:
                os.close(levels.pop().descriptor)
                continue
            try:
                inner = _freeze(name, here, tree / here.path / name)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it went between the listing and now, as if a moment before
            except OSError as error:
                if not is_unread(error):
                    raise
                unread(here.path / name, error)
                continue
            if inner is not None:
                levels.append(inner)
    finally:
        for level in levels:
            os.close(level.descriptor)


def is_unread(error: OSError) -> bool:
    """Whether it is the fault of one thing that is read, not of what is written."""
    return isinstance(error, PermissionError) or error.errno in DAMAGED


def _listed(folder: int) -> list[str]:
    """Names in a folder by its descriptor, which `Path` does not know."""
    return os.listdir(folder)


def _freeze(name: str, here: _Level, copy: Path) -> _Level | None:
    """Keep a plain file. Of a folder, make an empty copy, and return what lies in it."""
    mode = os.stat(name, dir_fd=here.descriptor, follow_symlinks=False).st_mode
    if stat.S_ISREG(mode):
        _link(name, here.descriptor, copy)
    if not stat.S_ISDIR(mode):
        return None
    descriptor = os.open(name, _FOLDER, dir_fd=here.descriptor)
    try:
        names = _listed(descriptor)
        copy.mkdir()
        copy.chmod(stat.S_IMODE(os.fstat(descriptor).st_mode) | 0o700)
    except OSError:
        os.close(descriptor)
        raise
    return _Level(here.path / name, descriptor, iter(names))


def _link(name: str, folder: int, copy: Path) -> None:
    """Link a plain file; copy it where that cannot be done (another owner's, a file system without links)."""
    try:
        os.link(name, copy, src_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        _copy(name, folder, copy)


def _copy(name: str, folder: int, copy: Path) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as source:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode):
            return
        try:
            with copy.open("xb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
                os.fchmod(out.fileno(), stat.S_IMODE(known.st_mode))
        except OSError:
            copy.unlink(missing_ok=True)
            raise
    os.utime(copy, (known.st_atime, known.st_mtime))
