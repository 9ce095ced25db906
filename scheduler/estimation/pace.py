"""At what pace the device worked while each point of a sweep was measured. Pure.

A host that is shared is some percent quicker or slower for minutes at a time, for all programs alike, so that
neighbours in the order of the sweep are all above or all below what is foretold of them. The errors of programs that
were held out are taken as

    error = level + pace + noise,   covariance of the paces of two points = variance * exp(-points apart / length)

(an Ornstein-Uhlenbeck process). Length and variance are those of the greatest marginal likelihood (Rasmussen & Williams
2006, chapter 5), the pace is its posterior mean. On evenly spaced points the inverse of the covariance has three
diagonals, so that all of it takes time in proportion to the points.
"""

from __future__ import annotations

import numpy as np

from scheduler.estimation.features import Vector

LENGTHS = (5.0, 10.0, 20.0, 40.0, 80.0)
"""In points, some seconds each."""
VARIANCES = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Of the pace, over that of the noise."""
LEAST_POINTS = 30
LEAST_GAIN = 4.0
"""In the logarithm of the likelihood, else there is none: two figures are chosen, and chance alone gains about 1."""
OUTLIER = 3.0
"""Standard deviations (by the median deviation); errors beyond count as so far off."""


def pace_of(error: Vector) -> Vector:
    """Logarithm of how many times as long steps took at each point, given the log errors in the order of the sweep.

    Zero where there are few points, or none of them tells of its neighbours.
    """
    none = np.zeros(len(error))
    if len(error) < LEAST_POINTS:
        return none
    centred = error - np.median(error)
    most = OUTLIER * 1.4826 * float(np.median(np.abs(centred)))
    if most == 0.0:
        return none
    bounded = np.clip(centred, -most, most)
    steady = _log_likelihood(float(bounded @ bounded), 0.0, len(error))
    found = [_smoothed(bounded, length, variance) for length in LENGTHS for variance in VARIANCES]
    pace, likelihood = max(found, key=lambda each: each[1])
    return pace if likelihood > steady + LEAST_GAIN else none


def _smoothed(error: Vector, length: float, variance: float) -> tuple[Vector, float]:
    """The pace, and the log likelihood of the errors."""
    from scipy.linalg import cho_solve_banded, cholesky_banded

    count, next_to = len(error), np.exp(-1.0 / length)
    own = 1.0 - next_to**2
    precision = np.empty((2, count))
    precision[0] = -next_to / own / variance
    precision[1] = (1.0 + next_to**2) / own / variance + 1.0
    precision[1, [0, -1]] = 1.0 / own / variance + 1.0
    factor = cholesky_banded(precision)
    pace: Vector = cho_solve_banded((factor, False), error)
    log_determinant = 2.0 * np.log(factor[1]).sum() + count * np.log(variance) + (count - 1) * np.log(own)
    return pace, _log_likelihood(float(error @ (error - pace)), float(log_determinant), count)


def _log_likelihood(squares: float, log_determinant: float, count: int) -> float:
    """Up to a constant, the noise as large as makes it greatest."""
    return -0.5 * (count * float(np.log(squares / count)) + log_determinant)
