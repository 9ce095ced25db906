"""Orphans: files in the store that no row names, left where a process was killed between the one and the other, or
where rows went without their files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from harness.bucket.units import UNIT, unit_forget
from harness.calibration.models import OPEN, CalibrationRun
from harness.datasets.models import UNFINISHED, Upload
from harness.jobs.models import Job
from worker.scratch import abandoned_remove
from worker.trees import tree_remove

YOUNG = timedelta(days=1)
"""What changed so short a time ago stays: its row may be about to come, or its process at work."""
_log = logging.getLogger(__name__)


def orphans_remove() -> int:
    """Remove them; how many."""
    count = 0
    for path in [*_uploads(), *_asked(), *_sweeps(), *_gone()]:
        _log.info("removing %s: nothing in the database names it", path)
        try:
            tree_remove(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        except OSError as error:  # one that a disk does not let go must not keep all others
            _log.warning("%s stays: %s", path, error)
        else:
            count += 1
    return count + _jobs_remove() + abandoned_remove()


def _old(folder: Path, age: timedelta = YOUNG) -> Iterator[Path]:
    """What lies in a folder and has not changed for so long."""
    limit_s = (timezone.now() - age).timestamp()
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            if path.lstat().st_mtime < limit_s:
                yield path
        except FileNotFoundError:
            continue
        except OSError as error:  # nobody knows how old it is
            _log.warning("%s cannot be looked at: %s", path, error)


def _uploads() -> list[Path]:
    """Bytes of uploads whose row is gone or which have become something, and copies that were cut short."""
    old = list(_old(settings.STORE.uploads))
    going_on = set(Upload.objects.filter(UNFINISHED).values_list("pk", flat=True))
    return [path for path in old if path.name not in going_on]


def _asked() -> list[Path]:
    """Programs that a node was asked to read or try: an answer takes minutes, or never comes."""
    return list(_old(Path(settings.STORE.root) / "inspections"))


def _sweeps() -> list[Path]:
    """Programs of calibration sweeps that have ended."""
    old = list(_old(Path(settings.STORE.root) / "calibration"))
    going_on = set(CalibrationRun.objects.filter(state__in=OPEN).values_list("pk", flat=True))
    return [path for path in old if path.name not in going_on]


def _gone() -> list[Path]:
    """What was on its way out when its process was killed; whoever removes it too finds less to do."""
    return list(settings.STORE.gone.iterdir()) if settings.STORE.gone.is_dir() else []


def _jobs_remove() -> int:
    """Folders of jobs without a row, when they have been found so for as long as the trash keeps things: who has
    restored an older database has time to restore a newer one.

    Not where the database knows no job at all: it is another one than the store's, or it was lost.
    """
    old = {path.name: path for path in _old(settings.STORE.jobs) if path.name[:1] != "." and path.is_dir()}
    known = set(Job.objects.values_list("pk", flat=True))
    orphans = {name: path for name, path in old.items() if known and name not in known}
    count = 0
    for name in _noted(set(orphans)):
        _log.info("removing %s: the database knows no such job", orphans[name])
        try:
            if UNIT.fullmatch(f"jobs/{name}"):
                unit_forget(f"jobs/{name}")  # first: nothing of it is brought back meanwhile
        except OSError as error:
            _log.warning("%s stays: %s", orphans[name], error)
            continue
        tree_remove(orphans[name])
        count += 1
    return count


def _noted(orphans: set[str]) -> list[str]:
    """Note since when they are known, and forget others; those that have been for long enough."""
    folder: Path = settings.STORE.orphans
    folder.mkdir(parents=True, exist_ok=True)
    notes = {path.name: path for path in folder.iterdir()}
    for name in notes.keys() - orphans:
        notes[name].unlink(missing_ok=True)
    for name in orphans - notes.keys():
        (folder / name).touch()
    late = {path.name for path in _old(folder, timedelta(days=settings.TRASH_DAYS))}
    return sorted(orphans & late)
