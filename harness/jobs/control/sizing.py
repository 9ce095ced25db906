"""Keeps the known sizes true: what changed is measured anew, and of everything else some, the oldest figures first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import islice

from django.utils import timezone

from harness.datasets.models import Dataset, WeightsFile
from harness.jobs.control.leftovers import leftovers_remove
from harness.jobs.models import Job
from harness.jobs.sizes import ANEW_AFTER, job_measure
from harness.storage.models import ContentSize, JobSize
from harness.storage.sizes import content_measure
from worker.states import HAS_ATTEMPT

RUNNING_EVERY = timedelta(minutes=1)
AT_ONCE_MAX = 50
"""Measured in one pass; the next one goes on."""


def sizes_refresh() -> int:
    """Measure what is due; how many jobs and contents."""
    count = 0
    for job_id in list(islice(dict.fromkeys(_jobs_due()), AT_ONCE_MAX)):
        leftovers_remove(job_id)
        job_measure(job_id)
        count += 1
    for sha256 in list(islice(_contents_due(), AT_ONCE_MAX)):
        content_measure(sha256)
        count += 1
    return count


def _jobs_due() -> Iterable[str]:
    """Those that were never measured, those that run, then those whose time has come, the longest due first."""
    now = timezone.now()
    yield from Job.objects.filter(size=None).order_by().values_list("pk", flat=True)[:AT_ONCE_MAX]
    holding = [str(state) for state in HAS_ATTEMPT]
    running = Job.objects.filter(state__in=holding, size__measured_at__lt=now - RUNNING_EVERY)
    yield from running.order_by("size__measured_at").values_list("pk", flat=True)[:AT_ONCE_MAX]
    due = JobSize.objects.filter(due_at__lte=now).order_by("due_at")
    yield from due.values_list("pk", flat=True)[:AT_ONCE_MAX]


def _contents_due() -> Iterable[str]:
    """Those that were never measured, then those measured long ago; sizes of contents that nobody names any more go."""
    named = set(Dataset.objects.order_by().values_list("sha256", flat=True).distinct())
    named |= set(WeightsFile.objects.order_by().values_list("sha256", flat=True).distinct())
    named |= set(Job.objects.order_by().values_list("dataset_sha256", flat=True).distinct())
    known = dict(ContentSize.objects.values_list("sha256", "measured_at"))
    ContentSize.objects.filter(pk__in=sorted(set(known) - named)[:500]).delete()
    yield from sorted(named - set(known) - {""})
    limit = timezone.now() - ANEW_AFTER
    yield from sorted((sha256 for sha256 in named & set(known) if known[sha256] < limit), key=known.__getitem__)
