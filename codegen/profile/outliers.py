"""Numbers far from the rest: codes that stand for a missing value, and the few that make a target's variance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from codegen.profile.rows import numbers_in
from codegen.profile.target import REGRESSION
from codegen.profile.types import ColumnProfile, ColumnType, DatasetProfile, Finding, Severity
from worker.words import counted, share_words

_SENTINEL_SHARE = 0.005
_SENTINEL_ROWS = 5
_SENTINEL_FAR = 5.0
"""Spreads beyond the quartiles, and from the nearest other value."""
_CODE = re.compile(r"-?(9{2,}(\.9+)?|8{2,}|7{2,})")
"""As codes for a missing value are usually written."""
_CODE_APART = 1.0
"""So many spreads from the nearest other value are enough for these; beyond the quartiles, too, below zero."""
_HONEST = (0.0, 1.0, 10.0, 100.0, 1000.0)
"""Nothing, and limits of a scale: 100 %."""
_OTHER_VALUES = 20
"""A column with fewer different values besides may have this one as one more of a few amounts."""
_OTHER_CODES = 3
"""With fewer, what is written like a code for a missing value may be one of a few codes, too."""
_EXTREME_FAR = 10.0
_EXTREME_SHARE = 0.01
_VARIANCE_SHARE = 0.5
_EXAMPLES = 5
_LOOKED_UP = 20
"""So many are told one by one, see `findings.ranked`: of others the packed file, maybe wide, is not read."""

Floats = npt.NDArray[np.float64]


def far_findings(profile: DatasetProfile, packed: Path, sample: pl.DataFrame) -> list[Finding]:
    """All about numbers far from the rest of their column; class numbers are no amounts."""
    found: list[Finding] = []
    for column in profile.columns:
        is_target = column.name == profile.target
        if column.type is not ColumnType.NUMERIC or (is_target and profile.task != REGRESSION):
            continue
        values = sample[column.name].drop_nulls().cast(pl.Float64).to_numpy()
        told = sentinels(values)
        for value, others in told:
            looked_up = len(found) < _LOOKED_UP
            count, rows = _rows_of(packed, column.name, value) if looked_up else (int((values == value).sum()), [])
            found.append(_sentinel(column, value, others, count, rows))
        if is_target and not told:
            found += extreme_findings(column, packed)
    return found


def sentinels(values: Floats) -> list[tuple[float, tuple[float, float]]]:
    """(value, smallest and largest of the rest) of what seems to stand for a missing value."""
    ordered = np.sort(values)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.int64)
    ends = np.r_[starts[1:], len(ordered)]
    frequent = ends - starts >= max(_SENTINEL_ROWS, _SENTINEL_SHARE * len(ordered))
    far: list[tuple[int, float]] = []
    for at in np.flatnonzero(frequent):
        block = _Block(ordered, int(starts[at]), int(ends[at]))
        if block.value not in _HONEST and 0 < block.spread <= block.distance / _far(block.value):
            far.append((int(at), block.spread))
    others = np.delete(ordered[starts], [at for at, _ in far])
    found = [(float(ordered[starts[at]]), spread) for at, spread in far]
    return [
        (value, (float(others[0]), float(others[-1])))
        for value, spread in found
        if len(others) >= (_OTHER_CODES if _is_code(value) else _OTHER_VALUES)
        and np.abs(others - value).min() >= _apart(value) * spread
    ]


def _is_code(value: float) -> bool:
    return _CODE.fullmatch(f"{value:.15g}") is not None


def _far(value: float) -> float:
    return _apart(value) if value < 0 else _SENTINEL_FAR


def _apart(value: float) -> float:
    return _CODE_APART if _is_code(value) else _SENTINEL_FAR


@dataclass(frozen=True)
class _Block:
    """One value of sorted numbers, beside the rest of them."""

    ordered: Floats
    start: int
    end: int

    @property
    def value(self) -> float:
        return float(self.ordered[self.start])

    def quantile(self, share: float) -> float:
        """Of the rest."""
        at = round(share * (len(self.ordered) - (self.end - self.start) - 1))
        return float(self.ordered[at if at < self.start else at + self.end - self.start])

    @property
    def spread(self) -> float:
        """Between the quartiles of the rest, or what holds nine tenths of it where these are equal."""
        if self.end - self.start == len(self.ordered):
            return 0.0
        return self.quantile(0.75) - self.quantile(0.25) or self.quantile(0.95) - self.quantile(0.05)

    @property
    def distance(self) -> float:
        """From the nearer quartile of the rest; negative between them."""
        return max(self.quantile(0.25) - self.value, self.value - self.quantile(0.75))


def _rows_of(packed: Path, column: str, value: float) -> tuple[int, list[int]]:
    """(how many rows, the first few of them)."""
    count, rows = 0, list[int]()
    for first, numbers in numbers_in(packed, column):
        found = np.flatnonzero(numbers == value)
        count += len(found)
        rows += [first + int(at) for at in found[: _EXAMPLES - len(rows)]]
    return count, rows


def _sentinel(column: ColumnProfile, value: float, others: tuple[float, float], count: int, rows: list[int]) -> Finding:
    low, high = (f"{bound:,.6g}" for bound in others)
    return Finding(
        code="sentinel_values",
        severity=Severity.WARNING,
        message=f"'{column.name}' is {value:.15g} in {counted(count, 'row')}, far from all others ({low} to {high}).",
        meaning="It may stand for a missing value, but counts as an amount. If it does, leave these cells empty and "
        "upload again.",
        column=column.name,
        rows=tuple(rows),
    )


def extreme_findings(column: ColumnProfile, packed: Path) -> list[Finding]:
    """The few values of an amount to predict that lie so far out that they make most of its variance."""
    bounds = _usual_bounds(column)
    if bounds is None or column.mean is None or column.std is None:
        return []
    low, high = bounds
    present, count, squares = 0, 0, 0.0
    worst: list[tuple[float, int, float]] = []
    for first, numbers in numbers_in(packed, column.name):
        present += int(np.isfinite(numbers).sum())
        found = np.flatnonzero((numbers < low) | (numbers > high))
        apart = np.abs(numbers[found] - column.mean)
        count, squares = count + len(found), squares + float((apart**2).sum())
        top = np.argsort(-apart, kind="stable")[:_EXAMPLES]
        worst += [(-float(apart[at]), first + int(found[at]), float(numbers[found[at]])) for at in top]
        worst = sorted(worst)[:_EXAMPLES]
    share = squares / (present * column.std**2) if present and column.std else 0.0
    if not count or count > max(1.0, _EXTREME_SHARE * present) or not _VARIANCE_SHARE < share < np.inf:
        return []
    return [_extremes(column, count, present, share, [(row, value) for _, row, value in worst])]


def _usual_bounds(column: ColumnProfile) -> tuple[float, float] | None:
    """Beyond which values are extreme; None where none is, or where nearly all values are one."""
    if len(column.quantiles) != 5 or column.minimum is None or column.maximum is None:
        return None
    lowest, low, _, high, highest = column.quantiles
    far = _EXTREME_FAR * (high - low or highest - lowest)
    inside = low - far <= column.minimum and column.maximum <= high + far
    return None if not far or inside else (low - far, high + far)


def _extremes(column: ColumnProfile, count: int, present: int, share: float, worst: list[tuple[int, float]]) -> Finding:
    shown = ", ".join(f"{value:,.6g} in row {row:,}" for row, value in worst)
    make = "makes" if count == 1 else "make"
    return Finding(
        code="extreme_targets",
        severity=Severity.WARNING,
        message=f"{count:,} of {counted(present, 'value')} of '{column.name}' {make} "
        f"{share_words(min(1.0, share))} of its variance: {shown}.",
        meaning="Training is about these few rows, and so are R2 and RMSE. Check their units. If they are real, set "
        "objective.metric to mae, or predict the logarithm, written to a column of its own.",
        column=column.name,
        rows=tuple(row for row, _ in worst),
    )
