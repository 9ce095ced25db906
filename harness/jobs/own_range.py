"""How far the finish of a run may be off, by the moments at which it told its loss on the devices that it has."""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache

from django.db.models import Max, Q

from harness.jobs.models import Job, MetricPoint
from scheduler.estimation.rest import Window, pace_windows, rest_slowdown

MARKS_KEY = "train/loss"
"""Told by every run, about a thousand times in all."""
LOOKS_GROWTH = 1.1
"""Looked at again when so many times the steps are made: some forty times in a run, however often that is asked."""


def own_slowdown(job: Job, since: datetime, told: float) -> float:
    """Upper end over middle of what is left; `told`: by the estimate. `since`: when it got the devices that it has."""
    if job.step < 1:
        return told
    epoch = job.steps_total / job.epochs if job.epochs else 0.0
    looked = int(LOOKS_GROWTH ** math.floor(math.log(job.step, LOOKS_GROWTH) + 1e-9))
    windows = _windows(job.pk, since.timestamp(), looked, epoch)
    return rest_slowdown(windows, max(0, job.steps_total - job.step), told)


def own_share(job: Job, since: datetime) -> float:
    """Share of the run that it did on the devices that it has (`since`): what it resumed from was done before."""
    if not job.step or not job.steps_total:
        return 0.0
    attempt = job.attempts.filter(number=job.token).values_list("plan__resume_from", "created_at").first()
    if attempt is None:
        return 0.0
    # Not the farthest that was ever saved: it may go on from an older one. Since then it may have got other devices.
    resumed, own = Q(name=attempt[0]), Q(created_at__gt=attempt[1], created_at__lt=since)
    begun: int = job.checkpoints.filter(resumed | own).aggregate(step=Max("step"))["step"] or 0
    return max(0, job.step - begun) / job.steps_total


@lru_cache(maxsize=4096)
def _windows(job_id: str, since_s: float, step: int, epoch: float) -> tuple[Window, ...]:
    """Of the steps up to this one: they stay as they are, so they are read once."""
    points = MetricPoint.objects.filter(job=job_id, key=MARKS_KEY, time_s__gte=since_s, step__lte=step)
    return tuple(pace_windows(list(points.order_by("step").values_list("step", "time_s")), epoch))
