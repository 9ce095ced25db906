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
from harness.pages.judging import judged_apart
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


def compare_source(jobs: Sequence[Job], seeds: Sequence[Sequence[Job]] = ()) -> dict[str, Any]:
    """What the charts of a comparison draw: the jobs, the fields by which they differ, and `lines`, where the curves
    are: one line for each job, or for each of these groups of seeds and each job that is in none."""
    told = [
        curves_source(job)
        | {"page": reverse("job_page", args=[job.pk]), "state": STATE_WORDS.get(job.state, (job.state, ""))[0]}
        for job in jobs
    ]
    group_of = {job.pk: group for group in seeds for job in group}
    lines = [
        _seeds_line(group, hue) if group else one | {"jobs": [job.pk], "hue": hue}
        for hue, (job, one) in enumerate(zip(jobs, told, strict=True))
        if not (group := group_of.get(job.pk)) or group[0] is job
    ]
    return {"jobs": told, "fields": compare_fields(jobs), "lines": lines}


def _seeds_line(group: Sequence[Job], hue: int) -> dict[str, Any]:
    ids = [job.pk for job in group]
    joined = ",".join(ids)
    rest = len(group) - 1
    return {
        "id": joined,
        "name": f"{group[0].name} and {rest} other seed{'s' if rest > 1 else ''}",
        "curves": reverse("seed_curves", args=[joined]),
        "csv": reverse("seed_curves_csv", args=[joined]),
        "page": f"{reverse('job_compare')}?{urlencode({'job': ids}, doseq=True)}",
        "jobs": ids,
        "hue": hue,
    }


def _winner(jobs: Sequence[Job], field: str) -> str | None:
    told = [(value, job) for job in jobs if (value := getattr(job, field)) is not None]
    values = [value for value, _ in told]
    if len(set(values)) < 2 or judged_apart([job for _, job in told]):
        return None
    top = max(values) if larger_is_better(told[0][1].metric_name) else min(values)
    first = [job.pk for value, job in told if value == top]
    return str(first[0]) if len(first) == 1 else None
