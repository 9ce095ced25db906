"""How well a fit does on what it has not seen: step time, peak memory and power, each beside the usual methods.

Every point is predicted by a fit without its architecture; the rivals are fitted to the same points and held to the
same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.estimation.baselines import Fit, baselines, general_baselines, seconds
from scheduler.estimation.calibration import CalibrationPoint, noise_of
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import MemoryModel, PowerModel
from scheduler.estimation.features import Vector
from scheduler.estimation.fit import cross_validate, folds_of, timed
from scheduler.estimation.fit_memory import ends, held_out_ratios
from scheduler.estimation.fit_power import device_w, held_out_w, metered, work_shares
from scheduler.estimation.intervals import LEVEL, quantiles

FOLDS = 5
LEAST_POINTS = 10
"""Below so many points nothing is held out: the figures would say nothing."""
Folds = npt.NDArray[np.intp]
Points = Sequence[CalibrationPoint]


def report_of(points: Points, fitted: DeviceModel, prior: DeviceModel) -> dict[str, Any]:
    """`{points, families, total, coverage, baselines, noise, memory, power}`; empty where nothing can be held out.

    The first five are of the step time; `memory` and `power` hold the same five of theirs, or nothing where too little
    was measured of them. `points` has `[family, measured, predicted, error, point_id, held]`, the error relative to
    what was measured; `held` and `coverage` are None where no range is given.
    """
    alone = [point for point in points if point.count == 1]
    report = _times([point for point in alone if point.kind != "cpu" or point.threads == 1], fitted, prior)
    sections = {"memory": _memory(alone, prior.memory), "power": _power(alone, fitted, prior.power)}
    return report | sections if report or any(sections.values()) else {}


def _times(points: Points, fitted: DeviceModel, prior: DeviceModel) -> dict[str, Any]:
    folds = _folds(points)
    if not _can_hold_out(folds):
        return {}
    held_out = cross_validate(timed(points, prior.members[0]), folds)
    scale = np.hypot(fitted.spread.floor, held_out.disagreement)
    measured = seconds(points)
    predicted = measured * np.exp(-held_out.error)
    inside = _inside(held_out.error / scale, folds)
    section = _section(points, measured, predicted, folds, baselines(), inside)
    return section | {"noise": noise_of(points)}


def _memory(points: Points, prior: MemoryModel) -> dict[str, Any]:
    """Peaks of one rank in bytes. The range is that of an estimate, whose upper end is meant to hold 98 %."""
    known = [point for point in points if point.peak_bytes > 0]
    folds, measured = _folds(known), np.array([point.peak_bytes for point in known])
    if not _can_hold_out(folds):
        return {}
    ratios = held_out_ratios([point.workload for point in known], measured.tolist(), folds, prior)
    inside = np.zeros(len(known), dtype=bool)
    for fold in np.unique(folds):
        own = folds == fold
        low, high = ends(ratios[~own])
        inside[own] = (low <= ratios[own]) & (ratios[own] <= high)
    return _section(known, measured, measured / ratios, folds, general_baselines(), inside.tolist())


def _power(points: Points, fitted: DeviceModel, prior: PowerModel) -> dict[str, Any]:
    """Watts of one device; their range is told as a part of that of energy alone."""
    known = metered(points)
    folds, measured = _folds(known), device_w(known)
    if not _can_hold_out(folds):
        return {}
    predicted = held_out_w(measured, work_shares(fitted, known), folds, prior)
    return _section(known, measured, predicted, folds, general_baselines(), None)


def _folds(points: Points) -> Folds:
    return folds_of([point.architecture for point in points], FOLDS)


def _can_hold_out(folds: Folds) -> bool:
    """Points of one architecture have nothing to be foretold from."""
    return len(folds) >= LEAST_POINTS and len(set(folds)) > 1


def _section(
    points: Points,
    measured: Vector,
    predicted: Vector,
    folds: Folds,
    rivals: Mapping[str, Fit],
    inside: list[bool] | None,
) -> dict[str, Any]:
    """The figures of one measure."""
    errors = predicted / measured - 1.0
    names = np.array([point.family for point in points])
    held: Sequence[bool | None] = inside if inside is not None else [None] * len(points)
    return {
        "points": [
            [point.family, float(fact), float(guess), float(error), point.point_id, good]
            for point, fact, guess, error, good in zip(points, measured, predicted, errors, held, strict=True)
        ],
        "families": {str(family): figures(errors[names == family]) for family in sorted(set(names))},
        "total": figures(errors),
        "coverage": float(np.mean(inside)) if inside is not None else None,
        "baselines": {name: figures(_rival(fit, points, measured, folds)) for name, fit in rivals.items()},
    }


def _rival(fit: Fit, points: Points, measured: Vector, folds: Folds) -> Vector:
    """Relative errors of a usual method on the same held-out points."""
    predicted = np.zeros(len(points))
    for fold in np.unique(folds):
        out = folds == fold
        predict = fit(_chosen(points, ~out), measured[~out])
        predicted[out] = predict(_chosen(points, out))
    return predicted / measured - 1.0


def _chosen(points: Points, which: npt.NDArray[np.bool_]) -> list[CalibrationPoint]:
    return [point for point, chosen in zip(points, which, strict=True) if chosen]


def figures(errors: Vector) -> dict[str, float]:
    """Mean, median and 90th percentile of absolute relative errors."""
    size = np.abs(errors)
    return {
        "n": len(size),
        "mape": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
    }


def _inside(scores: Vector, folds: Folds) -> list[bool]:
    """Whether the 80 % interval holds each measurement; the interval comes from the other folds alone."""
    held = np.zeros(len(scores), dtype=bool)
    for fold in np.unique(folds):
        low, high = quantiles(scores[folds != fold].tolist(), LEVEL)
        own = folds == fold
        held[own] = (low <= scores[own]) & (scores[own] <= high)
    return [bool(value) for value in held]
