"""Several jobs side by side: which did best by each figure, and the address without each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from harness.jobs.emulated import emulated_devices
from harness.jobs.models import Job
from worker.merit import larger_is_better


def compare_rows(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """A row for each job; `best` and `best_test` mark the best where they differ and judge alike, `emulated` tells
    which of its devices were declared slower than they are."""
    slowed = emulated_devices(jobs)
    winners = {field: _winner(jobs, field) for field in ("metric_best", "metric_test")}
    return [
        {
            "job": job,
            "best": job.pk == winners["metric_best"],
            "best_test": job.pk == winners["metric_test"],
            "emulated": slowed.get(job.pk, ""),
            "without": "?" + urlencode({"job": [other.pk for other in jobs if other is not job]}, doseq=True),
        }
        for job in jobs
    ]


def _winner(jobs: Sequence[Job], field: str) -> str | None:
    told = [(value, job) for job in jobs if (value := getattr(job, field)) is not None]
    values = [value for value, _ in told]
    if len({job.metric_name for job in jobs}) != 1 or len(set(values)) < 2:
        return None
    top = max(values) if larger_is_better(jobs[0].metric_name) else min(values)
    first = [job.pk for value, job in told if value == top]
    return str(first[0]) if len(first) == 1 else None
