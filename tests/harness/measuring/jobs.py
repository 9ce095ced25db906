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


def foretell(job: Job, *ways: Allocation) -> Any:
    """Have the job estimated before it runs, on one core or as `ways` say."""
    from harness.estimates.models import Inspection, JobEstimate
    from harness.estimates.offers import job_key

    model = device_model(KIND, NAME)
    found, *others = (estimate(WORK, way, model, memory_limit_bytes=8 << 30) for way in ways or [allocation()])
    key, told = job_key(job), {"dataset_sha256": "0" * 64, "workload": WORK.to_dict(), "sent_at": timezone.now()}
    Inspection.objects.get_or_create(key=key, defaults=told)
    widths = [other.to_dict() for other in others]
    JobEstimate.objects.create(job=job, inspection_key=key, estimate=found.to_dict(), ways=widths)
    return found


def tell(job: Job, **timing: Any) -> None:
    """Have the run tell this in its results."""
    folder = settings.STORE.job(job.pk).results
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"timing": timing}))
