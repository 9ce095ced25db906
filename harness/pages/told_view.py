"""What was predicted of a job, beside what came true, as the cost tab shows it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness.calibration.models import FinishedJobRow
from harness.calibration.selectors import Compared, compared
from harness.estimates.selectors import job_cost_row, job_estimate_get, job_steps_before
from harness.estimates.tried import batch_size
from harness.jobs.models import Job
from harness.jobs.options import option_words
from harness.pages.job_view import elapsed_s
from scheduler.estimation.values import Interval
from scheduler.offers.values import estimate_from
from scheduler.offers.words import energy_range_words, energy_words
from scheduler.types import Option
from worker.states import TERMINAL, JobState
from worker.words import counted, duration_words, size_words, step_words

Words = Callable[[float], str]


def told_context(job: Job) -> dict[str, Any]:
    """What was predicted when the job was submitted, and what came true.

    Of a run that has ended the forecast is that for the devices that it ran on, over the epochs that it made; the rest
    of the story is in `said`.
    """
    whole = job_estimate_get(job) if job.state != JobState.DRAFT else None
    if whole is None:
        return {"estimate": None}
    row, live = job_cost_row(job), _so_far(job)
    estimate = estimate_from(row.predicted) if row and row.predicted else whole
    parts = (
        ("Time of a step", "step_s", step_words, estimate.time_basis),
        ("Time of the run", "run_s", expected_words, estimate.time_basis),
        ("Memory per rank", "peak_bytes", size_words, estimate.memory_basis),
        ("Energy", "energy_j", energy_words, estimate.energy_basis),
    )
    actual = {key: getattr(row, key) if row else None for _, key, _, _ in parts}
    return {
        "estimate": estimate,
        "told": [
            {
                "name": name,
                "basis": str(basis),
                "so_far": words(live[key]) if live.get(key) else "",
                "actual_basis": row.energy_basis if row and key == "energy_j" else "measured",
                **_beside(getattr(estimate, key), actual[key], compared(row, key) if row else None, words),
            }
            for name, key, words, basis in parts
        ],
        "has_ended": JobState(job.state) in TERMINAL,
        "has_actual": any(value is not None for value in actual.values()),
        "said": " ".join(filter(None, (_said(job, row, whole.run_s), _before(job)))) if row else "",
    }


def expected_words(seconds: float) -> str:
    """A time that is expected: never less than it is."""
    return duration_words(seconds, up=True)


def range_words(interval: Interval, words: Words) -> str:
    """`1 to 2 s`, `59 s to 2 min`."""
    low, high = words(interval.low), words(interval.high)
    (value, _, unit), (upper, _, upper_unit) = low.rpartition(" "), high.rpartition(" ")
    is_plain = unit == upper_unit and " " not in value + upper
    return f"{value} to {high}" if is_plain else f"{low} to {high}"


def _so_far(job: Job) -> dict[str, float]:
    """What a run that goes on shows of its own cost."""
    if JobState(job.state) in TERMINAL:
        return {}
    step_s = batch_size(job) / job.samples_per_s if job.samples_per_s else 0.0
    return {"run_s": elapsed_s(job), "step_s": step_s}


def _before(job: Job) -> str:
    """What its steps took on other devices than those that it had last."""
    told = []
    for row in job_steps_before(job):
        item = compared(row, "step_s")
        beside = f" ({step_words(item.mid)} predicted)" if item else ""
        devices = option_words(Option(kind=row.kind, count=row.count))
        told.append(f"{step_words(row.step_s or 0.0)} on {devices}{beside}")
    return f"Before, a step took {', '.join(told)}." if told else ""


def _said(job: Job, row: FinishedJobRow, whole_s: Interval) -> str:
    """What forecast and fact are about, where that is not one whole run on the devices of the estimate."""
    if not row.predicted:
        return (
            "Nothing is held against the estimate: it is of other devices or of another program than what ran, or was "
            "made only when that had begun."
        )
    made, attempts = int(job.epoch), job.attempts.count()
    early = f"It stopped early, after {made} of {job.epochs} epochs" if 0 < made < job.epochs else ""
    first = early and f"{early}. "
    if row.run_comparable:
        whole = f"all of them were to take {expected_words(whole_s.mid)}"
        return early and f"{early}: time and energy are held against what these epochs were to take; {whole}."
    if attempts > 1:
        return (
            f"{first}It took {counted(attempts, 'attempt')}: time and energy are of all of them, with what was lost, "
            "and are not held against the estimate of one run."
        )
    if early and not row.predicted.get("epoch_s"):
        return f"{early}, and the estimate is of all of them: time and energy are not held against it."
    return f"{first}Its devices changed while it ran: time and energy are not held against the estimate."


def _beside(told: Interval, actual: float | None, held: Compared | None, words: Words) -> dict[str, Any]:
    write, spread = words, range_words(told, words)
    if words is energy_words:  # what stands in one row has one unit
        most_j = max(told.high, actual or 0.0)
        write = partial(energy_words, beside_j=most_j)
        spread = energy_range_words(told.low, told.high, beside_j=most_j)
    return {
        "told": write(told.mid),
        "range": spread,
        "level": told.level,
        "actual": write(actual) if actual is not None else None,
        "error": 100.0 * held.error if held else None,
        "held": held is not None and held.held,
    }
