"""The stretches of a job whose devices changed: between two changes its steps tell of the devices that it then had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from codegen.modes import STAGED
from harness.estimates.tried import batch_size
from harness.jobs.control.parts import is_spread
from harness.jobs.models import Job, JobAttempt, JobEvent, MetricPoint

RATES_LEAST = 3
"""Of fewer measured rates of a rank nothing is made."""
_Rates = Mapping[str, Sequence[tuple[int, float]]]
"""Key of a rank's rate -> (step, rows per second) each, as it was told."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps of an attempt with one number of ranks."""

    attempt: JobAttempt
    ranks: int
    """0: as many as its plan says, and no other number at any time."""
    step_s: float
    told: int
    """Rates that each rank told, at least."""


def stretches_of(job: Job) -> list[Stretch]:
    """Those in which all ranks told their pace often enough, oldest first.

    Not of stages, whose ranks do not share out the rows, and not of elastic attempts over several nodes: which of these
    a lost one leaves is not kept.
    """
    attempts = list(job.attempts.order_by("number"))
    ends = [attempt.created_at for attempt in attempts[1:]]
    found: list[Stretch] = []
    for attempt, until in zip(attempts, [*ends, None], strict=True):
        if attempt.run_plan.mode not in STAGED and not (attempt.width and is_spread(attempt)):
            found += _of_attempt(job, attempt, _rates(job, attempt, until, alone=len(attempts) == 1))
    return found


def _of_attempt(job: Job, attempt: JobAttempt, rates: _Rates) -> Iterator[Stretch]:
    widths = _widths(job, attempt)
    for place, (after_step, ranks) in enumerate(widths):
        to_step = widths[place + 1][0] if place + 1 < len(widths) else None
        values = {
            key: [rate for step, rate in told if step > after_step and (to_step is None or step <= to_step)]
            for key, told in rates.items()
        }
        # Who left may have told a little of steps that the others made again.
        there = [each for each in values.values() if len(each) >= RATES_LEAST]
        if there and len(there) == ranks:
            yield Stretch(
                attempt=attempt, ranks=ranks if attempt.width else 0, told=min(map(len, there)),
                step_s=batch_size(job) / sum(map(median, there)),
            )  # fmt: skip


def _widths(job: Job, attempt: JobAttempt) -> list[tuple[int, int]]:
    """(step after which, ranks) in turn; none where a node did not tell from which step it went on."""
    found = [(-1, len(attempt.run_plan.ranks))]
    notes = JobEvent.objects.filter(job=job, kind="note", token=attempt.number).order_by("pk")
    for data in notes.values_list("data", flat=True):
        if "width" in data:
            if not isinstance(data.get("step"), int):
                return []
            found.append((data["step"], data["width"]["ranks"]))
    return found


def _rates(job: Job, attempt: JobAttempt, until: datetime | None, *, alone: bool) -> _Rates:
    points = MetricPoint.objects.filter(job=job, key__startswith="rank", key__endswith="/samples_per_s", value__gt=0)
    if not alone:
        points = points.filter(time_s__gte=attempt.created_at.timestamp())
        points = points.filter(time_s__lt=until.timestamp()) if until is not None else points
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for key, step, rate in points.order_by("step").values_list("key", "step", "value"):
        found[key].append((step, rate or 0.0))
    return found
