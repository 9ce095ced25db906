"""What a plan takes from the disk, read before the transaction that places: no lock is held while a disk is slow."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from harness.jobs.control.saved import checkpoint_is_whole, checkpoint_look
from harness.jobs.models import Checkpoint, Job
from worker.machine_faults import may_be_one_file
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

    One that only cannot be read now must not be put aside for an older one. Raises `OSError` where the disk is away. A
    single one may lie on a bad block: it is left where an older one can be read and it still cannot; else the run looks
    at it, and tells what is wrong.
    """
    if job.resume_from:
        return job.resume_from
    paths: RunPaths = settings.STORE.job(job.pk)
    unread: list[str] = []
    for name in Checkpoint.objects.filter(job=job, removed_at=None).order_by("-step").values_list("name", flat=True):
        try:
            if checkpoint_look(paths, name):
                return next((newer for newer in unread if checkpoint_is_whole(paths, newer)), name)
        except OSError as error:
            if not may_be_one_file(error):
                raise
            unread.append(name)
    return unread[0] if unread else None
