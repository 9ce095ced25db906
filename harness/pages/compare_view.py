"""Several jobs side by side: what each row shows, which did best by each figure, and what the charts draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from harness.jobs.emulated import emulated_devices
from harness.jobs.models import Job
from harness.pages.compare_fields import compare_fields
from harness.pages.job_view import curves_source
from harness.pages.words import STATE_WORDS
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


def compare_source(jobs: Sequence[Job]) -> dict[str, Any]:
    """What the charts of a comparison draw: the jobs, where their curves are, and the fields by which they differ."""
    told = [
        curves_source(job)
        | {"page": reverse("job_page", args=[job.pk]), "state": STATE_WORDS.get(job.state, (job.state, ""))[0]}
        for job in jobs
    ]
    return {"jobs": told, "fields": compare_fields(jobs)}


def _winner(jobs: Sequence[Job], field: str) -> str | None:
    told = [(value, job) for job in jobs if (value := getattr(job, field)) is not None]
    values = [value for value, _ in told]
    if len({job.metric_name for job in jobs}) != 1 or len(set(values)) < 2:
        return None
    top = max(values) if larger_is_better(jobs[0].metric_name) else min(values)
    first = [job.pk for value, job in told if value == top]
    return str(first[0]) if len(first) == 1 else None
