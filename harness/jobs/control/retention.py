"""Retention: what is too old goes, in the trash first, then for good."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.sessions import sessions_expire
from harness.broker import live_streams_expire, task_send
from harness.bucket.units import unit_forget
from harness.database import BATCH_ROWS, BREATH_S, rows_delete
from harness.datasets.purging import datasets_purge
from harness.datasets.uploads import uploads_expire
from harness.jobs.control.contents import contents_tidy
from harness.jobs.control.forgetting import history_forget
from harness.jobs.control.orphans import orphans_remove
from harness.jobs.control.project_purging import projects_give_up, projects_purge
from harness.jobs.models import Job, JobEvent, MetricPoint, ResourceSample
from harness.jobs.past_predictions import predictions_forget
from harness.pool.devices import devices_forget
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue
from harness.trash import PURGE_BEGUN
from worker.states import HAS_ATTEMPT
from worker.trees import tree_remove

SAMPLES_FINE_FOR = timedelta(days=2)
"""Older samples are thinned to one in `SAMPLES_KEEP_EVERY` of each node, of runs that go on as well."""
SAMPLES_KEEP_EVERY = 10
_GONE = ".gone-"
"""So begins the name of the folder of a job whose rows are deleted: it is removed now, or by the next round."""
_log = logging.getLogger(__name__)


def retention() -> None:
    """Do all of it; each part stands alone."""
    parts = (
        uploads_expire, projects_give_up, jobs_purge, projects_purge, datasets_purge, contents_tidy, orphans_remove,
        samples_thin, sessions_expire, devices_forget, predictions_forget, history_forget, live_streams_expire,
    )  # fmt: skip
    for part in parts:
        try:
            count = part()
        except Exception:
            _log.exception("retention: %s failed", part.__name__)
        else:
            _log.debug("retention: %s %s", part.__name__, count)


def jobs_purge() -> int:
    """Delete for good what was in the trash for `TRASH_DAYS`: rows here, files here and on every node."""
    limit = timezone.now() - timedelta(days=settings.TRASH_DAYS)
    held = [str(state) for state in HAS_ATTEMPT]
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


def jobs_purge_asked() -> None:
    """Delete what people have given up, and what they give up meanwhile: jobs, and whole projects."""
    while projects_give_up() + jobs_purge() + projects_purge():
        pass


def _job_purge(rows: QuerySet[Job], job_id: str) -> bool:
    """Delete one of `rows`; False where it is none any more: a person has just taken it out of the trash.

    Once its purge has begun nobody takes it out; one that was cut short is gone on with by the next round.
    """
    root = settings.STORE.job(job_id).root
    with transaction.atomic():
        if not rows.filter(pk=job_id).update(deleted_at=PURGE_BEGUN):
            return False
        unit_forget(f"jobs/{job_id}")  # first: nothing of it is brought back meanwhile
        with suppress(FileNotFoundError):
            root.rename(root.with_name(f"{_GONE}{job_id}"))
    for model in (MetricPoint, ResourceSample, JobEvent):
        rows_delete(model.objects.filter(job_id=job_id))
    Job.objects.filter(pk=job_id).delete()
    for name in Node.objects.exclude(state=NodeState.DOWN).values_list("name", flat=True):
        task_send("node.purge", [job_id], queue=node_queue(name), expires_s=600)
    return True


def samples_thin() -> int:
    """Thin resource samples of long ago, a few thousand at a time: a run of weeks must not grow without limit."""
    limit_s = (timezone.now() - SAMPLES_FINE_FOR).timestamp()
    old = ResourceSample.objects.filter(time_s__lt=limit_s, thinned=False)
    count = 0
    for job_id, token, node_id in list(old.order_by().values_list("job_id", "token", "node_id").distinct()):
        samples = old.filter(job_id=job_id, token=token, node_id=node_id).order_by("time_s", "pk")
        while pks := list(samples.values_list("pk", flat=True)[:BATCH_ROWS]):
            kept = pks[::SAMPLES_KEEP_EVERY]
            with transaction.atomic():
                ResourceSample.objects.filter(pk__in=kept).update(thinned=True)
                ResourceSample.objects.filter(pk__in=set(pks) - set(kept)).delete()
            count += len(pks) - len(kept)
            time.sleep(BREATH_S)
    return count
