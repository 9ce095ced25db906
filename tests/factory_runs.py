"""Runs that differ: in rate, batch, optimizer, family and seed; some broke, some told nothing, some judge otherwise."""

from __future__ import annotations

import copy
import math
from typing import Any

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
_STEPS = 30


def runs_make(like: Any, count: int, *, points: bool = True) -> list[Any]:
    """Copies of a job, `run 000` and on, each with values and curves of its own.

    Of every ten the fifth failed with a curve that is not finite, the seventh is a draft, the last judges by RMSE.
    """
    from harness.jobs.models import Job, MetricPoint

    jobs = [_run(like, number) for number in range(count)]
    Job.objects.bulk_create(jobs)
    if points:
        rows = [row for job in jobs if job.state != "draft" for row in _points(job, MetricPoint)]
        MetricPoint.objects.bulk_create(rows)
    return jobs


def _run(like: Any, number: int) -> Any:
    job = copy.copy(like)
    job.pk, job.name, job.state = f"run{number:09d}", f"run {number:03d}", "succeeded"
    rate, seed = RATES[number // 3 % len(RATES)], number % 3
    batch = (32, 64, 128)[number // 9 % 3]
    job.resolved = copy.deepcopy(like.resolved)
    spec = job.resolved["spec"]
    spec["training"] |= {"learning_rate": rate, "batch_size": batch, "seed": seed}
    spec["training"]["optimizer"] = ("adamw", "sgd")[number // 5 % 2]
    score = 0.97 - 0.05 * abs(math.log10(rate / 0.003)) ** 2 - 0.004 * seed
    job.metric_name, job.metric_best, job.metric_test = "accuracy", score, score - 0.01
    job.last_values = {"train/loss": 1.3 - score, "val/accuracy": score - 0.002, "val/loss": 1.4 - score}
    job.run_s, job.tags = 40.0 + 3 * number, [f"seed:{seed}", "sweep"]
    if number % 10 == 4:
        job.state, job.metric_best, job.metric_test = "failed", None, None
        job.last_values |= {"val/loss": None}
    if number % 10 == 6:
        job.state, job.metric_best, job.metric_test, job.last_values, job.run_s = "draft", None, None, {}, 0.0
    if number % 10 == 9:
        job.task, job.metric_name, job.metric_best, job.metric_test = "tabular_regression", "rmse", 2.5 - score, 2.6
        spec["task"] = job.task
    return job


def _points(job: Any, model: Any) -> list[Any]:
    start_s, found = 1_700_000_000.0, []
    for step in range(1, _STEPS + 1):
        value = job.last_values["train/loss"] + 2 * math.exp(-step / 6) + 0.02 * math.sin(step * 1.3)
        diverged = job.state == "failed" and step > 20
        place = {"job": job, "step": step, "epoch": step / 10, "time_s": start_s + step}
        found.append(model(key="train/loss", value=None if diverged else value, **place))
        if step % 5 == 0:
            found.append(model(key="val/loss", value=None if diverged else value + 0.1, **place))
    return found
