"""Brings back from the object store what the store's folder lacks, every file checked by its SHA-256."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from harness.bucket.back import file_bring
from harness.bucket.client import Bucket
from harness.bucket.mirror import MARK, alone, mark_check, pull_note
from harness.bucket.trouble import BucketTrouble
from harness.bucket.units import UNIT, UnitFile, gone_tell, rows_read, unit_folder
from harness.pool.joining import STORE_MARK
from harness.progress import Tell, nobody
from harness.store import UnsafePath


@dataclass
class Pulled:
    """What was brought back."""

    units: int = 0
    files: int = 0
    bytes: int = 0
    missing: int = 0
    """Files that the object store lists and does not have as listed."""


def pull(bucket: Bucket, tell: Tell = nobody) -> Pulled:
    """Bring back every file that is not here; what is here stays as it is. `tell` hears how far it is.

    Raises `BucketTrouble`, `OSError`.
    """
    with alone() as mine:
        if not mine:
            raise BucketTrouble("the store is being copied at this moment", "try again in a minute")
        _mark_take(bucket)
        pull_note().touch()  # only now: a pull that never began leaves no half store
        told = _pull(bucket, tell)
        pull_note().unlink()
    return told


def _pull(bucket: Bucket, tell: Tell) -> Pulled:
    gone_tell(bucket)
    told = Pulled()
    wanted = _wanted(bucket, told, tell)
    all_bytes, done_bytes = sum(row.bytes for _, row in wanted), 0
    for unit, row in wanted:
        tell("Bringing files back", done_bytes, all_bytes)
        _bring(bucket, unit, row, told)
        done_bytes += row.bytes
    return told


def _wanted(bucket: Bucket, told: Pulled, tell: Tell) -> list[tuple[str, UnitFile]]:
    """Every file that is listed and not here."""
    found: list[tuple[str, UnitFile]] = []
    names = sorted(bucket.names("units"))
    for count, name in enumerate(names):
        tell("Reading what there is", count, len(names))
        unit = name.removeprefix("units/").removesuffix(".json")
        if not UNIT.fullmatch(unit):
            continue
        try:
            rows = rows_read(bucket.text_get(name))
        except (FileNotFoundError, ValueError):
            told.missing += 1
            continue
        told.units += 1
        found += [(unit, row) for row in rows if not os.path.lexists(unit_folder(unit) / row.path)]
    return found


def _mark_take(bucket: Bucket) -> None:
    """An empty store becomes the one whose copy is there. Raises `BucketTrouble`."""
    root = Path(settings.STORE.root)
    if not any((root / name).is_dir() and any((root / name).iterdir()) for name in ("datasets", "jobs")):
        with suppress(FileNotFoundError):
            mark = bucket.text_get(MARK).strip()
            root.mkdir(parents=True, exist_ok=True)
            (root / STORE_MARK).write_text(mark)
    mark_check(bucket)


def _bring(bucket: Bucket, unit: str, row: UnitFile, told: Pulled) -> None:
    try:
        file_bring(bucket, unit, row.path, row.sha256)
    except (FileNotFoundError, UnsafePath):
        told.missing += 1
    else:
        told.files += 1
        told.bytes += row.bytes
