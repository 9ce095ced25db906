"""How far the finish of a run may be off, by the moments at which it told its loss on the devices that it has."""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache

from harness.jobs.models import Job, MetricPoint
from scheduler.estimation.rest import Mark, rest_slowdown, window_ends

MARKS_KEY = "train/loss"
"""Told by every run, about a thousand times in all."""
LOOKS_GROWTH = 1.1
"""Looked at again when so many times the steps are made: some forty times in a run, however often that is asked."""


def own_slowdown(job: Job, since: datetime, told: float) -> float:
    """Upper end over middle of what is left; `told`: by the estimate. `since`: when it got the devices that it has."""
    if job.step < 1:
        return told
    looked = int(LOOKS_GROWTH ** math.floor(math.log(job.step, LOOKS_GROWTH) + 1e-9))
    return rest_slowdown(_marks(job.pk, since.timestamp(), looked), max(0, job.steps_total - job.step), told)


@lru_cache(maxsize=4096)
def _marks(job_id: str, since_s: float, step: int) -> tuple[Mark, ...]:
    """Some steps and when they were made, up to this one: they stay as they are, so they are read once."""
    points = MetricPoint.objects.filter(job=job_id, key=MARKS_KEY, time_s__gte=since_s, step__lte=step)
    return tuple(window_ends(list(points.order_by("step").values_list("step", "time_s"))))
