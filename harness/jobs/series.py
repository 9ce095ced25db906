"""Curves and resource samples of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
from django.db.models import Max, Min, QuerySet

from harness.csv import csv_chunks
from harness.errors import Invalid
from harness.jobs.models import Job, MetricPoint, ResourceSample
from worker.merit import larger_is_better

Row = tuple[Any, ...]
POINTS_MAX = 10_000
_ROWS_PER_READ = 10_000
AXES = ("step", "epoch", "time", "relative")
"""`time`: unix seconds; `relative`: seconds since the first point of the job."""


def job_series_keys(job: Job) -> list[str]:
    """Names of the curves there are: one step in the index for each, however many points it has."""
    names: list[str] = []
    rows = MetricPoint.objects.filter(job=job).order_by("key").values_list("key", flat=True)
    name = rows.first()
    while name is not None:
        names.append(name)
        name = rows.filter(key__gt=name).first()
    return names


def job_series(
    *,
    job: Job,
    keys: Sequence[str] = (),
    points: int = 2000,
    x: str = "step",
    start: float | None = None,
    stop: float | None = None,
) -> dict[str, dict[str, Any]]:
    """Curves by key: `{x: [], y: [], total, reduced}`; no keys: all. A value that was not finite is None.

    Above `points` the curve is cut into buckets, and each gives its least and greatest point, so that spikes survive.
    `start` and `stop` cut by step. Raises `Invalid`.
    """
    if x not in AXES:
        raise Invalid(f"There is no axis {x!r}.", field="x", hint=f"Use one of: {', '.join(AXES)}.")
    column = {"step": "step", "epoch": "epoch"}.get(x, "time_s")
    shift = (job_start_s(job) or 0.0) if x == "relative" else 0.0
    rows = points_cut(MetricPoint.objects.filter(job=job).order_by("step"), points, start, stop)
    found = {}
    for key in keys or job_series_keys(job):
        kept, total = rows_reduced(rows.filter(key=key).values_list(column, "value"), points)
        found[key] = {
            "x": [place - shift if shift else place for place, _ in kept],
            "y": [value for _, value in kept],
            "total": total,
            "reduced": len(kept) < total,
        }
    return found


def job_curves(
    *, job: Job, keys: Sequence[str] = (), points: int = 2000, start: float | None = None, stop: float | None = None
) -> dict[str, dict[str, Any]]:
    """Curves by key with every axis at once: `{step: [], epoch: [], time_s: [], value: [], total, reduced}`.

    Same cut and same reduction as `job_series`, from one query per curve. Raises `Invalid`.
    """
    columns = ("step", "epoch", "time_s", "value")
    rows = points_cut(MetricPoint.objects.filter(job=job).order_by("step"), points, start, stop)
    found: dict[str, dict[str, Any]] = {}
    for key in keys or job_series_keys(job):
        kept, total = rows_reduced(rows.filter(key=key).values_list(*columns), points)
        found[key] = {column: [row[place] for row in kept] for place, column in enumerate(columns)}
        found[key] |= {"total": total, "reduced": len(kept) < total}
    return found


def job_start_s(job: Job) -> float | None:
    """Unix time of the job's first point; None while there is none."""
    first: float | None = MetricPoint.objects.filter(job=job).aggregate(first=Min("time_s"))["first"]
    return first


def metric_improved_at(job: Job, step: int) -> bool:
    """Whether its metric on the validation rows was better at a step than at all before, of which there must be one."""
    told = MetricPoint.objects.filter(job=job, key=f"val/{job.metric_name}", value__isnull=False)
    at: float | None = told.filter(step=step).values_list("value", flat=True).first()
    larger = larger_is_better(job.metric_name)
    end = Max("value") if larger else Min("value")
    before: float | None = told.filter(step__lt=step).aggregate(best=end)["best"]
    if at is None or before is None:
        return False
    return at > before if larger else at < before


def points_cut(
    rows: QuerySet[MetricPoint, Any], points: int, start: float | None, stop: float | None
) -> QuerySet[MetricPoint, Any]:
    """The rows from one step to another. Raises `Invalid` where so many points are not given."""
    if not 2 <= points <= POINTS_MAX:
        raise Invalid(f"points is 2 to {POINTS_MAX}.", field="points")
    if start is not None:
        rows = rows.filter(step__gte=start)
    return rows if stop is None else rows.filter(step__lte=stop)


def rows_reduced(rows: QuerySet[Any, Any], points: int, values: int = 1) -> tuple[list[Row], int]:
    """(rows kept, rows there are), as `reduce_rows` keeps them: read as a stream, so that a million points take no more
    memory than one bucket."""
    total = rows.count()
    return reduce_rows(rows.iterator(chunk_size=_ROWS_PER_READ), total, points, values), total


def reduce_rows(rows: Iterable[Row], total: int, points: int, values: int = 1) -> list[Row]:
    """At most `points` of `total` rows, whose last columns are so many values: first and last of all, least and
    greatest of each value in each bucket, gaps (None) kept."""
    if total <= points:
        return list(rows)
    stream = iter(rows)
    kept = list(islice(stream, 1))
    edges = np.linspace(1, total - 1, max(1, (points - 2) // (1 + 2 * values)) + 1).astype(int)
    for first, last in pairwise(edges):
        kept += _extremes(list(islice(stream, int(last - first))), values)
    return kept + list(islice(stream, 1))


def _extremes(bucket: list[Row], values: int) -> list[Row]:
    """The first gap and the rows with the least and greatest of each value, in their order."""
    if not bucket:
        return []
    columns = np.array([row[-values:] for row in bucket], dtype=float).T
    gaps = np.isnan(columns).any(axis=0)
    keep = {int(np.argmax(gaps))} if gaps.any() else set()
    for column in columns:
        if not np.isnan(column).all():
            keep |= {int(np.nanargmin(column)), int(np.nanargmax(column))}
    return [bucket[index] for index in sorted(keep)]


def job_series_csv(*, job: Job, keys: Sequence[str] = ()) -> Iterator[bytes]:
    """Every point, exact, as CSV: key, step, epoch, time_s, value."""
    rows = MetricPoint.objects.filter(job=job)
    if keys:
        rows = rows.filter(key__in=keys)
    values = rows.order_by("key", "step").values_list("key", "step", "epoch", "time_s", "value")
    return csv_chunks(["key", "step", "epoch", "time_s", "value"], values.iterator(chunk_size=5000))


def job_samples(*, job: Job, points: int = 600, token: int | None = None) -> list[dict[str, Any]]:
    """Use of CPU, memory and GPU over time, thinned evenly to `points`: `{time_s, token, ranks, host, gpus}`."""
    rows = ResourceSample.objects.filter(job=job)
    if token is not None:
        rows = rows.filter(token=token)
    ids = list(rows.order_by("time_s").values_list("pk", flat=True))
    if len(ids) > points:
        ids = [ids[index] for index in np.linspace(0, len(ids) - 1, points).astype(int)]
    found = ResourceSample.objects.in_bulk(ids)
    return [{"time_s": found[pk].time_s, "token": found[pk].token, **found[pk].data} for pk in ids if pk in found]
