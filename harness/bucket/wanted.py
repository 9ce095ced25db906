"""Files that somebody wants and the folder lost: the copy has them, and control's next pass brings them back.

Who asks only leaves a note: no request waits for the object store, and many who ask fetch a file once. What may be
missing on purpose (of a run that goes on, or of what was deleted) is not wanted back: see `harness/bucket/units.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from harness.bucket.units import UNIT, is_forgotten, memo_file, memo_read, note_name, unit_folder, unit_of_note
from harness.errors import Unavailable


def wanted_check(unit: str, below: str) -> None:
    """Pass unless a file of the unit, `below` or in the folder `below`, was lost that the copy lists.

    Raises `Unavailable`: it is on its way.
    """
    if settings.S3 is None or is_forgotten(unit):
        return
    memo = memo_read(unit)
    listed = [path for path in memo.rows if path == below or path.startswith(f"{below}/")] if memo.final else []
    if all(os.path.lexists(unit_folder(unit) / path) for path in listed):
        return
    _folder().mkdir(parents=True, exist_ok=True)
    (_folder() / note_name(unit)).touch()
    raise Unavailable(
        "This was lost from the store and is being restored from its copy in the object store.",
        hint="Try again in a minute.",
    )


def units_wanted() -> set[str]:
    """Units with notes; those that no list is known of any more are forgotten."""
    names = [path.name for path in _folder().iterdir()] if _folder().is_dir() else []
    units = {unit for name in names if UNIT.fullmatch(unit := unit_of_note(name))}
    for unit in {unit for unit in units if not memo_file(unit).exists()}:
        wanted_done(unit)
        units.remove(unit)
    return units


def wanted_done(unit: str) -> None:
    """What there was of it is back."""
    (_folder() / note_name(unit)).unlink(missing_ok=True)


def _folder() -> Path:
    return Path(settings.STORE.bucket) / "wanted"
