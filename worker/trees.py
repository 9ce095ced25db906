"""Folders that a hostile program filled: owners, modes, sizes, removal. No link is followed, and no depth too great."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

DEPTH_MAX = 64
"""Folders deeper than this are left as they are: no program of ours makes them, and walking them breaks Python."""


def _walk(root: Path) -> Iterator[tuple[int, list[str], list[str]]]:
    """(open folder, names of folders, names of files) of every folder down to `DEPTH_MAX`."""
    above = str(root).count(os.sep)
    for path, folders, files, folder_fd in os.fwalk(root, follow_symlinks=False):
        yield folder_fd, folders, files
        if path.count(os.sep) - above >= DEPTH_MAX:
            folders.clear()


def give_tree(root: Path, uid: int) -> None:
    """Make `uid` the owner of everything below `root`, links themselves, never what they point to."""
    for folder_fd, folders, files in _walk(root):
        os.fchown(folder_fd, uid, uid)
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, uid, uid, dir_fd=folder_fd, follow_symlinks=False)


def let_through(path: Path, gid: int, roots: Iterable[Path]) -> None:
    """Let processes of the group pass through the folders above `path`, up to and with that of `roots` it lies below.

    They may not list them. Folders that `lets_through` refuses stay as they are.
    """
    for root in roots:
        if not path.is_relative_to(root):
            continue
        for folder in path.parents:
            found = folder.stat()
            passed = found.st_mode & stat.S_IXOTH or (found.st_gid == gid and found.st_mode & stat.S_IXGRP)
            if not passed and lets_through(found, gid):
                os.chown(folder, -1, gid)
                folder.chmod(stat.S_IMODE(found.st_mode) & ~(stat.S_ISGID | stat.S_IRWXG) | stat.S_IXGRP)
            if folder == root:
                break


def lets_through(folder: os.stat_result, gid: int) -> bool:
    """Whether processes of the group may pass, or may be let: a folder of ours, where no other group loses rights."""
    free = folder.st_gid in {gid, os.getegid()} or not folder.st_mode & stat.S_IRWXG
    return bool(folder.st_mode & stat.S_IXOTH) or (folder.st_uid == os.geteuid() and free)


def make_readable(root: Path) -> None:
    """Let other user ids read what was written with a strict umask. Links are left alone, whoever swaps them in.

    A program may be writing there: what has gone meanwhile needs no right.
    """
    if root.is_file():
        _open_up(str(root), None)
        return
    for folder_fd, _, files in _walk(root):
        os.fchmod(folder_fd, stat.S_IMODE(os.fstat(folder_fd).st_mode) | 0o055)
        for name in files:
            with contextlib.suppress(OSError):
                _open_up(name, folder_fd)


def _open_up(name: str, folder_fd: int | None) -> None:
    mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode) or mode & 0o044 == 0o044:
        return
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        os.fchmod(fd, stat.S_IMODE(mode) | 0o044)
    finally:
        os.close(fd)


def tree_remove(root: Path) -> None:
    """Remove a folder and all in it, as far as it can be; `rm` where it is too deep for Python's own way."""
    _remove(root)
    if os.geteuid() != 0 and os.path.lexists(root):
        _let_us_in(str(root))
        _remove(root)


def _remove(root: Path) -> None:
    try:
        shutil.rmtree(root, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(root)], check=False, stderr=subprocess.DEVNULL)


def _let_us_in(name: str, above: int | None = None, depth: int = 0) -> None:
    """Open the folders that programs have closed, which without root are of our own user: nothing leaves a folder that
    may not be written, nor is found in one that may not be read."""
    with contextlib.suppress(OSError):  # no folder, or none of ours
        place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{place}", stat.S_IRWXU)  # noqa: PTH101 - of what was opened, whatever has its name
            folder = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(place)
        try:
            for inner in os.listdir(folder) if depth < DEPTH_MAX else ():  # noqa: PTH208 - of what was opened
                _let_us_in(inner, folder, depth + 1)
        finally:
            os.close(folder)


def tree_bytes(root: Path) -> int:
    """Sum of the sizes of files below `root`, links not followed."""
    total, waiting = 0, [str(root)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total
