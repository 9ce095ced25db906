"""What the folders of jobs take on the disk, as it was last measured, and when it is measured anew."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from harness.jobs.models import Job, JobAttempt
from harness.storage.models import JobSize
from harness.storage.sizes import OTHER, folder_is_away, part_finder, tree_measure

CHECKPOINTS, RESULTS = "checkpoints", "results"
ANEW_AFTER = timedelta(days=1)
"""Whatever happens to a file behind our back, its size is known again so soon."""
AGAIN_AFTER = timedelta(minutes=5)
"""So soon a disk that did not tell is asked again."""
SETTLED_AFTER = timedelta(hours=1)
"""So long after its last attempt nothing of a job is on its way any more."""
_JOB_PARTS = {
    "work/checkpoints": CHECKPOINTS, "work/results": RESULTS, "predictions": RESULTS, "exports": RESULTS,
}  # fmt: skip


def job_measure(job_id: str) -> JobSize | None:
    """Measure a job's folder and keep its size; None where the job is gone, or the store is away and always was.

    A folder that cannot be counted whole counts as much as a job may take: else it would be the place to hide in. Where
    the disk does not tell, what is known of it stays, and it is asked again soon.
    """
    began = timezone.now()
    root, known = settings.STORE.job(job_id).root, JobSize.objects.filter(job_id=job_id).first()
    found = tree_measure(root, part_finder(_JOB_PARTS))
    if found.is_away or folder_is_away(root, settings.STORE.jobs, known is not None and _bytes(known) > 0):
        JobSize.objects.filter(job_id=job_id).update(due_at=began + AGAIN_AFTER)
        return JobSize.objects.filter(job_id=job_id).first()
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


def _bytes(size: JobSize) -> int:
    return size.checkpoint_bytes + size.result_bytes + size.other_bytes


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
