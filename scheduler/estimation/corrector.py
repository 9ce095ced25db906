"""What the sum over operators misses: a small Gaussian process on summaries of the programs, kept only where
cross-validation says that it helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.estimation.device_parts import Corrector
from scheduler.estimation.features import Vector

LENGTHS = (0.5, 1.0, 2.0)
SIGNALS = (0.5, 1.0)
"""Variance of what is left over, relative to its noise."""
FOLDS = 5
LEAST_POINTS = 60
LEAST_GAIN = 0.03
"""Share of the mean absolute error that it must take away."""


@dataclass(frozen=True)
class Found:
    """A corrector that helps, and what it would have said of each point without its own group."""

    fitted: Corrector
    held_out: Vector


def fit_corrector(inputs: Vector, error: Vector, groups: Sequence[str]) -> Found | None:
    """The best corrector of held-out log errors, or None where none helps enough."""
    if len(error) < LEAST_POINTS or len(set(groups)) < FOLDS:
        return None
    bounded = np.clip(error, *np.quantile(error, [0.02, 0.98]))
    tried = [
        (length, signal, _held_out(inputs, bounded, groups, length, signal)) for length in LENGTHS for signal in SIGNALS
    ]
    length, signal, held_out = min(tried, key=lambda row: float(np.abs(error - row[2]).mean()))
    if np.abs(error - held_out).mean() > (1.0 - LEAST_GAIN) * np.abs(error).mean():
        return None
    alpha = _alpha(inputs, bounded, length, signal)
    rows = tuple(tuple(float(value) for value in row) for row in inputs)
    return Found(Corrector(inputs=rows, alpha=tuple(map(float, alpha)), length=length), held_out)


def _held_out(inputs: Vector, error: Vector, groups: Sequence[str], length: float, signal: float) -> Vector:
    from sklearn.model_selection import GroupKFold

    found = np.zeros(len(error))
    for rest, out in GroupKFold(FOLDS).split(inputs, groups=groups):
        found[out] = _kernel(inputs[out], inputs[rest], length) @ _alpha(inputs[rest], error[rest], length, signal)
    return found


def _alpha(inputs: Vector, error: Vector, length: float, signal: float) -> Vector:
    from scipy.linalg import cho_factor, cho_solve

    kernel = _kernel(inputs, inputs, length) + np.eye(len(error)) / signal
    found: Vector = cho_solve(cho_factor(kernel), error)
    return found


def _kernel(first: Vector, second: Vector, length: float) -> Vector:
    from scipy.spatial.distance import cdist

    found: Vector = np.exp(-cdist(first, second, "sqeuclidean") / (2 * length**2))
    return found
