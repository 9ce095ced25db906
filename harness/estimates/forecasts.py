"""What was foretold of a job: the estimate it was submitted with, for the devices that it then ran on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness.errors import HarnessError
from harness.estimates.models import JobEstimate
from harness.estimates.offers import job_key
from harness.jobs.models import Job
from scheduler.estimation.values import Basis


def forecast_of(
    job: Job, *, kind: str, model_name: str, count: int, mode: str, began_at: datetime | None = None
) -> dict[str, Any]:
    """`Estimate.to_dict()` of the allocation that it ran on; empty where nobody had estimated that one.

    `began_at`: only what was foretold before that; what was told later may rest on the very steps.
    """
    row = JobEstimate.objects.filter(job=job).first()
    if row is None or not is_of_its_program(row):
        return {}
    wanted = {"kind": kind, "model_name": model_name, "count": count}
    for estimate in (row.estimate, *row.ways):
        allocation = estimate.get("allocation") or {}
        # The scheduler may have narrowed or widened the job: each width was foretold on its own. One rank has no mode.
        same_mode = count == 1 or allocation.get("mode") in {mode, None}
        if same_mode and all(allocation.get(name) == value for name, value in wanted.items()):
            return dict(estimate) if _is_foretold(row, estimate, began_at) else {}
    return {}


def _is_foretold(row: JobEstimate, estimate: Mapping[str, Any], began_at: datetime | None) -> bool:
    """Whether it was made before, or rests on no measured steps of its program, which may be these."""
    made_at = row.made_at or row.created_at
    return began_at is None or made_at <= began_at or estimate.get("time_basis") != Basis.MEASURED


def is_of_its_program(row: JobEstimate) -> bool:
    """Whether the job ran the program that was priced: a person may have edited it since, and no node have read it."""
    try:
        return not row.job.own_code or row.inspection_key == job_key(row.job)
    except (HarnessError, OSError, ValueError):  # its files are gone, or no text
        return False
