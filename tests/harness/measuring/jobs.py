"""Jobs that are estimated, run and learnt from: what tests of it share."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.utils import timezone

from harness.calibration.known import device_model
from harness.jobs.models import Job
from scheduler.estimation.estimate import estimate
from scheduler.estimation.values import Allocation
from tests.scheduler.made_workloads import workload

KIND, NAME = "cpu", "core"
"""Of `node_make`."""
WORK = workload(epochs=2)


def allocation() -> Allocation:
    return Allocation(kind=KIND, model_name=NAME, count=1, mode="single", batch_split=(32,))


def foretell(job: Job) -> Any:
    """Have the job estimated before it runs."""
    from harness.estimates.models import Inspection, JobEstimate

    found = estimate(WORK, allocation(), device_model(KIND, NAME), memory_limit_bytes=8 << 30)
    key = f"key of {job.pk}"
    Inspection.objects.create(key=key, dataset_sha256="0" * 64, workload=WORK.to_dict(), sent_at=timezone.now())
    JobEstimate.objects.create(job=job, inspection_key=key, estimate=found.to_dict())
    return found


def tell(job: Job, **timing: Any) -> None:
    """Have the run tell this in its results."""
    folder = settings.STORE.job(job.pk).results
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"timing": timing}))
