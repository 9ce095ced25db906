"""Finished jobs of several nodes, as their rows are: what tests of the nodes' paces share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from harness.calibration.models import FinishedJobRow
from harness.calibration.shipped import prior_of
from harness.ids import new_id
from harness.jobs.models import DeviceUse, Job
from scheduler.estimation.estimate import estimate
from scheduler.estimation.node_paces import NEWEST
from scheduler.estimation.values import Allocation
from tests.scheduler.made_workloads import workload

KIND, NAME = "cpu", "core"
"""Of `node_make`."""


def finished_make(job: Job, paces: dict[str, float], *, each: int = NEWEST) -> None:
    """Jobs like this one ended on the nodes, the same programs on each; steps took so many times what is assumed."""
    prior, number = prior_of(KIND, NAME), FinishedJobRow.objects.count()
    way = Allocation(kind=KIND, model_name=NAME, count=1, mode="single", batch_split=(32,))
    for turn in range(each):
        work = workload(filters=8 + turn % 4, batch=32)
        step_s = estimate(work, way, prior).step_s.mid
        for node, pace in paces.items():
            number += 1
            _ended(job, node, number, workload=work.to_dict(), allocation=_plain(way), step_s=pace * step_s)


def _plain(way: Allocation) -> dict[str, Any]:
    return {"kind": way.kind, "model_name": way.model_name, "count": 1, "mode": way.mode, "batch_split": [32]}


def _ended(like: Job, node: str, number: int, **cost: Any) -> None:
    job = Job.objects.get(pk=like.pk)
    job.pk, job.state, job.name = new_id(), "succeeded", f"ended {number}"
    job.save(force_insert=True)
    now = timezone.now()
    DeviceUse.objects.create(
        node_name=node, device_kind=KIND, device_index=0, device_model=NAME, job=job, job_name=job.name, token=1,
        started_at=now, ended_at=now, energy_j=1.0, energy_basis="assumed",
    )  # fmt: skip
    at = now - timedelta(hours=1) + timedelta(seconds=number)
    FinishedJobRow.objects.create(job=job, kind=KIND, model_name=NAME, mode="single", finished_at=at, **cost)
