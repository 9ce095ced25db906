"""Checkpoints of a course that was given up for an earlier point: they must not be taken for this course's.

They lie in folders beside the others, one for each time, and the newest of them are kept as long as anybody may want
them back: as many as the run keeps of its own.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from worker.fence import STEP

_NAME = re.compile(r"before-attempt-([0-9]+)(?:-([0-9]+))?")


def put_aside(folder: Path, names: Sequence[str], token: int, *, desk: Path) -> Path:
    """Move these checkpoints of `folder` into a new folder in it, which is returned.

    They are brought together on the attempt's desk: where that was taken away, none moves. Raises `OSError`.
    """
    name = f"before-attempt-{token}"
    # Off the platform every attempt is number 0.
    tried = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    aside = next(path for each in tried if not (path := folder / each).exists())
    made = desk / aside.name
    made.mkdir()
    for each in names:
        (folder / each).rename(made / each)
    made.rename(aside)
    return aside


def purge_aside(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` of those that were ever put aside. Never raises."""
    with suppress(OSError):
        courses = sorted((_order(path), path) for path in folder.glob("before-attempt-*") if _NAME.fullmatch(path.name))
        saved = [path for _, course in courses for path in sorted(course.glob(f"{STEP}*"), key=_by_step)]
        for path in saved[: max(0, len(saved) - keep)]:
            shutil.rmtree(path, ignore_errors=True)
        for _, course in courses:
            if not any(course.iterdir()):
                course.rmdir()


def _by_step(path: Path) -> tuple[int, str]:
    return len(path.name), path.name  # of more than eight digits, too


def _order(path: Path) -> tuple[int, int]:
    found = _NAME.fullmatch(path.name)
    return (int(found[1]), int(found[2] or 1)) if found else (0, 0)
