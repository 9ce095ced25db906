"""`fit_device_model`: everything that is learnt of one kind of device from its calibration points, in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scheduler.estimation.calibration import LEAST_HELD_OUT, LEAST_POINTS, CalibrationPoint, noise_of
from scheduler.estimation.corrector import fit_corrector
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Coefficients, Spread
from scheduler.estimation.features import Vector
from scheduler.estimation.fit_memory import fit_memory
from scheduler.estimation.fit_power import fit_power
from scheduler.estimation.fit_time import fit_members, subset
from scheduler.estimation.in_precision import measured_in
from scheduler.estimation.intervals import near_distance, of_new_groups
from scheduler.estimation.pace import pace_of
from scheduler.estimation.precision import AUTO
from scheduler.estimation.predict import Table, member_seconds, summary, tabulate
from scheduler.estimation.prior import prior_for
from scheduler.estimation.ranks import fit_contention, fit_parallel_share
from scheduler.estimation.values import Basis

MEMBERS = 8
FOLD_MEMBERS = 3
FOLDS = 5
TIGHTNESS = (0.5, 1.0, 2.0, 4.0)
ABOUT = 1.02
STAYS = -1
PACE_ROUNDS = 2
"""The pace is seen better in errors of a fit that knows it."""
LEAST_GROUPS = 2
LEAST_FLOOR = 0.03
"""No estimate claims to be better than this."""


@dataclass(frozen=True)
class Timed:
    """What the fit of step times looks at."""

    table: Table
    step_s: Vector
    summaries: Vector
    prior: Coefficients
    tightness: float = 2.0
    """How close coefficients keep to the prior: more for noisy points, less for many good ones."""
    pace: Vector | float = 0.0
    """Logarithm of how many times as long steps took while a point was measured; fitted is what they take else."""

    @property
    def steady_s(self) -> Vector:
        """Seconds per step at the usual pace."""
        steady: Vector = self.step_s * np.exp(-np.asarray(self.pace))
        return steady


@dataclass(frozen=True)
class HeldOut:
    """Log of measured over predicted for points predicted without their own group, and the ensemble's disagreement."""

    error: Vector
    disagreement: Vector

    def of(self, chosen: npt.NDArray[np.bool_]) -> HeldOut:
        """Of some of the points."""
        return HeldOut(self.error[chosen], self.disagreement[chosen])


def fit_device_model(points: Sequence[CalibrationPoint], *, prior: DeviceModel | None = None) -> DeviceModel:
    """Model of the one kind of device that all points are of. Raises `ValueError` for no points or several kinds."""
    kinds = {(point.kind, point.model_name) for point in points}
    if len(kinds) != 1:
        raise ValueError(f"points of exactly one kind of device are needed, not of {len(kinds)}")
    start = prior or prior_for(*kinds.pop())
    points = in_one_precision(points)
    precision = points[0].computed_in
    start = measured_in(start, precision)
    if any(point.workload.precision == AUTO for point in points):
        start = replace(start, usual=precision)
    single = (
        [point for point in points if point.count == 1 and point.threads == 1]
        if start.kind == "cpu"
        else [point for point in points if point.count == 1]
    )
    model = _with_memory(start, points)
    if len(single) >= LEAST_POINTS:
        model = _with_times(model, single)
        model = fit_parallel_share(model, points)
        model = fit_contention(model, points)
    return replace(model, power=fit_power(points, model))


def in_one_precision(points: Sequence[CalibrationPoint]) -> list[CalibrationPoint]:
    """Those measured in the precision that most were measured in: the others say nothing of how fast that is.

    Points of before they told it were measured in the same as others that asked for nothing, whatever the table says.
    """
    usual = next((point.precision for point in points if point.precision and point.workload.precision == AUTO), "")
    points = [
        replace(point, precision=usual) if not point.precision and point.workload.precision == AUTO else point
        for point in points
    ]
    most, _ = Counter(point.computed_in for point in points).most_common(1)[0]
    return [point for point in points if point.computed_in is most]


def timed(points: Sequence[CalibrationPoint], prior: Coefficients) -> Timed:
    """Tabulate the points once, and tell the device's pace while they were measured: they come in that order."""
    workloads = [point.workload for point in points]
    data = Timed(
        table=tabulate(workloads),
        step_s=np.array([point.typical_s for point in points]),
        summaries=np.array([summary(workload) for workload in workloads]),
        prior=prior,
    )
    folds = folds_of([point.architecture for point in points], FOLDS)
    for _ in range(PACE_ROUNDS):
        pace = pace_of(cross_validate(data, folds, members=1).error)
        data = replace(data, pace=pace)
        if not pace.any():
            break
    return data


def _with_times(model: DeviceModel, points: Sequence[CalibrationPoint]) -> DeviceModel:
    data = timed(points, model.members[0])
    architectures = [point.architecture for point in points]
    folds = folds_of(architectures, FOLDS)
    groups = groups_of([point.family for point in points])
    data = replace(data, tightness=choose_tightness(data, folds, groups))
    members = fit_members(data.table, data.steady_s, data.prior, members=MEMBERS, tightness=data.tightness)
    near = cross_validate(data, folds)
    corrector = fit_corrector(data.summaries, near.error, architectures)
    if corrector is not None:
        near = HeldOut(near.error - corrector.held_out, near.disagreement)
    left_out = len(set(groups) - {STAYS})
    far = cross_validate(data, groups).of(groups != STAYS) if left_out >= LEAST_GROUPS else None
    return replace(
        model,
        members=members,
        corrector=corrector.fitted if corrector is not None else None,
        spread=_spread(model.spread, near, far, left_out, near_distance(data.summaries, architectures)),
        fingerprints=tuple(tuple(float(value) for value in row) for row in data.summaries),
        basis=Basis.MODELLED,
        n_points=len(points),
        noise=noise_of(points),
        errors=errors_of(near, "architectures") | (errors_of(far, "families") if far else {}),
    )


def errors_of(held_out: HeldOut, name: str) -> dict[str, float]:
    """Mean, median and 90th percentile of the relative error of what was held out."""
    relative = np.abs(np.expm1(-held_out.error))
    return {
        f"{name}_mape": float(relative.mean()),
        f"{name}_median": float(np.median(relative)),
        f"{name}_p90": float(np.quantile(relative, 0.9)),
    }


def folds_of(groups: Sequence[str], count: int, seed: int = 0) -> npt.NDArray[np.intp]:
    """Number of the fold of each point: a group is never split."""
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold = {name: int(order[number]) % count for number, name in enumerate(names)}
    return np.array([fold[group] for group in groups])


def groups_of(families: Sequence[str]) -> npt.NDArray[np.intp]:
    """Number of the group of each point, to leave out whole groups of programs; `STAYS` for one that is most of all."""
    _, numbers, counts = np.unique(families, return_inverse=True, return_counts=True)
    stays = np.flatnonzero(counts > len(families) / 2)
    return np.where(np.isin(numbers, stays), STAYS, numbers)


def cross_validate(data: Timed, folds: npt.NDArray[np.intp], members: int = FOLD_MEMBERS) -> HeldOut:
    """Predict every fold from the others, however few these are; points of the fold `STAYS` are never held out, their
    error stays 0."""
    error, disagreement = np.zeros(len(folds)), np.zeros(len(folds))
    for fold in np.unique(folds[folds != STAYS]):
        out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        found = _fit_rest(data, rest, members)
        table = subset(data.table, out.tolist())
        logs = np.array([np.log(member_seconds(table, member)) for member in found])
        error[out] = np.log(data.step_s[out]) - logs.mean(axis=0)
        disagreement[out] = logs.std(axis=0)
    return HeldOut(error, disagreement)


def _fit_rest(data: Timed, rest: npt.NDArray[np.intp], members: int) -> tuple[Coefficients, ...]:
    if not len(rest):
        return (data.prior,)
    table = subset(data.table, rest.tolist())
    return fit_members(table, data.steady_s[rest], data.prior, members=members, tightness=data.tightness)


def choose_tightness(data: Timed, folds: npt.NDArray[np.intp], groups: npt.NDArray[np.intp]) -> float:
    """The tightness with the least error on held-out architectures and, alike, on held-out groups of programs (product
    of the mean errors); the tightest of those about as good."""
    small = groups != STAYS
    found = {}
    for tightness in TIGHTNESS:
        tried = replace(data, tightness=tightness)
        found[tightness] = float(np.abs(cross_validate(tried, folds, members=1).error).mean())
        if len(set(groups[small])) >= LEAST_GROUPS:
            found[tightness] *= float(np.abs(cross_validate(tried, groups, members=1).error[small]).mean())
    least = min(found.values())
    return max(tightness for tightness, error in found.items() if error <= ABOUT * least)


def _spread(prior: Spread, near: HeldOut, far: HeldOut | None, groups: int, distance: float) -> Spread:
    """Scores of what was held out; few points keep those of the prior, at their own scale."""
    if len(near.error) < LEAST_HELD_OUT:
        return replace(
            prior, floor=max(LEAST_FLOOR, 1.5 * float(np.sqrt(np.mean(near.error**2)))), near_distance=distance
        )
    floor = max(LEAST_FLOOR, float(np.median(np.abs(near.error))) * 1.5)

    def scores(found: HeldOut) -> Vector:
        ordered: Vector = np.sort(found.error / np.hypot(floor, found.disagreement))
        return ordered

    far_scores = of_new_groups(scores(far), groups) if far else ()
    return Spread(floor=floor, near=tuple(scores(near).tolist()), far=far_scores, near_distance=distance)


def _with_memory(model: DeviceModel, points: Sequence[CalibrationPoint]) -> DeviceModel:
    known = [point for point in points if point.peak_bytes > 0]
    workloads = [point.workload for point in known]
    peaks = [point.peak_bytes for point in known]
    return replace(model, memory=fit_memory(workloads, peaks, [point.architecture for point in known], model.memory))


__all__ = ["cross_validate", "errors_of", "fit_device_model", "folds_of", "timed"]
