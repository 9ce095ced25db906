"""Peak memory of a rank: what its parts add up to, corrected by finished jobs whose memory was made up alike.

    log factor = w / (w + SHRINK) x CAUTION-quantile of log(measured / added up), each job weighed by its likeness
    likeness   = exp(-d^2 / 2), d between the shares of the parts and the logarithms of the sizes; w the sum

Where reading the rows takes more than that, it is the peak (`fit_memory.loading_peak`). Jobs of which that was foretold
correct it in the same way, alike by its size and by how many times their rows it takes, and say nothing of steps.

Parts of programs of one kind are off together, so what one family took says little of another: far from every job the
factor is 1. A job that ran out of memory would have taken more than it had; it counts where more was not foretold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scheduler.estimation.device_parts import MemoryModel, PeakLessons
from scheduler.estimation.features import Vector
from scheduler.estimation.fit_memory import HEADROOM, PARTS, PEAK_LEVEL, UNDER_WEIGHT, loading_peak, parts, predict_peak
from scheduler.estimation.values import Interval
from scheduler.workload import Workload

SHRINK = 3.0
"""So many jobs alike move the factor half of the way ..."""
RANGE_SHRINK = 20.0
"""... and so many the ends of the range: the rare peak shows in many jobs only."""
CAUTION = UNDER_WEIGHT / (1.0 + UNDER_WEIGHT)
"""The quantile at which an under-estimate costs `UNDER_WEIGHT` times an over-estimate."""
SHARE_LENGTH = 0.25
"""Shares of the parts that differ by so much make two peaks unlike ..."""
SIZE_LENGTH = 0.5
"""... and so do sizes, in decades."""
TIMES_LENGTH = 0.15
"""So do, of readings, the times that they take of their rows, in decades: pictures (2) say little of tables (8)."""
ALIKE = 0.5
"""From this likeness on the range has to hold what a job took."""
BELIEVED = math.log(3.0)
"""A peak further off than this factor, or from the usual one of all jobs, says more about its job."""
FEW = 4
"""Fewer jobs cannot say what is usual."""
LOWEST = math.log(0.5)
"""No jobs, however many, make a peak less than half of what its parts add up to."""


@dataclass(frozen=True, kw_only=True)
class PeakSeen:
    """Peak of the largest rank of a job, or what it could have at most when it ran out. Refuses what cannot be."""

    workload: Workload
    """Without operators, at the rows that the rank took at once."""
    peak_bytes: float
    """Above the idle process."""
    ran_out: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run gives."""
        if not math.isfinite(self.peak_bytes) or self.peak_bytes <= 0:
            raise ValueError(f"a peak is finite and above 0, not {self.peak_bytes}")


class _AddedUp(NamedTuple):
    """A peak before any job corrects it."""

    peak_bytes: float
    makeup: Callable[[], Vector]
    """Of what it consists, in lengths: what two peaks are alike by. Asked for where any job has taught."""


def memory_taught(model: MemoryModel, seen: Sequence[PeakSeen]) -> MemoryModel:
    """`model` with what these jobs teach, instead of what others taught it before.

    Each teaches of what was foretold to be its peak: the steps, or the reading of its rows. What is the higher of two
    is never less than the one that it teaches of.
    """
    steps: list[tuple[PeakSeen, _AddedUp]] = []
    reading: list[tuple[PeakSeen, _AddedUp]] = []
    for one in seen:
        of_steps, of_reading = _steps(model, one.workload), _reading(model, one.workload)
        if of_reading and of_reading.peak_bytes > of_steps.peak_bytes:
            reading.append((one, of_reading))
        else:
            steps.append((one, of_steps))
    return replace(model, lessons=_lessons(steps), reading=_lessons(reading))


def _lessons(told: Sequence[tuple[PeakSeen, _AddedUp]]) -> PeakLessons:
    """What jobs took beside what was added up for them, without those that are too far off."""
    logs = np.array([math.log(one.peak_bytes / added_up.peak_bytes) for one, added_up in told])
    ran_out = np.array([one.ran_out for one, _ in told], dtype=bool)
    # Who had less than was foretold ran out whatever it would have taken: that says nothing of what is usual.
    telling = logs[~ran_out | (logs > 0.0)]
    usual = float(np.median(telling)) if len(telling) >= FEW else 0.0
    kept = np.flatnonzero((np.abs(logs - usual) <= BELIEVED) | (ran_out & (logs < usual))).tolist()
    return PeakLessons(
        makeups=tuple(tuple(map(float, told[number][1].makeup())) for number in kept),
        log_ratios=tuple(float(logs[number]) for number in kept),
        ran_out=tuple(told[number][0].ran_out for number in kept),
        n_left_out=len(told) - len(kept),
    )


def peak_interval(model: MemoryModel, workload: Workload) -> Interval:
    """Peak of one rank; the upper end is meant to be kept below a limit."""
    return or_loading(steps_interval(model, workload), model, workload)


def or_loading(peak: Interval, model: MemoryModel, workload: Workload) -> Interval:
    """The peak of the steps, or that of reading the rows before them where it is higher."""
    of_reading = _reading(model, workload)
    if of_reading is None:
        return peak
    reading = _interval(model, of_reading, model.reading)
    return Interval(
        low=max(peak.low, reading.low),
        mid=max(peak.mid, reading.mid),
        high=max(peak.high, reading.high),
        level=peak.level,
    )


def steps_interval(model: MemoryModel, workload: Workload) -> Interval:
    """Peak of one rank while it trains, as finished jobs correct it."""
    return _interval(model, _steps(model, workload), model.lessons)


def _steps(model: MemoryModel, workload: Workload) -> _AddedUp:
    """Made up of the shares of its parts, and its size."""

    def makeup() -> Vector:
        amounts = parts(workload) * np.array([model.coefficients[name] for name in PARTS])
        total = float(amounts.sum())
        return np.array([*(amounts / total / SHARE_LENGTH), math.log10(total) / SIZE_LENGTH])

    return _AddedUp(predict_peak(model.coefficients, workload), makeup)


def _reading(model: MemoryModel, workload: Workload) -> _AddedUp | None:
    """Made up of how many times the rows it takes, and its size; None where it takes nothing."""
    peak_bytes = loading_peak(model, workload)
    if not peak_bytes:
        return None
    times = workload.loading_bytes / max(1, workload.dataset_bytes)
    makeup = np.array([math.log10(times) / TIMES_LENGTH, math.log10(peak_bytes) / SIZE_LENGTH])
    return _AddedUp(peak_bytes, lambda: makeup)


def _interval(model: MemoryModel, added_up: _AddedUp, lessons: PeakLessons) -> Interval:
    low, mid, high = (added_up.peak_bytes * math.exp(log) for log in _log_ends(model, added_up.makeup, lessons))
    return Interval(low=low, mid=mid, high=high, level=PEAK_LEVEL)


def _log_ends(model: MemoryModel, makeup: Callable[[], Vector], lessons: PeakLessons) -> tuple[float, float, float]:
    """(lower end, middle, upper end), each the logarithm of its ratio to what was added up."""
    low, high = math.log(model.low_ratio), math.log(model.high_ratio)
    if not lessons.log_ratios:
        return low, 0.0, high
    away = np.array(lessons.makeups) - makeup()
    likeness = np.exp(-(away**2).sum(axis=1) / 2)
    logs, ran_out = np.array(lessons.log_ratios), np.array(lessons.ran_out)
    mid = _factor(logs[~ran_out], likeness[~ran_out])
    telling = ~ran_out | (logs > mid)
    logs, likeness = logs[telling], likeness[telling]
    mid = _factor(logs, likeness)
    seen = logs[likeness >= ALIKE] - mid
    if not len(seen):
        return mid + low, mid, mid + high
    share, headroom = _weight(likeness, RANGE_SHRINK), math.log(HEADROOM)
    seen_low, seen_high = min(0.0, float(seen.min())) - headroom, max(0.0, float(seen.max())) + headroom
    low = min(seen_low, low + share * (seen_low - low))
    high = max(seen_high, high + share * (seen_high - high))
    return mid + low, mid, mid + high


def _factor(logs: Vector, likeness: Vector) -> float:
    """Logarithm of the factor on what was added up."""
    if not len(logs):
        return 0.0
    order = np.argsort(logs)
    up_to = np.cumsum(likeness[order])
    usual = float(logs[order][min(np.searchsorted(up_to, CAUTION * up_to[-1]), len(logs) - 1)])
    return max(LOWEST, _weight(likeness, SHRINK) * usual)


def _weight(likeness: Vector, shrink: float) -> float:
    """How far what was seen counts against what was known before."""
    total = float(likeness.sum())
    return total / (total + shrink)
