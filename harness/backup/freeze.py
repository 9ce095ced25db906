"""A folder as it is now, while others go on writing in it: a second tree of hard links.

Files of the store are written once, replaced in one step, or only ever appended to: a link keeps what it had, though
the name be removed or point to something newer. Takes milliseconds per thousand files and no space.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".backup-"
LOCK = ".backup.lock"
"""In the root; held while a backup is made, it goes into none."""


@contextmanager
def frozen(root: Path) -> Iterator[Path]:
    """Such a tree of `root`, inside it, for the time of the block. What an earlier, killed backup left is removed.

    Whoever calls this holds `LOCK`: what another one is just reading would be removed as well.
    """
    for left in root.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    tree = root / f"{PREFIX}{os.getpid()}"
    tree.mkdir(mode=0o700)
    try:
        _links(root, tree)
        yield tree
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _links(root: Path, tree: Path) -> None:
    """Follows no link on the way, by descriptors: people's code may swap a folder of a run for a link meanwhile."""
    for folder, names, files, descriptor in os.fwalk(root, follow_symlinks=False):
        relative = Path(folder).relative_to(root)
        if relative == Path():
            names[:] = [name for name in names if not name.startswith(PREFIX)]
            files = [name for name in files if name != LOCK]
        for name in names:
            _folder(name, descriptor, tree / relative / name)
        for name in files:
            _link(name, descriptor, tree / relative / name)
        if relative != Path():
            shown = os.fstat(descriptor)
            (tree / relative).chmod(stat.S_IMODE(shown.st_mode) | 0o700)


def _folder(name: str, folder: int, copy: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            copy.mkdir(mode=0o700)


def _link(name: str, folder: int, copy: Path) -> None:
    """Link a plain file; copy it where that cannot be done (another owner's, a file system without links)."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        try:
            os.link(name, copy, src_dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:
            _copy(name, folder, copy)
    except FileNotFoundError:
        return  # it went between the listing and now, as if a moment before


def _copy(name: str, folder: int, copy: Path) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as source:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode):
            return
        with copy.open("xb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
            os.fchmod(out.fileno(), stat.S_IMODE(known.st_mode))
    os.utime(copy, (known.st_atime, known.st_mtime))
