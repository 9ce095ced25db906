"""What a spec says of its learning rate, and whether the program of a draft follows the spec.

Of a spec without a job: `wished` as a person gave it, `resolved` with each `auto` replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from codegen.catalog.rates import rows_that_count
from harness.datasets.selectors import dataset_profile
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import devices_asked
from worker.states import JobState

TESTED = ("range", "trials")
RULES = ("linear", "sqrt")
UNASKED_WAIT_LIMIT_S = 60.0
"""A test that nobody asked for waits so long for an idle device."""


def _spec(job: Job) -> dict[str, Any]:
    return job.resolved.get("spec") or {}


def _resolved(job: Job) -> dict[str, Any]:
    return dict(_spec(job).get("training", {}))


def rate_of(job: Job) -> float | None:
    """Peak learning rate of the resolved spec."""
    rate = _resolved(job).get("learning_rate")
    return float(rate) if isinstance(rate, (int, float)) else None


def rule_of(job: Job) -> str:
    """`none`, `linear`, `sqrt`, `range` or `trials`, as resolved."""
    return str(_resolved(job).get("rate_rule") or "none")


def rate_is_open(job: Job) -> bool:
    """Whether the spec names no learning rate."""
    return _is_open(job.spec, "learning_rate")


def _is_open(wished: Mapping[str, Any], name: str) -> bool:
    return bool(wished.get("training", {}).get(name, "auto") == "auto")


def rate_is_asked(job: Job) -> bool:
    """Whether the spec leaves the learning rate to a range test by name."""
    return rate_is_open(job) and rule_of(job) in TESTED and not spec_file_is_edited(job)


def rate_is_automatic(job: Job) -> bool:
    """Whether rate and rule are left open and a step has other rows than the usual rate is for: a rule stands in until
    a test has told."""
    return spec_rate_is_automatic(job.spec, _spec(job)) and not spec_file_is_edited(job)


def spec_rate_is_automatic(wished: Mapping[str, Any], resolved: Mapping[str, Any]) -> bool:
    """The same of a spec without a job."""
    rule = resolved.get("training", {}).get("rate_rule")
    return _is_open(wished, "learning_rate") and _is_open(wished, "rate_rule") and rule in RULES


def spec_file_is_edited(job: Job) -> bool:
    """Whether a person wrote into spec.yaml: what stands there is what they want, and no spec is made over it."""
    paths = settings.STORE.job(job.pk)
    written, generated = (programs.files_read(folder).get("spec.yaml") for folder in (paths.program, paths.generated))
    return written != generated


def untested_steps(job: Job) -> float | None:
    """Steps of a run before which a range test may come that nobody asked for; None where none does."""
    return run_steps(job) if job.state == JobState.DRAFT and rate_is_automatic(job) else None


def spec_untested_steps(wished: Mapping[str, Any], resolved: Mapping[str, Any], rows: int) -> float | None:
    """The same of a spec without a job, on a dataset of so many rows."""
    return _run_steps(resolved, rows) if spec_rate_is_automatic(wished, resolved) else None


def run_steps(job: Job) -> float:
    """Steps of a whole run, about."""
    return _run_steps(_spec(job), dataset_profile(job.dataset).rows)


def _run_steps(resolved: Mapping[str, Any], rows: int) -> float:
    split = (resolved.get("data") or {}).get("split") or {}
    held_out = sum(float(split.get(name) or 0) for name in ("validation", "test"))
    train_rows = round(rows * (1 - held_out))
    return int(resolved.get("training", {}).get("epochs", 0) or 0) * math.ceil(train_rows / _step_rows(resolved))


def step_rows(job: Job) -> int:
    """Rows that make a step: of the batch, those that count where mode async drops what backup ranks send."""
    return _step_rows(_spec(job))


def _step_rows(resolved: Mapping[str, Any]) -> int:
    training = resolved.get("training", {})
    batch, backup = training.get("batch_size"), training.get("backup")
    rows = batch if isinstance(batch, int) and batch > 0 else 1
    if resolved.get("mode") == "async" and isinstance(backup, int):
        return rows_that_count(rows, devices_asked(resolved)[1], backup)
    return rows
