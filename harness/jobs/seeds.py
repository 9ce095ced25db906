"""Jobs that differ only in the seed: which they are, and their curves as one mean with a band."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from django.conf import settings
from django.db.models import Avg, Count, Max, Min, QuerySet

from harness.csv import csv_chunks
from harness.jobs.models import Job, MetricPoint
from harness.jobs.programs import files_read, text_sha256
from harness.jobs.series import job_series_keys, job_start_s, points_cut, rows_reduced

SEED_COLUMNS = ("step", "epoch", "time_s", "low", "high", "value")
"""Of a curve: `value` is the mean over the seeds, `low` and `high` the least and the greatest of them."""
_BAND_VALUES = 3


def seed_groups(jobs: Sequence[Job]) -> list[list[Job]]:
    """Those of the jobs that ran and differ in `training.seed` alone, two or more in each group, in their order.

    They have the same data and the same resolved spec, start from the same weights, and where people had a hand in the
    program have the same code.
    """
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if job.running_at is not None and "spec" in job.resolved:
            groups.setdefault(_likeness(job), []).append(job)
    found = [_one_of_each_seed(group) for group in groups.values()]
    return [group for group in found if len(group) > 1]


def _likeness(job: Job) -> str:
    spec = {name: value for name, value in job.resolved["spec"].items() if name != "name"}
    spec["training"] = {name: value for name, value in spec.get("training", {}).items() if name != "seed"}
    # The spec alone does not tell of the weights: another file may have got the name since.
    same = [job.dataset_id, job.dataset_sha256, job.weights_id, _code_sha256(job), spec]
    return json.dumps(same, sort_keys=True)


def _code_sha256(job: Job) -> str:
    """Of the code that people had a hand in, without the spec beside it, which names the seed; empty: generated."""
    if not job.own_code:
        return ""
    files = files_read(settings.STORE.job(job.pk).program)
    return text_sha256(json.dumps({name: text for name, text in files.items() if name.endswith(".py")}))


def _one_of_each_seed(jobs: Sequence[Job]) -> list[Job]:
    """The first job of each seed: the same run twice would narrow the band and shift the mean."""
    found: dict[Any, Job] = {}
    for job in jobs:
        found.setdefault(job.resolved["spec"]["training"].get("seed"), job)
    return list(found.values())


def seed_curves(
    *, jobs: Sequence[Job], keys: Sequence[str] = (), points: int, start: float | None = None, stop: float | None = None
) -> dict[str, dict[str, Any]]:
    """Curves by key, `{step: [], epoch: [], time_s: [], low: [], high: [], value: [], total, reduced}`, of every value
    that the jobs told, at the steps at which each of them told a finite one; keys of none are left out.

    Times are those after the start, as if all had started with the first one. Raises `Invalid`.
    """
    starts = [job_start_s(job) or 0.0 for job in jobs]
    shift = starts[0] - fmean(starts)
    found: dict[str, dict[str, Any]] = {}
    for key in keys or job_series_keys(jobs[0]):
        kept, total = rows_reduced(points_cut(_means(jobs, key), points, start, stop), points, _BAND_VALUES)
        if kept:
            found[key] = {column: [row[at] for row in kept] for at, column in enumerate(SEED_COLUMNS)}
            found[key]["time_s"] = [time_s + shift for time_s in found[key]["time_s"]]
            found[key] |= {"total": total, "reduced": len(kept) < total}
    return found


def _means(jobs: Sequence[Job], key: str) -> QuerySet[MetricPoint, Any]:
    told = MetricPoint.objects.filter(job__in=jobs, key=key).values("step")
    return (
        told.annotate(
            of_epoch=Avg("epoch"),
            of_time=Avg("time_s"),
            low=Min("value"),
            high=Max("value"),
            mean=Avg("value"),
            finite=Count("value"),
        )
        .filter(finite=len(jobs))
        .order_by("step")
        .values_list("step", "of_epoch", "of_time", "low", "high", "mean")
    )


def seed_curves_csv(*, jobs: Sequence[Job], keys: Sequence[str] = ()) -> Iterator[bytes]:
    """Every step, exact: key, step, epoch, low, high, mean, number of seeds."""
    rows = (
        (key, step, epoch, low, high, mean, len(jobs))
        for key in keys or job_series_keys(jobs[0])
        for step, epoch, _, low, high, mean in _means(jobs, key).iterator(chunk_size=5000)
    )
    return csv_chunks(["key", "step", "epoch", "low", "high", "mean", "seeds"], rows)
