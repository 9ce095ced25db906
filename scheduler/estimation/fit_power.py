"""Power of one device while it runs: the median of what its counter reported, where there is one that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
import numpy.typing as npt

from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import PowerModel
from scheduler.estimation.features import Vector
from scheduler.estimation.values import Basis


def metered(points: Sequence[CalibrationPoint]) -> list[CalibrationPoint]:
    """Points whose power could be read."""
    return [point for point in points if point.power_w]


def device_w(points: Sequence[CalibrationPoint]) -> Vector:
    """Watts of one device in each of `points`, which all have a reading: of a CPU each thread has a core."""
    return np.array([(point.power_w or 0.0) / (point.count * _cores(point)) for point in points])


def _cores(point: CalibrationPoint) -> int:
    return point.threads if point.kind == "cpu" else 1


def fit_power(points: Sequence[CalibrationPoint], prior: PowerModel) -> PowerModel:
    """One figure for the kind of device; the prior where nothing was read."""
    read_w = device_w(metered(points))
    if not len(read_w):
        return prior
    busy_w = float(median(read_w))
    return PowerModel(
        idle_w=min(prior.idle_w, busy_w), busy_w=busy_w, basis=Basis.MEASURED, source=f"{len(read_w)} points"
    )


def held_out_w(read_w: Vector, folds: npt.NDArray[np.intp], prior: PowerModel) -> Vector:
    """What would be said of each reading without those of its own fold; where there is no other, the prior."""
    found = np.full(len(read_w), prior.busy_w)
    for fold in np.unique(folds):
        out = folds == fold
        if not out.all():
            found[out] = np.median(read_w[~out])
    return found
