"""Units that control's next pass has to look at: by the rows of the apps above, or by notes.

Notes tell of what was removed on purpose, of which no row tells.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from harness.bucket.units import UNIT, memo_file, note_name, unit_of_note
from harness.hooks import Question


class Due(NamedTuple):
    """A unit to look at: whether its run is at rest, and for good."""

    unit: str
    at_rest: bool
    final: bool


DUE: Question[[float, set[str]], Iterable[Due]] = Question()
"""Which units have changed since then (Unix time, in seconds), or may have? With units that somebody wants back."""


def unit_due(unit: str) -> None:
    """Note it, after the removal: a pass that is under way may have seen what was removed."""
    if settings.S3 is None:
        return
    _folder().mkdir(parents=True, exist_ok=True)
    _note(unit).touch()
    now_ns = time.time_ns()
    os.utime(_note(unit), ns=(now_ns, now_ns))  # the kernel's clock ticks every few ms: two notes would be one


def units_due() -> set[str]:
    """Units with notes; those of which the object store has no list need none."""
    names = [path.name for path in _folder().iterdir()] if _folder().is_dir() else []
    units = {unit for name in names if UNIT.fullmatch(unit := unit_of_note(name))}
    for unit in {unit for unit in units if not memo_file(unit).exists()}:
        _note(unit).unlink(missing_ok=True)
        units.remove(unit)
    return units


def noted_ns(unit: str) -> int:
    """When it was last noted; 0 where it was not."""
    try:
        return _note(unit).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def due_done(unit: str, noted_before_ns: int) -> None:
    """It was looked at since `noted_before_ns`; a later note stays."""
    if noted_before_ns and noted_ns(unit) == noted_before_ns:
        _note(unit).unlink(missing_ok=True)


def _folder() -> Path:
    return Path(settings.STORE.bucket) / "due"


def _note(unit: str) -> Path:
    return _folder() / note_name(unit)
