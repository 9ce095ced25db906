"""Backups that are made by the clock: named by when they were begun, the newest of them kept."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path

NAME = re.compile(r"dlh-\d{8}-\d{6}\.dlh")
DRAFT = re.compile(rf"\.{NAME.pattern}\.[0-9a-f]{{8}}")
DRAFT_OLD_S = 24 * 3600.0
"""A draft that nobody wrote to for so long is of a backup that was killed."""


def backup_name(begun: datetime) -> str:
    """Of a backup that is begun at this time (UTC); names sort as times do."""
    return f"dlh-{begun:%Y%m%d-%H%M%S}.dlh"


def older_remove(folder: Path, keep: int, *, made: str) -> list[str]:
    """Remove all but the `keep` newest backups with such names, and drafts of killed ones; names of the former.

    `made`: the name of the newest. Those that say they are newer are of a clock that was ahead: they count as the
    oldest. Raises `OSError`.
    """
    found = (path for path in folder.iterdir() if NAME.fullmatch(path.name))
    older = sorted(found, key=lambda path: (path.name <= made, path.name))[:-keep]
    for path in older:
        path.unlink()
    for path in folder.iterdir():
        if DRAFT.fullmatch(path.name) and time.time() - path.stat().st_mtime > DRAFT_OLD_S:
            path.unlink()
    return [path.name for path in older]
