"""The record of a range test: what each step saw, joined over sweeps and smoothed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
SMOOTH_POINTS = 2.0
"""Standard deviation of the smoothing kernel, in steps."""
MEDIAN_POINTS = 3
"""Single odd batches are dropped before."""
MOST_POINTS = 5_000
MOST_SWEEPS = 20


class RateUnclear(Exception):
    """A curve from which no rate can be told; `code` is `too_few_points`, `flat` or `diverges_at_once`."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One sweep: the step at `rates[i]` of the record saw `losses[i]`; it may have stopped early."""

    losses: tuple[float, ...]
    """Training loss of the batch; NaN where it was no finite number."""
    scores: tuple[float, ...]
    """Training accuracy, or share of variance explained; NaN where it is not known."""


@dataclass(frozen=True, kw_only=True)
class RangeRecord:
    """All sweeps of a range test. Raises `ValueError` where they do not fit together."""

    rates: tuple[float, ...]
    """Learning rates, rising, one per step."""
    sweeps: tuple[Sweep, ...]
    score: str = ""
    """What the scores are: `accuracy`, `r2`, or nothing."""

    def __post_init__(self) -> None:
        if not self.sweeps or len(self.sweeps) > MOST_SWEEPS or len(self.rates) > MOST_POINTS:
            raise ValueError(f"a range test has 1 to {MOST_SWEEPS} sweeps of at most {MOST_POINTS} steps")
        if not all(math.isfinite(rate) and rate > 0 for rate in self.rates):
            raise ValueError("learning rates must be finite and above 0")
        if any(late <= early for early, late in pairwise(self.rates)):
            raise ValueError("learning rates must rise")
        for sweep in self.sweeps:
            if len(sweep.losses) > len(self.rates) or len(sweep.scores) != len(sweep.losses):
                raise ValueError("a sweep has one loss and one score per step, and no more steps than rates")

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is no number is None."""
        sweeps = [{"losses": _told(sweep.losses), "scores": _told(sweep.scores)} for sweep in self.sweeps]
        return {"rates": list(self.rates), "sweeps": sweeps, "score": self.score}

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> RangeRecord:
        """Inverse of `to_dict`. Raises `ValueError`."""
        try:
            return RangeRecord(
                rates=tuple(float(rate) for rate in body["rates"]),
                sweeps=tuple(
                    Sweep(losses=_read(sweep["losses"]), scores=_read(sweep["scores"])) for sweep in body["sweeps"]
                ),
                score=str(body.get("score") or ""),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is not a record of a range test: {error}") from error


def _told(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _read(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else float(value) for value in values)


def joined(record: RangeRecord) -> tuple[Values, Values, Values]:
    """(rates, losses, scores) [N]: medians over the sweeps, as far as half of them came.

    A loss that is no number in half of the sweeps is none here.
    """
    length = sorted((len(sweep.losses) for sweep in record.sweeps), reverse=True)[(len(record.sweeps) - 1) // 2]
    rates = np.asarray(record.rates[:length], dtype=np.float64)
    losses = _stacked([sweep.losses for sweep in record.sweeps], length, missing=math.inf)
    scores = _stacked([sweep.scores for sweep in record.sweeps], length, missing=math.nan)
    loss = np.median(losses, axis=0) if length else np.zeros(0)
    known = np.isfinite(scores)
    score = np.full(length, np.nan)
    some = known.any(axis=0)
    score[some] = np.nanmedian(scores[:, some], axis=0)
    return rates, np.where(np.isfinite(loss), loss, np.nan), score


def _stacked(rows: Sequence[Sequence[float]], length: int, missing: float) -> Values:
    """[sweeps, length]; a sweep that ended before goes on as `missing`."""
    table = np.full((len(rows), length), missing)
    for place, row in enumerate(rows):
        values = np.asarray(row[:length], dtype=np.float64)
        table[place, : len(values)] = np.where(np.isfinite(values), values, missing)
    return table


def smooth(values: Values) -> Values:
    """The same curve without single odd points and without jitter; symmetric, so that nothing moves to later rates."""
    from scipy.ndimage import gaussian_filter1d, median_filter

    if not len(values):
        return values
    smoothed: Values = gaussian_filter1d(
        median_filter(values, size=MEDIAN_POINTS, mode="nearest"), SMOOTH_POINTS, mode="nearest"
    )
    return smoothed
