"""Peak memory above the idle process: a sum of the workload's parts with coefficients that are not negative.

    peak = state c1 + activations c2 + transient c3 + data c4 + base c5

state = parameters + gradients + optimizer; data = rows of all parts. Fitted by relative error, since a small model
matters as much as a large one; an under-estimate weighs more than an over-estimate, because a job that runs out of
memory is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler.estimation.device_parts import MemoryModel
from scheduler.estimation.features import Vector
from scheduler.estimation.values import Basis
from scheduler.workload import Workload

PARTS = ("state", "activations", "transient", "data", "base")
NOISE = 0.03
UNDER_WEIGHT = 2.0
"""An under-estimate counts this many times an over-estimate."""
PRIOR_SPREAD = {"state": 0.15, "activations": 0.3, "transient": 0.7, "data": 0.7, "base": 1.5}
"""Of the logarithm of a coefficient."""
LEAST_POINTS = 8
CAREFUL = 0.98
"""Share of held-out peaks that lie below the upper end of an estimate."""
BELOW = 0.1
"""Share of held-out peaks that lie below the lower end."""
PEAK_LEVEL = CAREFUL - BELOW
"""Share inside: the range of a peak is not that of a time, since too little memory ends a run."""
HEADROOM = 1.05
FOLDS = 5


def parts(workload: Workload) -> Vector:
    """Bytes of each part, and 1 for the base."""
    state = workload.parameter_bytes + workload.gradient_bytes + workload.optimizer_bytes
    return np.array([state, workload.activation_bytes, workload.transient_bytes, workload.dataset_bytes, 1.0])


def predict_peak(coefficients: Mapping[str, float], workload: Workload) -> float:
    """Bytes above the idle process."""
    return float(parts(workload) @ np.array([coefficients[name] for name in PARTS]))


def loading_peak(model: MemoryModel, workload: Workload) -> float:
    """Bytes above the idle process while the rows are read; 0 where nobody looked, or they are elsewhere."""
    return workload.loading_bytes + model.coefficients["base"] if model.reads and workload.loading_bytes else 0.0


def fit_memory(
    workloads: Sequence[Workload], peaks: Sequence[float], groups: Sequence[str], prior: MemoryModel
) -> MemoryModel:
    """Coefficients, and the ends of the interval from peaks held out by `groups` (architectures)."""
    if len(peaks) < LEAST_POINTS:
        return prior
    low_ratio, high_ratio = ends(held_out_ratios(workloads, peaks, _folds(groups), prior))
    weights = np.exp(_solve(_inputs(workloads), np.array(peaks, dtype=float), _start(prior)))
    return MemoryModel(
        coefficients=dict(zip(PARTS, map(float, weights), strict=True)),
        low_ratio=low_ratio,
        high_ratio=high_ratio,
        basis=Basis.MODELLED,
        n_points=len(peaks),
        reads=prior.reads,
    )


def ends(ratios: Vector) -> tuple[float, float]:
    """Lower and careful upper end of measured / predicted, from ratios of what was held out."""
    order = np.sort(ratios)
    rank = min(len(order) - 1, int(np.ceil(CAREFUL * (len(order) + 1))) - 1)
    return float(min(1.0, np.quantile(ratios, BELOW))), float(max(1.0, order[rank]) * HEADROOM)


def held_out_ratios(
    workloads: Sequence[Workload], peaks: Sequence[float], folds: npt.NDArray[np.intp], prior: MemoryModel
) -> Vector:
    """Measured over predicted, each predicted without its own fold; where there is no other, by the prior."""
    inputs, measured, start = _inputs(workloads), np.array(peaks, dtype=float), _start(prior)
    ratios = np.ones(len(measured))
    for fold in np.unique(folds):
        out = folds == fold
        weights = np.exp(start if out.all() else _solve(inputs[~out], measured[~out], start))
        ratios[out] = measured[out] / (inputs[out] @ weights)
    return ratios


def _inputs(workloads: Sequence[Workload]) -> Vector:
    return np.array([parts(workload) for workload in workloads])


def _start(prior: MemoryModel) -> Vector:
    """Logarithms of the prior's coefficients."""
    found: Vector = np.log([max(prior.coefficients[name], 1e-3) for name in PARTS])
    return found


def _folds(groups: Sequence[str]) -> npt.NDArray[np.intp]:
    names = sorted(set(groups))
    fold_of = {name: number % FOLDS for number, name in enumerate(np.random.default_rng(0).permutation(names))}
    return np.array([fold_of[name] for name in groups])


def _solve(inputs: Vector, measured: Vector, start: Vector) -> Vector:
    """Logarithms of the coefficients."""
    from scipy.optimize import least_squares

    spread = np.array([PRIOR_SPREAD[name] for name in PARTS])
    count = len(measured)

    def errors(logs: Vector) -> tuple[Vector, Vector, Vector]:
        shares = inputs * np.exp(logs)
        total = shares.sum(axis=1)
        error = np.log(total) - np.log(measured)
        return error, np.where(error < 0, UNDER_WEIGHT, 1.0) / NOISE, shares / total[:, None]

    def residuals(logs: Vector) -> Vector:
        error, weight, _ = errors(logs)
        return np.concatenate([weight * error, (logs - start) / spread])

    def jacobian(logs: Vector) -> Vector:
        _, weight, shares = errors(logs)
        return np.vstack([weight[:, None] * shares, np.diag(1.0 / spread)])

    def loss(z: Vector) -> Vector:
        rho = np.vstack([z, np.ones_like(z), np.zeros_like(z)])
        root = np.sqrt(1.0 + z[:count])
        rho[:, :count] = [2.0 * (root - 1.0), 1.0 / root, -0.5 / root**3]
        return rho

    found: Vector = least_squares(residuals, start, jac=jacobian, loss=loss).x
    return found
