"""What a draft's spec says of its learning rate, and whether its program follows the spec."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from codegen.catalog.rates import rows_that_count
from harness.datasets.selectors import dataset_profile
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import wanted_devices

TESTED = ("range", "trials")
RULES = ("linear", "sqrt")
UNASKED_WAIT_LIMIT_S = 60.0
"""A test that nobody asked for waits so long for an idle device."""


def _resolved(job: Job) -> dict[str, Any]:
    return dict((job.resolved.get("spec") or {}).get("training", {}))


def rate_of(job: Job) -> float | None:
    """Peak learning rate of the resolved spec."""
    rate = _resolved(job).get("learning_rate")
    return float(rate) if isinstance(rate, (int, float)) else None


def rule_of(job: Job) -> str:
    """`none`, `linear`, `sqrt`, `range` or `trials`, as resolved."""
    return str(_resolved(job).get("rate_rule") or "none")


def rate_is_open(job: Job) -> bool:
    """Whether the spec names no learning rate."""
    return bool(job.spec.get("training", {}).get("learning_rate", "auto") == "auto")


def rate_is_asked(job: Job) -> bool:
    """Whether the spec leaves the learning rate to a range test by name."""
    return rate_is_open(job) and rule_of(job) in TESTED and not spec_file_is_edited(job)


def rate_is_automatic(job: Job) -> bool:
    """Whether rate and rule are left open and a step has other rows than the usual rate is for: a rule stands in until
    a test has told."""
    wish = job.spec.get("training", {}).get("rate_rule", "auto")
    return rate_is_open(job) and wish == "auto" and rule_of(job) in RULES and not spec_file_is_edited(job)


def spec_file_is_edited(job: Job) -> bool:
    """Whether a person wrote into spec.yaml: what stands there is what they want, and no spec is made over it."""
    paths = settings.STORE.job(job.pk)
    written, generated = (programs.files_read(folder).get("spec.yaml") for folder in (paths.program, paths.generated))
    return written != generated


def run_steps(job: Job) -> float:
    """Steps of a whole run, about."""
    return job.epochs * dataset_profile(job.dataset).rows / step_rows(job)


def step_rows(job: Job) -> int:
    """Rows that make a step: of the batch, those that count where mode async drops what backup ranks send."""
    training, mode = _resolved(job), (job.resolved.get("spec") or {}).get("mode")
    batch, backup = training.get("batch_size"), training.get("backup")
    rows = batch if isinstance(batch, int) and batch > 0 else 1
    if mode == "async" and isinstance(backup, int):
        return rows_that_count(rows, wanted_devices(job)[1], backup)
    return rows
