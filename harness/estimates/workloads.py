"""What programs do in a step, as far as they were read for an estimate; loads nothing large (`harness.hooks`)."""

from __future__ import annotations

from typing import Any

from harness.estimates.models import Inspection, JobEstimate
from harness.jobs.models import Job


def workload_of(job: Job) -> dict[str, Any]:
    """`Workload.to_dict()` of the program that was estimated; empty where it was never read."""
    row = JobEstimate.objects.filter(job=job).first()
    found = Inspection.objects.filter(key=row.inspection_key).exclude(workload=None).first() if row else None
    return dict(found.workload) if found and found.workload else {}
