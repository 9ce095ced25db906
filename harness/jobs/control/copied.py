"""Which jobs the copy in the object store has to look at, as `harness.bucket` asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db.models import Q

from harness.bucket.due import Due, units_due
from harness.bucket.units import unit_folder, units_listed
from harness.jobs.models import Job
from worker.states import HAS_ATTEMPT, TERMINAL, JobState


def jobs_due(since_s: float, asked: set[str]) -> Iterator[Due]:
    """Jobs that may go on, that ended or were predicted with since then, that were noted, or that were never copied.

    One that succeeded is never run again: only the whole of it is ever removed.
    """
    since = datetime.fromtimestamp(max(0.0, since_s), UTC)
    changed = Q(finished_at__gte=since) | Q(predictions__created_at__gte=since) | Q(predictions__finished_at__gte=since)
    moving = ~Q(state__in=[str(state) for state in TERMINAL])
    wanted = set(Job.objects.filter(changed | moving).values_list("pk", flat=True))
    wanted |= {unit.removeprefix("jobs/") for unit in units_due()}
    copied = units_listed("jobs")
    held = {str(state) for state in HAS_ATTEMPT}
    for job_id, state in Job.objects.order_by("pk").values_list("pk", "state"):
        unit = f"jobs/{job_id}"
        changed_here = (job_id in wanted or unit not in copied) and _may_be_there(unit)
        if unit in asked or changed_here:
            yield Due(unit, at_rest=state not in held, final=state == JobState.SUCCEEDED)


def _may_be_there(unit: str) -> bool:
    """Whether its folder is there, or a disk does not tell: the pass then waits for this one alone."""
    try:
        return unit_folder(unit).is_dir()
    except OSError:
        return True
