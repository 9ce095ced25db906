"""Sizes on the disk, read by walking a folder once: what is known afterwards costs a page nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from harness.jobs.models import Job, JobAttempt
from harness.storage.models import ContentSize, JobSize
from worker.watchdog import DEPTH_MAX, ENTRIES_MAX

BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever the block size of the file system (POSIX)."""
CHECKPOINTS, RESULTS, SOURCE, OTHER = "checkpoints", "results", "source", "other"
ANEW_AFTER = timedelta(days=1)
"""Whatever happens to a file behind our back, its size is known again so soon."""
SETTLED_AFTER = timedelta(hours=1)
"""So long after its last attempt nothing of a job is on its way any more."""
_JOB_PARTS = {
    "work/checkpoints": CHECKPOINTS, "work/results": RESULTS, "predictions": RESULTS, "exports": RESULTS,
}  # fmt: skip
_CONTENT_PARTS = {"source": SOURCE}


@dataclass
class Tree:
    """What lies below one folder."""

    bytes_by_part: Counter[str]
    is_whole: bool = True
    """Everything was counted: no folder was closed to us, and there was not too much."""


def tree_measure(root: Path, part_of: Callable[[str], str], entries_max: int = ENTRIES_MAX) -> Tree:
    """Bytes on the disk below `root`, by the part that a file's path (relative to `root`) belongs to. No link is
    followed: people's programs write there."""
    found, seen = Tree(Counter()), 0
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEPTH_MAX or seen > entries_max:
            found.is_whole = False
            break
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    seen += 1
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{path}/", depth + 1))
                        continue
                    with suppress(FileNotFoundError):  # removed since the folder was listed: the others are there
                        blocks = entry.stat(follow_symlinks=False).st_blocks
                        found.bytes_by_part[part_of(path)] += blocks * BLOCK_BYTES
        except (FileNotFoundError, NotADirectoryError):
            continue  # a program is writing and removing at the same time
        except OSError:
            found.is_whole = False
    return found


def _part_of(parts: dict[str, str]) -> Callable[[str], str]:
    def named(path: str) -> str:
        return next((name for start, name in parts.items() if path.startswith(f"{start}/")), OTHER)

    return named


def content_measure(sha256: str) -> ContentSize:
    """Measure a content and keep its size."""
    paths, now = settings.STORE.dataset(sha256), timezone.now()
    found = tree_measure(paths.root, _part_of(_CONTENT_PARTS)).bytes_by_part
    row, _ = ContentSize.objects.update_or_create(
        sha256=sha256,
        defaults={
            "source_bytes": found[SOURCE],
            "source_file": _source_file(paths.source),
            "packed_bytes": found[OTHER],
            "measured_at": now,
        },
    )
    return row


def _source_file(folder: Path) -> str:
    """Device and inode of the one file there; empty where there is none."""
    try:
        first = min((path for path in folder.iterdir() if not path.name.startswith(".")), default=None)
        told = first.stat(follow_symlinks=False) if first else None
    except OSError:
        return ""
    return f"{told.st_dev}:{told.st_ino}" if told else ""


def job_measure(job_id: str) -> JobSize | None:
    """Measure a job's folder and keep its size; None where the job is gone.

    A folder that cannot be counted whole counts as much as a job may take: else it would be the place to hide in.
    """
    began = timezone.now()
    found = tree_measure(settings.STORE.job(job_id).root, _part_of(_JOB_PARTS))
    sizes = found.bytes_by_part
    if not found.is_whole:
        sizes[OTHER] = max(sizes[OTHER], settings.JOB_DISK_BYTES - sizes[CHECKPOINTS] - sizes[RESULTS])
    with transaction.atomic():
        # As who ends an attempt does: its end is either seen here, or has the job measured once more.
        if Job.objects.select_for_update().filter(pk=job_id).values_list("pk").first() is None:
            return None
        fields = {
            "checkpoint_bytes": sizes[CHECKPOINTS],
            "result_bytes": sizes[RESULTS],
            "other_bytes": sizes[OTHER],
            "measured_at": began,
            "due_at": _due_at(job_id, began),
        }
        return JobSize.objects.update_or_create(job_id=job_id, defaults=fields)[0]


def _due_at(job_id: str, began: datetime) -> datetime:
    """At once where an attempt has ended since it was measured; once more when what its last attempt left over can be
    removed; else in a while."""
    ended_at = JobAttempt.objects.filter(job_id=job_id).aggregate(newest=Max("ended_at"))["newest"]
    if ended_at is not None and ended_at > began - SETTLED_AFTER:
        return began if ended_at >= began else ended_at + SETTLED_AFTER
    return began + ANEW_AFTER


def job_size_due(job_id: str) -> None:
    """Something has happened to a job's files: have them measured soon."""
    JobSize.objects.filter(job_id=job_id).update(due_at=timezone.now())
