"""What a plan takes from the disk, read before the transaction that places: no lock is held while a disk is slow."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from harness.jobs.control.saved import checkpoint_is_whole
from harness.jobs.models import Checkpoint, Job
from worker.plan import RunPaths
from worker.watchdog import folder_bytes


@dataclass(frozen=True, kw_only=True)
class OnDisk:
    """What lies there for a job that is about to start."""

    resume_from: str | None
    """Checkpoint that its next attempt starts from."""
    held_bytes: int
    """What attempts before have made."""
    free_bytes: int
    """Of the store, beyond what is kept in reserve."""


def disk_read(job: Job) -> OnDisk:
    """Look at the store. Raises `OSError` where it does not answer."""
    return OnDisk(
        resume_from=_resume_checkpoint(job),
        held_bytes=folder_bytes(settings.STORE.job(job.pk).work) or 0,
        free_bytes=max(0, settings.STORE.free_bytes() - settings.DISK_RESERVE_BYTES),
    )


def _resume_checkpoint(job: Job) -> str | None:
    """Where the next attempt starts: the one a person named, else the whole one that is farthest on.

    After a resume from an older checkpoint those of the history that was left are not known any more (`effects`).
    None where there is none, so that the run starts from its beginning (or from what it finds itself).
    """
    if job.resume_from:
        return job.resume_from
    paths: RunPaths = settings.STORE.job(job.pk)
    for checkpoint in Checkpoint.objects.filter(job=job, removed_at=None).order_by("-step"):
        if checkpoint_is_whole(paths, checkpoint.name):
            return checkpoint.name
    return None
