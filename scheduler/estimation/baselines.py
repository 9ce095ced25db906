"""Baselines that are shown next to our estimates: the plain regressions of the field, fitted to the same points.

Linear regression on the knobs (what is usually done), on FLOPs; non-negative least squares by relative error on FLOPs,
and on a few totals; a power law of the totals (curve fit); boosted trees on totals and knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.features import Vector

Predictor = Callable[[Sequence[CalibrationPoint]], Vector]
Fit = Callable[[Sequence[CalibrationPoint], Vector], Predictor]
LEAST = 1e-6
"""Linear models may predict less than nothing: this instead."""
RIDGES = tuple(10.0**power for power in range(-4, 3))


def baselines() -> Mapping[str, Fit]:
    """Name -> (training points, what was measured of each, all above 0 -> predictor of that figure)."""
    return {
        "linear regression on knobs": linear_on_knobs,
        "linear regression on FLOPs": linear_on_flops,
        "FLOPs only, relative NNLS": flops_only,
        "totals, relative NNLS": totals_nnls,
        "curve fit (power law)": power_law,
        "boosted trees": boosted_trees,
    }


def general_baselines() -> Mapping[str, Fit]:
    """Those that make sense of peak memory and power, too: what goes by FLOPs alone is left out."""
    return {name: fit for name, fit in baselines().items() if fit not in (linear_on_flops, flops_only)}


def totals(points: Sequence[CalibrationPoint]) -> Vector:
    """FLOPs, parameters, activation bytes, operators and rows of each point."""
    rows = []
    for point in points:
        workload = point.workload
        sizes = (workload.flops, workload.parameters, workload.activation_bytes)
        rows.append([*sizes, len(workload.operators), workload.batch_size])
    return np.array(rows, dtype=float)


def seconds(points: Sequence[CalibrationPoint]) -> Vector:
    """Measured seconds per step."""
    return np.array([point.typical_s for point in points])


def knob_reader(points: Sequence[CalibrationPoint]) -> Callable[[Sequence[CalibrationPoint]], Vector]:
    """Numbers of all knobs of the training points; a knob that a program does not have is 0."""
    names = sorted({name for point in points for name, value in point.params.items() if isinstance(value, int | float)})

    def read(some: Sequence[CalibrationPoint]) -> Vector:
        return np.array([[*(_number(point.params.get(name)) for name in names), point.batch_size] for point in some])

    return read


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def linear_on_knobs(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """Ordinary least squares on the knobs."""
    from sklearn.linear_model import LinearRegression

    read = knob_reader(points)
    model = LinearRegression().fit(read(points), measured)
    return lambda some: np.maximum(model.predict(read(some)), LEAST)


def linear_on_flops(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """Ordinary least squares on FLOPs."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(totals(points)[:, :1], measured)
    return lambda some: np.maximum(model.predict(totals(some)[:, :1]), LEAST)


def flops_only(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """FLOPs c1 + c2, both not negative, by relative error."""
    return _relative_nnls(points, measured, columns=1)


def totals_nnls(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """The same on all totals."""
    return _relative_nnls(points, measured, columns=5)


def _relative_nnls(points: Sequence[CalibrationPoint], measured: Vector, columns: int) -> Predictor:
    from scipy.optimize import nnls

    def inputs(some: Sequence[CalibrationPoint]) -> Vector:
        return np.column_stack([totals(some)[:, :columns], np.ones(len(some))])

    scaled = inputs(points) / measured[:, None]
    scale = scaled.max(axis=0)
    weights = nnls(scaled / scale, np.ones(len(measured)))[0] / scale
    return lambda some: np.maximum(inputs(some) @ weights, LEAST)


def power_law(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """Logarithm linear in the logarithms of the totals, lightly ridged."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=RIDGES).fit(np.log1p(totals(points)), np.log(measured))
    return lambda some: np.exp(model.predict(np.log1p(totals(some))))


def boosted_trees(points: Sequence[CalibrationPoint], measured: Vector) -> Predictor:
    """Histogram gradient boosting of the logarithm on log totals and knobs.

    On one thread: several would meet many times for each tree of so few points, and each meeting is waited for
    in a busy loop, which on a machine that trains costs many times what is computed.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    read = knob_reader(points)

    def inputs(some: Sequence[CalibrationPoint]) -> Vector:
        return np.column_stack([np.log1p(totals(some)), read(some)])

    model = HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=300, learning_rate=0.06, random_state=0)
    with threadpool_limits(1, "openmp"):
        model.fit(inputs(points), np.log(measured))

    def predict(some: Sequence[CalibrationPoint]) -> Vector:
        with threadpool_limits(1, "openmp"):
            return np.asarray(np.exp(model.predict(inputs(some))))

    return predict
