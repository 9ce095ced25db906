"""Retention: what is too old goes, in the trash first, then for good."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, QuerySet, Window
from django.db.models.functions import Mod, RowNumber
from django.utils import timezone

from harness.broker import live_streams_expire, task_send
from harness.bucket.units import unit_forget
from harness.datasets.models import Dataset
from harness.datasets.services import contents_purge, datasets_purge
from harness.datasets.uploads import uploads_expire
from harness.jobs.models import Job, ResourceSample
from harness.pool.devices import devices_forget
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue
from worker.sandbox import tree_remove
from worker.states import HOLDS_DEVICES

SAMPLES_FINE_FOR = timedelta(days=2)
"""Older samples are thinned to one in `SAMPLES_KEEP_EVERY` of each node, of runs that go on as well."""
SAMPLES_KEEP_EVERY = 10
_GONE = ".gone-"
"""So begins the name of the folder of a job whose rows are deleted: it is removed now, or by the next round."""
_log = logging.getLogger(__name__)


def retention() -> None:
    """Do all of it; each part stands alone."""
    parts = (
        uploads_expire, jobs_purge, datasets_purge, _contents, samples_thin, sessions_expire, devices_forget,
        live_streams_expire,
    )  # fmt: skip
    for part in parts:
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
    held = [str(state) for state in HOLDS_DEVICES]
    rows = Job.objects.filter(deleted_at__lt=limit).exclude(state__in=held)
    count = 0
    for job_id in list(rows.values_list("pk", flat=True)):
        try:
            count += _job_purge(rows, job_id)
        except Exception:
            # One that cannot be removed must not keep all later ones.
            _log.exception("cannot purge job %s", job_id)
    for left in Path(settings.STORE.jobs).glob(f"{_GONE}*"):
        tree_remove(left)
    return count


def _job_purge(rows: QuerySet[Job], job_id: str) -> bool:
    """Delete one of `rows`; False where it is none any more: a person has just taken it out of the trash."""
    root = settings.STORE.job(job_id).root
    with transaction.atomic():
        job = rows.select_for_update().filter(pk=job_id).first()
        if job is None:
            return False
        unit_forget(f"jobs/{job_id}")  # first: nothing of it is brought back meanwhile
        job.delete()
        with suppress(FileNotFoundError):
            root.rename(root.with_name(f"{_GONE}{job_id}"))
    for name in Node.objects.exclude(state=NodeState.DOWN).values_list("name", flat=True):
        task_send("node.purge", [job_id], queue=node_queue(name), expires_s=600)
    return True


def _contents() -> int:
    keep = {*Dataset.objects.values_list("sha256", flat=True), *Job.objects.values_list("dataset_sha256", flat=True)}
    return contents_purge(keep)


def samples_thin() -> int:
    """Thin resource samples of long ago: a run of weeks must not grow without limit."""
    limit_s = (timezone.now() - SAMPLES_FINE_FOR).timestamp()
    old = ResourceSample.objects.filter(time_s__lt=limit_s, thinned=False)
    of_one = [F("job_id"), F("token"), F("node_id")]
    numbered = old.annotate(number=Window(RowNumber(), partition_by=of_one, order_by=("time_s", "pk")))
    extra = numbered.annotate(beside=Mod(F("number"), SAMPLES_KEEP_EVERY)).exclude(beside=1)
    gone = list(extra.values_list("pk", flat=True))
    for start in range(0, len(gone), 500):
        ResourceSample.objects.filter(pk__in=gone[start : start + 500]).delete()
    old.update(thinned=True)
    return len(gone)
