"""A model of a device for programs that compute in another precision than the one it was fitted or assumed in. Pure.

    products  seconds x speed of the data sheet in the precision that was measured / that in the one asked for
    the rest  as it was measured
    memory    activations by the bytes of what is kept for the backward pass

Products are the FLOPs of matrix products, convolutions and attention; the rest is traffic, calls and the update. How
far the step moves by that is how far it may be off: products of small shapes wait for memory in either precision, and
traffic of 32 bits may be twice that of 16. So half of what moved, and half of what traffic could add, is the range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Coefficients, Correction, MemoryModel, Moved
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.features import DENSE
from scheduler.estimation.precision import AUTO, BEST_FIRST, WANTED, Precision
from scheduler.estimation.prior import dense_flops_per_s
from scheduler.estimation.values import Basis
from scheduler.workload import OpClass, Workload

PRODUCTS = frozenset({*(op.value for op in DENSE), f"{OpClass.ATTENTION}_flops"})
"""Groups of terms that go by the speed of products. Depthwise convolutions are bound by memory."""
HALF = 0.5
"""Of the logarithms by which it might be off, that is the range to either side ..."""
LEAST_HALF = 0.05
"""... and the least: in float16 the gradients are scaled and looked at."""
SHRINK = 3.0
"""So many jobs in that precision leave half of it."""
PEAK_RATIO = 1.15
"""Factor on either end of peak memory that was measured."""


def precision_of(model: DeviceModel, wanted: str) -> Precision:
    """In what a program with this `training.precision` computes on such devices."""
    return model.usual if wanted == AUTO else figures_for(model.kind, model.model_name).computes_in(wanted)


def of_gang(workload: Workload, devices: Iterable[tuple[str, str]]) -> Workload:
    """The program as ranks on devices of these kinds and models compute it: of `auto` the best that all of them can, as
    they agree when they meet (`worker.runtime.precision`)."""
    figures = [figures_for(*device) for device in devices]
    if workload.precision != AUTO or len({one.computes_in(AUTO) for one in figures}) < 2:
        return workload
    common = (name for name in BEST_FIRST if all(WANTED[name] in one.speeds for one in figures))
    return replace(workload, precision=next(common))


def in_precision(model: DeviceModel, workload: Workload) -> DeviceModel:
    """`model` for this program; itself where that computes in what was measured, or the model is moved already."""
    return _moved(model, precision_of(model, workload.precision))


def measured_in(model: DeviceModel, precision: Precision) -> DeviceModel:
    """`model` as the prior of what was measured in `precision`."""
    return replace(_moved(model, precision), moved=None)


def _moved(model: DeviceModel, asked: Precision) -> DeviceModel:
    if asked is model.precision:
        return model
    if model.moved is not None:
        raise ValueError(f"a model moved to {model.precision} is not moved on to {asked}")
    figures = figures_for(model.kind, model.model_name)
    ratio = dense_flops_per_s(figures, model.precision) / dense_flops_per_s(figures, asked)
    is_known = model.basis is not Basis.ASSUMED  # a data sheet tells of this precision as of the other
    return replace(
        model,
        precision=asked,
        members=tuple(_products_moved(member, math.log(ratio)) for member in model.members),
        memory=_kept_as(
            model.memory, asked.kept_share / model.precision.kept_share, wider=PEAK_RATIO if is_known else 1.0
        ),
        correction=model.corrections.get(asked, _untaught(model.correction)),
        moved=Moved(precision=model.precision, members=model.members) if is_known else None,
    )


def kept_ratio(model: DeviceModel, workload: Workload) -> float:
    """How many times as much this program keeps for its backward pass as one in the precision of the model does."""
    return precision_of(model, workload.precision).kept_share / model.precision.kept_share


def moved_half(model: DeviceModel, log_moved: float, work_share: float) -> float:
    """Half of the range of a step's logarithm that its move leaves; 0 of a model that was not moved.

    `log_moved`: by how much it moved; `work_share`: of the step, in which the device computes and moves bytes.
    """
    if model.moved is None:
        return 0.0
    traffic = abs(math.log(model.precision.kept_share / model.moved.precision.kept_share)) * work_share
    half = LEAST_HALF + HALF * (abs(log_moved) + traffic)
    return half * SHRINK / (SHRINK + model.correction.n_jobs)


def _untaught(measured: Correction) -> Correction:
    """Of a precision in which no job has taught: the device is as slow or fast in it as in what was measured."""
    return Correction(factor=measured.factor, n_other=measured.n_jobs + measured.n_other)


def _products_moved(member: Coefficients, log_ratio: float) -> Coefficients:
    return {name: (row[0] + log_ratio, *row[1:]) if name in PRODUCTS else tuple(row) for name, row in member.items()}


def _kept_as(memory: MemoryModel, ratio: float, *, wider: float) -> MemoryModel:
    """With so many times the activations, and the range so many times as wide to either side."""
    if ratio == 1.0:
        return memory
    share = memory.coefficients["activations"] * ratio
    return replace(
        memory,
        coefficients={**memory.coefficients, "activations": share},
        low_ratio=memory.low_ratio / wider,
        high_ratio=memory.high_ratio * wider,
    )
