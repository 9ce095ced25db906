"""Retention: what is too old goes, in the trash first, then for good."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from harness.broker import task_send
from harness.bucket.units import unit_forget
from harness.datasets.models import Dataset
from harness.datasets.services import contents_purge, datasets_purge
from harness.datasets.uploads import uploads_expire
from harness.jobs.models import Job, ResourceSample
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue
from worker.sandbox import tree_remove
from worker.states import HOLDS_DEVICES

SAMPLES_FINE_FOR = timedelta(days=2)
"""Samples of runs that ended longer ago are thinned to one in `SAMPLES_KEEP_EVERY`."""
SAMPLES_KEEP_EVERY = 10
_log = logging.getLogger(__name__)


def retention() -> None:
    """Do all of it; each part stands alone."""
    for part in (uploads_expire, jobs_purge, datasets_purge, _contents, samples_thin, sessions_expire):
        try:
            count = part()
        except Exception:
            _log.exception("retention: %s failed", part.__name__)
        else:
            _log.debug("retention: %s %s", part.__name__, count)


def sessions_expire() -> int:
    """Forget sign-ins that have expired."""
    return Session.objects.filter(expire_date__lt=timezone.now()).delete()[0]


def jobs_purge() -> int:
    """Delete for good what was in the trash for `TRASH_DAYS`: rows here, files here and on every node."""
    limit = timezone.now() - timedelta(days=settings.TRASH_DAYS)
    count = 0
    for job in Job.objects.filter(deleted_at__lt=limit).exclude(state__in=[str(state) for state in HOLDS_DEVICES]):
        try:
            _job_purge(job)
            count += 1
        except Exception:
            # One that cannot be removed must not keep all later ones.
            _log.exception("cannot purge job %s", job.pk)
    return count


def _job_purge(job: Job) -> None:
    for name in Node.objects.exclude(state=NodeState.DOWN).values_list("name", flat=True):
        task_send("node.purge", [job.pk], queue=node_queue(name), expires_s=600)
    unit_forget(f"jobs/{job.pk}")  # first: nothing of it is brought back meanwhile
    tree_remove(settings.STORE.job(job.pk).root)
    job.delete()


def _contents() -> int:
    keep = {*Dataset.objects.values_list("sha256", flat=True), *Job.objects.values_list("dataset_sha256", flat=True)}
    return contents_purge(keep)


def samples_thin() -> int:
    """Thin the resource samples of runs that ended long ago."""
    limit_s = (timezone.now() - SAMPLES_FINE_FOR).timestamp()
    old = ResourceSample.objects.filter(time_s__lt=limit_s, job__finished_at__isnull=False, thinned=False)
    gone = [pk for number, pk in enumerate(old.order_by("job", "time_s").values_list("pk", flat=True))
            if number % SAMPLES_KEEP_EVERY]  # fmt: skip
    for start in range(0, len(gone), 500):
        ResourceSample.objects.filter(pk__in=gone[start : start + 500]).delete()
    old.update(thinned=True)
    return len(gone)
