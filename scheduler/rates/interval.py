"""What a learning-rate range test says: an interval of usable rates and a centre, by fits to smoothed curves.

A range test trains for about a hundred steps while the learning rate rises exponentially (Smith 2015,
arXiv:1506.01186), and notes the training loss and accuracy of every step. Here:

1. sweeps over the same rates are joined by their median, and smoothed over `SMOOTH_POINTS` steps;
2. a polynomial of high order in log10(rate), its order chosen by the corrected Akaike criterion, is fitted to the
   loss up to where it diverges: its minimum bounds the interval from above;
3. a logarithmic law, y = level + slope * max(0, log10(rate / start)), is fitted to the rising accuracy (to the falling
   loss where there is none): with the polynomial's first real fall it bounds the interval from below;
4. the centre lies between the two in log10(rate).

Beside it stand fastai's two suggestions (`valley`, `steepest`) and, in `codegen.catalog.rates`, linear and square-root
scaling. Pure, deterministic, and the same for a loss in any unit.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.rates.fits import LogFit, PolynomialFit, log_fit, polynomial_fit
from scheduler.rates.marks import steepest, valley
from scheduler.rates.record import RangeRecord, RateUnclear, joined, smooth
from worker.loss_left import left_at_end

__all__ = ["RangeRecord", "RateRange", "RateUnclear", "rate_range"]

Values = NDArray[np.float64]
CurvePoint = tuple[float, float, float | None, float | None, float | None]
"""Learning rate, smoothed loss, polynomial, smoothed score, logarithmic law."""

LEAST_POINTS = 20
LEAST_DECADES = 1.0
START_SHARE = 0.15
"""Of the steps, at rates too small to learn anything: they tell the loss before learning."""
FLAT_NOISES = 3.0
"""A fall of the smoothed loss below so many times its noise is none."""
FLAT_SHARE = 0.01
"""Nor is one below this share of the loss."""
RISEN_SHARE = 0.5
"""Of the start, by which the loss is above it at the end where it has only risen."""
DIVERGED_SHARE = 0.25
"""Of the fall, by which the loss is above its start when it has diverged."""
BEGIN_SHARE = 0.1
"""Of the fall: where it begins in earnest."""
LOG_FIT_LEAST = 0.6
"""Share of variance that the logarithmic law has to explain to be asked."""
CENTRE_SHARE = 0.6
"""Place of the centre between both ends in log10(rate), see docs/benchmarks.md."""
GRID = 401


@dataclass(frozen=True, kw_only=True)
class RateRange:
    """What was found; rates are peak learning rates."""

    low: float
    high: float
    centre: float
    rates: tuple[float, ...]
    """Of the points below."""
    loss: tuple[float, ...]
    """Training loss, joined over sweeps and smoothed."""
    score: tuple[float, ...]
    """The same of the training score; empty where there is none."""
    loss_fit: PolynomialFit
    log_fit: LogFit | None
    """Of the score, or of the loss where there is no score; None where it explains too little."""
    log_fit_of: str
    """`score` or `loss`."""
    marks: dict[str, float]
    """Rates by other rules: `valley`, `steepest`, `minimum_tenth`."""
    diverged_at: float | None
    """First rate at which the loss had left for good."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def curve(self) -> list[CurvePoint]:
        """What is drawn and written down; a fit is None where it was not made."""
        x = np.log10(np.asarray(self.rates))
        fit, law = self.loss_fit.at(x), self.log_fit
        line = law.at(x) if law else fit
        return [
            (
                rate,
                self.loss[place],
                float(fit[place]) if x[place] <= self.loss_fit.high_x + 1e-9 else None,
                self.score[place] if self.score else None,
                float(line[place]) if law and x[place] <= law.end_x + 1e-9 else None,
            )
            for place, rate in enumerate(self.rates)
        ]

    @staticmethod
    def from_dict(body: dict[str, Any]) -> RateRange:
        """Inverse of `to_dict`. Raises `KeyError`, `TypeError`."""
        law = body["log_fit"]
        lists = {name: tuple(body[name]) for name in ("rates", "loss", "score", "notes")}
        fits = {"loss_fit": PolynomialFit.from_dict(body["loss_fit"]), "log_fit": LogFit(**law) if law else None}
        return RateRange(**{**body, **lists, **fits})


def rate_range(record: RangeRecord) -> RateRange:
    """The interval and the centre. Raises `RateUnclear` where the curve says nothing."""
    tried, raw, raw_score = joined(record)
    usable = _finite_length(raw)
    rates, raw, raw_score = tried[:usable], raw[:usable], raw_score[:usable]
    _check_length(rates, len(tried), record)
    loss = smooth(raw)
    start, lowest = _start_level(raw), int(np.argmin(loss))
    fall = start - float(loss[lowest])
    _check_fall(raw, loss, start, fall, lowest)
    stop = _stop(loss, start + DIVERGED_SHARE * fall, lowest)
    x = np.log10(rates)
    fit = polynomial_fit(x[:stop], np.minimum(raw[:stop], start + DIVERGED_SHARE * fall))
    score = smooth(raw_score) if np.isfinite(raw_score).all() else np.zeros(0)
    law, law_of = _law(x, score, loss, lowest)
    diverged_at = float(tried[stop]) if stop < len(tried) else None
    low_x, high_x, notes = _ends(x, stop, fit, law, start, diverged_at=diverged_at)
    centre_x = low_x + CENTRE_SHARE * (high_x - low_x)
    return RateRange(
        low=10**low_x, high=10**high_x, centre=10**centre_x,
        rates=tuple(map(float, rates)), loss=tuple(map(float, loss)), score=tuple(map(float, score)),
        loss_fit=fit, log_fit=law, log_fit_of=law_of if law else "",
        marks={"valley": valley(rates, raw), "steepest": steepest(rates, raw), "minimum_tenth": rates[lowest] / 10.0},
        diverged_at=diverged_at, notes=notes,
    )  # fmt: skip


def _finite_length(raw: Values) -> int:
    """Points before the first loss that is no number."""
    bad = np.flatnonzero(~np.isfinite(raw))
    return int(bad[0]) if bad.size else len(raw)


def _check_length(rates: Values, made: int, record: RangeRecord) -> None:
    """Pass for enough steps, of `made`, which may be fewer than were planned: a sweep ends when its loss has left."""
    usable, planned = len(rates), len(record.rates)
    if usable >= LEAST_POINTS and math.log10(rates[-1] / rates[0]) >= LEAST_DECADES:
        return
    if usable < made:
        raise RateUnclear(
            "diverges_at_once",
            f"The loss is not a finite number from step {usable + 1} of {made} on, so nothing can be concluded.",
            "Start at a smaller rate, and look for values in the data that are not numbers.",
        )
    left = sum(left_at_end(sweep.losses) for sweep in record.sweeps)
    if made < planned and 2 * left >= len(record.sweeps):
        raise RateUnclear(
            "diverges_at_once",
            f"The loss has left for good after {made} of {planned} steps, too few to fit a curve.",
            "Start at a smaller rate, or normalise the inputs of the model.",
        )
    raise RateUnclear(
        "too_few_points",
        f"{usable} steps are too few to fit a curve: at least {LEAST_POINTS} over a decade of rates are needed.",
        "Make more steps, or allow the test more time.",
    )


def _start_level(raw: Values) -> float:
    """The loss before anything is learnt."""
    return float(np.median(raw[: max(3, round(len(raw) * START_SHARE))]))


def _check_fall(raw: Values, loss: Values, start: float, fall: float, lowest: int) -> None:
    noise = float(np.median(np.abs(raw - loss))) * 1.4826 / math.sqrt(3.0)
    scale = float(np.abs(loss).max())
    if fall > max(FLAT_NOISES * noise, FLAT_SHARE * abs(start)) and fall > 1e-9 * scale and lowest >= 3:
        return
    if float(loss[-1]) > start + max(RISEN_SHARE * abs(start), FLAT_NOISES * noise):
        raise RateUnclear(
            "diverges_at_once",
            "The loss only rises: no rate that was tried makes it smaller.",
            "Start at a smaller rate, or normalise the inputs of the model.",
        )
    raise RateUnclear(
        "flat",
        "The loss does not fall by more than its own noise at any rate, so nothing can be concluded.",
        "Try larger rates, more steps or a larger batch, and check that the model can learn from these data.",
    )


def _stop(loss: Values, limit: float, lowest: int) -> int:
    """Past-the-end place of the part that is fitted: a few points of the rise belong to it."""
    above = np.flatnonzero(loss[lowest:] > limit)
    return int(lowest + above[0]) if above.size else len(loss)


def _law(x: Values, score: Values, loss: Values, lowest: int) -> tuple[LogFit | None, str]:
    """The logarithmic law up to the best score, or down to the lowest loss."""
    for name, values in (("score", score), ("loss", -loss)):
        if not len(values):
            continue
        best = int(np.argmax(values)) if name == "score" else lowest
        if best < LEAST_POINTS // 2:
            continue
        law = log_fit(x[: best + 1], values[: best + 1])
        if law is not None and law.explained >= LOG_FIT_LEAST:
            return (law if name == "score" else law.negated()), name
    return None, ""


def _ends(
    x: Values, stop: int, fit: PolynomialFit, law: LogFit | None, start: float, *, diverged_at: float | None
) -> tuple[float, float, tuple[str, ...]]:
    grid = np.linspace(x[0], x[stop - 1], GRID)
    curve = fit.at(grid)
    lowest = int(np.argmin(curve))
    level = min(start, float(curve[: lowest + 1].max()))
    limit = level - BEGIN_SHARE * (level - float(curve[lowest]))
    above = np.flatnonzero(curve[: lowest + 1] > limit)
    low_x = float(grid[above[-1]]) if above.size else float(grid[0])
    high_x = float(grid[lowest])
    notes = []
    if law is not None and law.start_x < high_x:
        low_x = 0.5 * (low_x + max(law.start_x, float(x[0])))
    if stop == len(x) and diverged_at is not None:
        notes.append(
            f"At {diverged_at:.2g} the loss is no finite number any more: nothing is known of larger rates; "
            "if this one is small, look for values in the data that are not numbers."
        )
    elif stop == len(x) and lowest == GRID - 1:
        notes.append("The loss still falls at the largest rate that was tried: larger ones may be better.")
    if high_x - low_x < 1e-6:
        high_x = low_x + float(x[1] - x[0])
    return low_x, high_x, tuple(notes)
