"""The first split of a batch over unlike devices: from estimates, or from tables of measured steps.

    t_i(B) = a_i + b_i B, per kind of device from the estimator (times a declared slowdown); equal finish in whole rows
    within each device's memory (`worker.shares`, exact for any t that never falls)

A device whose rows would only delay the others is left out, and said so. What a run then measures corrects the split
(`worker.pacing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.peaks import peak_interval
from scheduler.estimation.ranks import contention_factor, step_times, thread_factor
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload, totals_at_batch
from worker.shares import Line, SecondsOf, equal_finish, even, finish_s
from worker.words import step_words

LEAST_ROWS = 2
"""Of a rank: batch statistics cannot do with one row."""
LINE_POINTS = 16
LINE_REACH = 256
"""A line is drawn through points from this part of the batch on; those far below the share of a rank are left out."""
LEAST_GAIN = 0.03
"""Estimated devices that differ by less are taken for alike: estimates are no better."""


@dataclass(frozen=True)
class StepTable:
    """Measured step times by rows: never falling, straight between the points, and beyond them as the last two are."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]

    @staticmethod
    def of(points: Iterable[tuple[int, float]]) -> StepTable:
        """From (rows, seconds); where more rows took less time, chance is levelled out (isotonic least squares).

        Raises `ValueError` for fewer than two different numbers of rows, or figures that are none.
        """
        from scipy.optimize import isotonic_regression

        known = sorted({int(rows): float(seconds) for rows, seconds in points}.items())
        if len(known) < 2 or any(rows < 1 or not 0 < seconds < np.inf for rows, seconds in known):
            raise ValueError("a table of step times needs two numbers of rows and finite seconds above 0")
        measured = np.array([seconds for _, seconds in known])
        level = isotonic_regression(measured, weights=1.0 / measured**2).x
        return StepTable(tuple(rows for rows, _ in known), tuple(map(float, level)))

    def __call__(self, rows: int) -> float:
        """Seconds for so many rows."""
        last = len(self.rows) - 1
        place = min(max(int(np.searchsorted(self.rows, rows)), 1), last)
        left, right = self.rows[place - 1], self.rows[place]
        slope = (self.seconds[place] - self.seconds[place - 1]) / (right - left)
        return max(0.0, self.seconds[place - 1] + slope * (rows - left))

    @property
    def line(self) -> Line:
        """a + b B by relative least squares, neither below 0."""
        return line_of(zip(self.rows, self.seconds, strict=True))


def line_of(points: Iterable[tuple[float, float]]) -> Line:
    """The line through (rows, seconds) by relative least squares, neither coefficient below 0."""
    from scipy.optimize import nnls

    rows, seconds = np.array(list(points), dtype=float).T
    inputs = np.stack([1.0 / seconds, rows / seconds], axis=1)
    scale = np.abs(inputs).max(axis=0)
    fixed_s, row_s = nnls(inputs / scale, np.ones(len(seconds)))[0] / scale
    return Line(float(fixed_s), float(row_s))


def line_rows(workload: Workload) -> list[int]:
    """Rows of a rank alone that lines are drawn through, over all that it may get."""
    most = workload.global_batch_size
    return sorted({max(1, round(number)) for number in np.geomspace(max(1.0, most / LINE_REACH), most, LINE_POINTS)})


def lone_seconds(steps: Steps, model: DeviceModel) -> tuple[tuple[int, float], ...]:
    """(rows, seconds) of a rank alone on this kind of device, by the estimator, over all that a rank may get."""
    rows = line_rows(steps.workload)
    ways = [
        Allocation(kind=model.kind, model_name=model.model_name, count=1, mode="single", batch_split=(number,))
        for number in rows
    ]
    return tuple(zip(rows, (time.local_s for time in step_times(steps, ways, model)), strict=True))


def rank_line(
    workload: Workload,
    model: DeviceModel,
    *,
    ranks: int,
    together: int = 0,
    threads: int = 1,
    slowdown: float = 1.0,
    alone: Sequence[tuple[int, float]] | None = None,
) -> Line:
    """What the estimator says a rank on this kind of device works per step, as a line over the rows it may get.

    `together`: of the ranks those on its node; 0: all. `slowdown`: declared of the device, where the model does not
    know it. `alone`: what `lone_seconds` said, where it was asked before.
    """
    least = workload.global_batch_size / (4 * ranks)
    known = lone_seconds(Steps(workload), model) if alone is None else alone
    factor = thread_factor(model, threads) * contention_factor(model, together or ranks) * slowdown
    near = [(rows, seconds * factor) for rows, seconds in known if rows >= least]
    return line_of(near if len(near) > 1 else [(rows, seconds * factor) for rows, seconds in known])


def most_rows(workload: Workload, model: DeviceModel, limit_bytes: float | None) -> int:
    """Rows of a rank whose peak, by its upper end, stays within its memory; 0: not even one, or more than the batch."""
    rows = workload.global_batch_size
    if limit_bytes is None or _peak_bytes(workload, model, rows) <= limit_bytes:
        return rows
    low, high = 0, rows
    while low < high:
        middle = (low + high + 1) // 2
        fits = _peak_bytes(workload, model, middle) <= limit_bytes
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _peak_bytes(workload: Workload, model: DeviceModel, rows: int) -> float:
    return peak_interval(in_precision(model, workload).memory, totals_at_batch(workload, rows)).high


@dataclass(frozen=True, kw_only=True)
class Member:
    """One device of a gang."""

    name: str
    """For words: `core 1 of node-1`."""
    seconds_of: SecondsOf
    most: int = 0
    """Rows that fit in its memory; 0: any number."""


@dataclass(frozen=True, kw_only=True)
class GangSplit:
    """Rows per device, in the order of the gang."""

    shares: tuple[int, ...]
    """0: left out."""
    step_s: float
    """Expected until the last has done its rows, without what ranks send each other."""
    even_step_s: float
    """The same with even shares over all devices."""
    words: tuple[str, ...] = field(default=())
    """What was decided and why, in sentences; empty where the devices are taken for alike."""


def gang_split(rows: int, members: Sequence[Member], *, least: int = LEAST_ROWS) -> GangSplit:
    """Shares that end together. Raises `ValueError` where the rows do not fit in the memory of the devices."""
    shares = _without_idlers(rows, members, least)
    seconds_of = [member.seconds_of for member in members]
    equal = even(rows, len(members))
    step_s, even_s = finish_s(seconds_of, shares), finish_s(seconds_of, equal)
    fits = all(not member.most or share <= member.most for member, share in zip(members, equal, strict=True))
    if fits and even_s <= step_s * (1.0 + LEAST_GAIN):
        return GangSplit(shares=equal, step_s=even_s, even_step_s=even_s)
    return GangSplit(
        shares=shares, step_s=step_s, even_step_s=even_s, words=_words(members, shares, step_s, even_s, fits)
    )


def _without_idlers(rows: int, members: Sequence[Member], least: int) -> tuple[int, ...]:
    """Equal finish over those devices that help; the others get 0."""
    inside = list(range(len(members)))
    best = _over(rows, members, inside, least)
    seconds_of = [member.seconds_of for member in members]
    if min(best) > least and finish_s(seconds_of, best) > finish_s(seconds_of, [least] * len(members)):
        return best  # nobody waits for a device with its first rows alone: with fewer the split is the same
    relaxed = _over(rows, members, inside, 0)
    helping = [place for place in inside if relaxed[place] >= least]
    if 0 < len(helping) < len(inside):
        fewer = _over(rows, members, helping, least)
        if finish_s(seconds_of, fewer) < finish_s(seconds_of, best):
            return fewer
    return best


def _over(rows: int, members: Sequence[Member], inside: Sequence[int], least: int) -> tuple[int, ...]:
    chosen = [members[place] for place in inside]
    found = equal_finish(
        [member.seconds_of for member in chosen], rows, least=least, most=[member.most for member in chosen]
    )
    shares = [0] * len(members)
    for place, share in zip(inside, found, strict=True):
        shares[place] = share
    return tuple(shares)


def _words(
    members: Sequence[Member], shares: Sequence[int], step_s: float, even_s: float, fits: bool
) -> tuple[str, ...]:
    split = " + ".join(str(share) for share in shares if share)
    gain = f"{step_words(even_s)} with even shares" if fits else "even shares do not fit in the memory"
    expected = f"expected {step_words(step_s)}, {gain}"
    said = [f"The devices are not alike: the ranks take {split} rows of a step, {expected}."]
    said += [
        f"{member.name} is left out: with its first {LEAST_ROWS} rows alone a step would wait for it."
        for member, share in zip(members, shares, strict=True)
        if not share
    ]
    return tuple(said)
