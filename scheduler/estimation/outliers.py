"""Which of several errors are not believed: one that is much further off than the others says more about itself (a full
disk, a neighbour's load) than about the device."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from scheduler.estimation.features import Vector

MOST_DEVIATIONS = 4.0
LEAST_DEVIATION = 0.05
"""Of the logarithm: jobs this close to each other are never outliers."""
ALONE_LIMIT = math.log(3.0)
"""Few jobs cannot say what is usual: one that is off by more than a factor of three is not believed."""
FEW = 4
"""Fewer cannot say what is usual."""


def believable(errors: Vector, sure: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """True for each log error that is not far from the median of all (median absolute deviation).

    `sure`: those that say what is usual for all of them.
    """
    usual = errors if sure is None else errors[sure]
    if len(usual) < FEW:
        return np.abs(errors) <= ALONE_LIMIT
    middle = np.median(usual)
    deviation = max(LEAST_DEVIATION, 1.4826 * float(np.median(np.abs(usual - middle))))
    return np.abs(errors - middle) <= MOST_DEVIATIONS * deviation
