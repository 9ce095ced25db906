"""Which files of a unit are copied to the object store: those that are plain and whole, as a disk tells them now."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FILES_MAX = 20_000
"""Of one unit; a program may write as many files as its disk holds."""
WHILE_IT_RUNS = ("program/", "generated/", "work/checkpoints/")
"""The rest of a run changes all the time: it is copied when the run is at rest."""
CLOSED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENAMETOOLONG})
"""What a program may have done to its files. Any other error is of the disk or of this process, and passes."""
_NEVER = frozenset({"incoming", "packed.tree.json", "fence"})
_log = logging.getLogger(__name__)


def plain_files(root: Path, *, at_rest: bool) -> Iterator[tuple[str, os.stat_result]]:
    """Plain files below a folder in which people's code may write: no link is followed, drafts are left out.

    Raises `OSError` where a disk does not tell them now: what is not told would count as removed, and its copy goes.
    """
    waiting, count = [""], 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError as error:
            if error.errno not in CLOSED:
                raise
            continue
        for entry in entries:
            path = f"{folder}{entry.name}"
            if entry.name.startswith((".", "packing-")) or (not folder and entry.name in _NEVER) or not _utf8(path):
                continue
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    if at_rest or _may_hold(f"{path}/"):
                        waiting.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False) and (at_rest or path.startswith(WHILE_IT_RUNS)):
                    count += 1
                    if count > FILES_MAX:
                        _log.warning("%s has more than %s files: the rest is not in the object store", root, FILES_MAX)
                        return
                    yield path, entry.stat(follow_symlinks=False)


def _may_hold(folder: str) -> bool:
    """Whether something below a folder is copied while the run goes on."""
    return any(wanted.startswith(folder) or folder.startswith(wanted) for wanted in WHILE_IT_RUNS)


def _utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
