"""What the charts of a job ask for: curves, a closer look at a part of them, use of the machine, speed-up."""

from __future__ import annotations

import math

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from harness.csv import csv_chunks
from harness.errors import Invalid, NotFound
from harness.jobs.comparing import jobs_compared
from harness.jobs.models import Job
from harness.jobs.seeds import seed_curves, seed_curves_csv
from harness.jobs.selectors import job_get, job_samples
from harness.jobs.series import job_curves, job_start_s
from harness.pages.speed import SPEEDUP_COLUMNS, speedup_rows
from harness.pages.web import page, person
from harness.responses import chunks_response

CURVE_POINTS = 2000
CURVE_POINTS_LEAST = 100
SAMPLE_POINTS = 600
KEYS_MAX = 64


def _step(request: HttpRequest, name: str) -> float | None:
    text = request.GET.get(name, "")
    try:
        value = float(text) if text else None
    except ValueError as error:
        raise Invalid(f"{text!r} is not a step number.", field=name) from error
    if value is not None and not math.isfinite(value):
        raise Invalid(f"{text!r} is not a step number.", field=name)
    return value


def _points(request: HttpRequest) -> int:
    asked = _step(request, "points")
    return CURVE_POINTS if asked is None else int(min(CURVE_POINTS, max(CURVE_POINTS_LEAST, asked)))


@page("GET", "HEAD")
def job_curve_data(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Curves with all axes, JSON for the charts. `keys`, `start`, `stop` ask for a part of them, drawn finer; `points`
    for fewer of each and nothing else of the job, where many jobs share a chart."""
    job = job_get(user=person(request), job_id=job_id)
    keys = request.GET.getlist("keys")[:KEYS_MAX]
    start, stop = _step(request, "start"), _step(request, "stop")
    curves = job_curves(job=job, keys=keys, points=_points(request), start=start, stop=stop)
    if keys:
        return JsonResponse({"curves": curves})
    if request.GET.get("points"):
        return JsonResponse({"curves": curves, "start_s": job_start_s(job)})
    samples = job_samples(job=job, points=SAMPLE_POINTS)
    firsts = [job_start_s(job), samples[0]["time_s"] if samples else None]
    start_s = min((first for first in firsts if first is not None), default=None)
    return JsonResponse({"curves": curves, "start_s": start_s, "samples": samples})


def _jobs(request: HttpRequest, ids: str) -> list[Job]:
    jobs = jobs_compared(user=person(request), ids=ids.split(","))
    if not jobs:
        raise NotFound("There is no such job.", hint="The page Jobs shows those that you can see.")
    return jobs


@page("GET", "HEAD")
def seed_curve_data(request: HttpRequest, ids: str) -> HttpResponseBase:
    """The curves of several jobs as one, JSON as of `job_curve_data`."""
    jobs, keys = _jobs(request, ids), request.GET.getlist("keys")[:KEYS_MAX]
    start, stop = _step(request, "start"), _step(request, "stop")
    curves = seed_curves(jobs=jobs, keys=keys, points=_points(request), start=start, stop=stop)
    return JsonResponse({"curves": curves, "start_s": job_start_s(jobs[0])})


@page("GET", "HEAD")
def seed_curve_csv(request: HttpRequest, ids: str) -> HttpResponseBase:
    """The same with every step, as CSV."""
    chunks = seed_curves_csv(jobs=_jobs(request, ids), keys=request.GET.getlist("keys")[:KEYS_MAX])
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename="seeds.csv")


@page("GET", "HEAD")
def job_speedup(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Throughput of this run and of the same run on other numbers of ranks, as CSV."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    rows = [[row[name] for name in SPEEDUP_COLUMNS] for row in speedup_rows(job)]
    chunks = csv_chunks(SPEEDUP_COLUMNS, rows)
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"{job.pk}-speedup.csv")
