"""What the pool's history keeps of long ago: what a page shows, what a model learns from, and what belongs to a job."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Model, QuerySet
from django.utils import timezone

from harness.calibration.known import finished_teaching, ran_out_teaching
from harness.calibration.models import FinishedJobRow, RanOutRow
from harness.database import BATCH_ROWS, BREATH_S, rows_delete
from harness.jobs.models import DeviceUse
from harness.pool.presence import absences_forget
from harness.pool.reservations import reservations_forget

_Teaching = Callable[[str, str], QuerySet[Any]]


def history_forget() -> int:
    """Delete what is older than `HISTORY_DAYS` and belongs to no job, and workloads that teach no more; how many rows.

    What belongs to a job goes with the job: its page tells what it took, however long ago.
    """
    limit = timezone.now() - timedelta(days=settings.HISTORY_DAYS)
    count = absences_forget(limit) + reservations_forget(limit)
    count += rows_delete(DeviceUse.objects.filter(job=None, ended_at__lt=limit))
    count += _lessons_forget(FinishedJobRow, finished_teaching)
    count += _lessons_forget(RanOutRow, ran_out_teaching)
    # Those that still teach a model of device stay, however seldom it is used.
    count += rows_delete(FinishedJobRow.objects.filter(job=None, finished_at__lt=limit, workload={}))
    count += rows_delete(RanOutRow.objects.filter(attempt=None, ended_at__lt=limit, workload={}))
    return count


def _lessons_forget(model: type[Model], teaching: _Teaching) -> int:
    """Empty the workloads, by far the most of a row, of all but the newest rows of each model of device."""
    rows, count = model._default_manager.exclude(workload={}), 0
    for kind, model_name in list(rows.order_by().values_list("kind", "model_name").distinct()):
        # Who is there before it is asked who teaches: a job that is learnt after that is none of the old ones.
        there = list(rows.order_by().filter(kind=kind, model_name=model_name).values_list("pk", flat=True))
        newest = set(teaching(kind, model_name).values_list("pk", flat=True))
        old = [pk for pk in there if pk not in newest]
        for start in range(0, len(old), BATCH_ROWS):
            pks = old[start : start + BATCH_ROWS]
            count += model._default_manager.filter(pk__in=pks).update(workload={})
            time.sleep(BREATH_S)
    return count
