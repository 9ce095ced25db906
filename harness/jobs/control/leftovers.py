"""What runs that were killed leave beside their files: half-written checkpoints, half-sent results, inputs of
predictions that were never asked for. The next attempt clears it away, but a job at rest may never have one."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.bucket.due import unit_due
from harness.ids import new_id
from harness.jobs.models import Job, JobAttempt, ModelExport, Prediction
from harness.jobs.sizes import SETTLED_AFTER
from harness.store import UnsafePath, folder_beneath
from worker.fence import DESK, GONE, LEFT, STEP
from worker.plan import RunPaths
from worker.states import TERMINAL, JobState
from worker.trees import tree_remove

AT_REST = [str(state) for state in {*TERMINAL, JobState.DRAFT, JobState.PAUSED}]
_ANSWER_YOUNG = timedelta(days=1)
_ANSWERS: dict[str, type[Prediction] | type[ModelExport]] = {"predictions": Prediction, "exports": ModelExport}
"""Folders with one folder for each row of a table."""
_log = logging.getLogger(__name__)
_HALF = (STEP, GONE)
"""So begin, on an attempt's desk, names of checkpoints that are being written or removed (`worker.runtime.checkpoint`).
What else lies there returns with the next attempt."""


def leftovers_remove(job_id: str) -> int:
    """Remove what is left over of a job that is at rest and settled; how many files or folders. Others stay as they
    are: somebody may be writing there."""
    gone: Path = settings.STORE.gone / f"{job_id}-{new_id()}"
    paths: RunPaths = settings.STORE.job(job_id)
    places: list[str] = []
    try:
        if not paths.root.is_dir() or not any(_found(paths)):  # mostly: then nobody has to wait for us
            return 0
        with transaction.atomic():
            if not _is_settled(job_id):
                return 0
            for place, name in _found(paths):
                gone.mkdir(parents=True, exist_ok=True)
                with folder_beneath(paths.root, place) as folder:
                    os.rename(name, gone / str(len(places)), src_dir_fd=folder)
                places.append(place)
    except (OSError, UnsafePath) as error:
        _log.info("what is left over of job %s stays: %s", job_id, error)
    if not _ANSWERS.keys().isdisjoint(places):
        unit_due(f"jobs/{job_id}")
    tree_remove(gone)
    return len(places)


def _is_settled(job_id: str) -> bool:
    """Whether no attempt is, or was just, at work; until the transaction ends none begins."""
    if Job.objects.select_for_update().filter(pk=job_id, state__in=AT_REST).values_list("pk").first() is None:
        return False
    late = timezone.now() - SETTLED_AFTER
    attempts = JobAttempt.objects.filter(job_id=job_id)
    return not attempts.filter(ended_at=None).exists() and not attempts.filter(ended_at__gt=late).exists()


def _found(paths: RunPaths) -> Iterator[tuple[str, str]]:
    """(folder below the job's, name) of what is left over. Programs write in some of these folders: no link is
    followed."""
    if (paths.root / "incoming").is_dir():
        yield ".", "incoming"
    work = str(paths.checkpoints.relative_to(paths.root))
    for desk in (f"{work}/{name}" for name in _names(paths.root, work) if name.startswith((DESK, LEFT))):
        with suppress(UnsafePath):
            yield from ((desk, name) for name in _names(paths.root, desk) if name.startswith(_HALF))
    old_s = (timezone.now() - _ANSWER_YOUNG).timestamp()
    for place, model in _ANSWERS.items():
        known = set(model.objects.filter(job_id=paths.root.name).values_list("pk", flat=True))
        for name in _names(paths.root, place):
            if name not in known and (paths.root / place / name).lstat().st_mtime < old_s:
                yield place, name


def _names(root: Path, folder: str) -> list[str]:
    """Of what lies in a folder below `root`; none where there is no such folder."""
    if not os.path.lexists(root / folder):
        return []
    with folder_beneath(root, folder) as descriptor:
        return sorted(os.listdir(descriptor))  # noqa: PTH208 - a descriptor, not a path
