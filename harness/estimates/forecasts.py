"""What was foretold of a job: the estimate it was submitted with, for the devices that it then ran on."""

from __future__ import annotations

from typing import Any

from harness.estimates.models import Inspection, JobEstimate
from harness.jobs.models import Job


def forecast_of(job: Job, *, kind: str, model_name: str, count: int, mode: str) -> dict[str, Any]:
    """`Estimate.to_dict()` of the allocation that it ran on; empty where nobody had estimated that one."""
    row = JobEstimate.objects.filter(job=job).first()
    if row is None:
        return {}
    wanted = {"kind": kind, "model_name": model_name, "count": count}
    for estimate in (row.estimate, *row.ways):
        allocation = estimate.get("allocation") or {}
        # The scheduler may have narrowed or widened the job: each width was foretold on its own.
        if all(allocation.get(name) == value for name, value in wanted.items()) and allocation.get("mode") in {
            mode,
            None,
        }:
            return dict(estimate)
    return {}


def workload_of(job: Job) -> dict[str, Any]:
    """`Workload.to_dict()` of the program that was estimated; empty where it was never read."""
    row = JobEstimate.objects.filter(job=job).first()
    found = Inspection.objects.filter(key=row.inspection_key).exclude(workload=None).first() if row else None
    return dict(found.workload) if found and found.workload else {}
