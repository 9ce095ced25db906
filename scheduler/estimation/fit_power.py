"""Power of one device while it runs, from what its counter reported, where there is one that can be read.

A core draws about the same whatever it runs, so the median stands for all programs. A GPU waits for its host between
pieces of work, and draws far less then: watts = waiting + (busy - waiting) x share of the step in which it computes,
which step times tell. Both are fitted by least squares of relative error, none below 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import numpy.typing as npt

from scheduler.estimation.calibration import LEAST_POINTS, CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.features import Vector
from scheduler.estimation.intervals import LEAST_SCORES, LEVEL
from scheduler.estimation.predict import predict
from scheduler.estimation.values import Basis

LEAST_W = 1e-3
"""No device draws less: keeps logarithms finite."""


def metered(points: Sequence[CalibrationPoint]) -> list[CalibrationPoint]:
    """Points whose power could be read."""
    return [point for point in points if point.power_w]


def device_w(points: Sequence[CalibrationPoint]) -> Vector:
    """Watts of one device in each of `points`, which all have a reading: of a CPU each thread has a core."""
    return np.array([(point.power_w or 0.0) / (point.count * _cores(point)) for point in points])


def _cores(point: CalibrationPoint) -> int:
    return point.threads if point.kind == "cpu" else 1


def work_shares(model: DeviceModel, points: Sequence[CalibrationPoint]) -> Vector:
    """Of each point's step, in which the device computes, by the model's own step times; 0 where no watts go by it."""
    if not points or model.power.waiting_w is None:
        return np.zeros(len(points))
    return predict(model, [point.workload for point in points]).work_share


def fit_power(points: Sequence[CalibrationPoint], model: DeviceModel) -> PowerModel:
    """Of the kind of device; what `model` has where nothing was read. `model`: with its step times."""
    known = metered(points)
    if model.power.waiting_w is not None:  # several also wait for each other, which no share tells
        known = [point for point in known if point.count == 1] or known
    read_w, shares = device_w(known), work_shares(model, known)
    half = _held_out_half(known, read_w, shares, model.power)
    return replace(fitted_power(read_w, shares, model.power), held_out_half=half)


def _held_out_half(
    known: Sequence[CalibrationPoint], read_w: Vector, shares: Vector, prior: PowerModel
) -> float | None:
    """See `PowerModel.held_out_half`: each architecture is left out once."""
    names, folds = np.unique([point.architecture for point in known], return_inverse=True)
    if len(known) < LEAST_SCORES or len(names) < 2:
        return None
    told_w = np.maximum(held_out_w(read_w, shares, folds, prior), LEAST_W)
    off = np.sort(np.abs(np.log(read_w / told_w)))
    rank = math.ceil(LEVEL * (len(off) + 1))
    return float(off[min(rank, len(off)) - 1])


def fitted_power(read_w: Vector, shares: Vector, prior: PowerModel) -> PowerModel:
    """From readings of one device, and the shares in which it computed meanwhile; the prior where there are none."""
    if not len(read_w):
        return prior
    waiting_w, busy_w = _line(read_w, shares, prior)
    return replace(
        prior,
        idle_w=min(prior.idle_w, busy_w if waiting_w is None else waiting_w),
        busy_w=busy_w,
        waiting_w=waiting_w,
        basis=Basis.MEASURED,
        source=f"{len(read_w)} points",
    )


def _line(read_w: Vector, shares: Vector, prior: PowerModel) -> tuple[float | None, float]:
    """Watts while it waits (None: it never does, or too little was read to tell) and while it computes."""
    from scipy.optimize import nnls

    if prior.waiting_w is None or len(read_w) < LEAST_POINTS:
        return None, float(median(read_w))
    columns = np.stack([np.ones(len(shares)), shares], axis=1)
    (waiting_w, more_w), _ = nnls(columns / read_w[:, None], np.ones(len(read_w)))
    return float(waiting_w), float(waiting_w + more_w)


def held_out_w(read_w: Vector, shares: Vector, folds: npt.NDArray[np.intp], prior: PowerModel) -> Vector:
    """What would be said of each reading without those of its own fold; where there is no other, the prior."""
    found = np.zeros(len(read_w))
    for fold in np.unique(folds):
        out = folds == fold
        power = fitted_power(read_w[~out], shares[~out], prior)
        found[out] = [power.at(share) for share in shares[out]]
    return found
