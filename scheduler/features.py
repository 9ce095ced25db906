"""From a `Workload` to the terms of its step time: how much work, of which kind, at which shape.

    step_s = sum over terms of amount * exp(w_kind . phi(shape))

Kinds of work are operator classes and passes, not model families. A dense operator (convolution, matrix product) gives
one term in FLOPs per pass (forward, gradient of the input, gradient of the weight) and one in bytes; any other gives
terms in bytes. Then there are the optimizer's bytes and tensors, the batch that is gathered, the operators as such, and
the step.
`phi` holds the logarithms of the shape, their products, and how badly the channels fill a vector register.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from scheduler.workload import OpClass, Operator, Workload

Vector = npt.NDArray[np.float64]

CENTERS = {"batch": 32.0, "in": 32.0, "out": 32.0, "kernel": 3.0, "size": 16.0, "rows": 64.0, "count": 1.0}
"""Where the logarithm of each part of a shape is zero: the middle of what people train on one core."""
SCALES = {"kernel": math.log(2.0), "count": math.log(64.0)}
"""Spread of a logarithm; log 4 for the rest."""
SCALE = math.log(4.0)
VECTOR = 16
"""Channels that one register of the widest usual kind holds (AVX-512: 16 floats)."""
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, BACKWARD = "forward", "input_gradient", "weight_gradient", "backward"
DENSE = {OpClass.CONV: ("batch", "in", "out", "kernel", "size"), OpClass.GEMM: ("rows", "in", "out", "count")}
"""Classes counted in FLOPs, with what their efficiency depends on."""
ELEMENTS_CENTER = 1e5


@dataclass(frozen=True)
class Layout:
    """Coefficients of one group of terms, and how far each may move from its prior (standard deviations of log)."""

    name: str
    columns: tuple[str, ...]
    spread: tuple[float, ...]


@dataclass(frozen=True)
class Terms:
    """Terms of one step; `forward` marks those that an evaluation costs too."""

    groups: tuple[str, ...]
    amounts: Vector
    phi: tuple[Vector, ...]
    forward: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.bool_]
    """Marks terms of the optimizer: once per step, whatever the batch."""


def dense_columns(names: Sequence[str], passes: Sequence[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Names and prior spreads of phi of a dense class."""
    columns = ["1", *names]
    spread = [1.0] + [0.4] * len(names)
    for first, second in combinations_with_replacement(names, 2):
        columns.append(f"{first}*{second}")
        spread.append(0.2)
    columns += ["pad_in", "pad_out"]
    spread += [0.7, 0.7]
    for name in passes:
        columns += [name, *(f"{name}*{part}" for part in names)]
        spread += [0.4] + [0.2] * len(names)
    return tuple(columns), tuple(spread)


def _layouts() -> dict[str, Layout]:
    found = []
    for op, names in DENSE.items():
        found.append(Layout(op.value, *dense_columns(names, (INPUT_GRADIENT, WEIGHT_GRADIENT))))
        found.append(Layout(f"{op.value}_bytes", ("1",), (0.7,)))
    for op in OpClass:
        if op not in DENSE:
            columns = ("1", "elements", "elements*elements", BACKWARD)
            found.append(Layout(op.value, columns, (0.7, 0.3, 0.15, 0.4)))
            found.append(Layout(f"{op.value}_flops", ("1",), (1.0,)))
    for name in ("optimizer_bytes", "optimizer_tensors", "batch_bytes", "operators", "step"):
        found.append(Layout(name, ("1",), (1.0,)))
    return {layout.name: layout for layout in found}


LAYOUTS = _layouts()


def terms(workload: Workload) -> Terms:
    """Terms of one training step at the traced batch size."""
    rows: list[tuple[str, float, Vector, bool, bool]] = []
    for operator, repeat in _counted(workload.operators):
        found = _dense(operator) if operator.op in DENSE else _streaming(operator)
        rows += [(group, repeat * amount, phi, forward, once) for group, amount, phi, forward, once in found]
    state = workload.parameter_bytes + workload.gradient_bytes + workload.optimizer_bytes
    batch_bytes = workload.data_bytes / max(1, workload.train_rows) * workload.batch_size
    one = np.ones(1)
    rows += [
        ("optimizer_bytes", float(state), one, False, True),
        ("optimizer_tensors", float(workload.fixed_parameters_ops), one, False, True),
        ("batch_bytes", batch_bytes, one, True, False),
        ("operators", float(len(workload.operators)), one, True, False),
        ("operators", 2.0 * len(workload.operators), one, False, False),
        ("step", 1.0, one, False, True),
    ]
    kept = [row for row in rows if row[1] > 0]
    groups, amounts, phi, forward, weights = zip(*kept, strict=True)
    return Terms(groups, np.array(amounts), phi, np.array(forward), np.array(weights))


def _counted(operators: Sequence[Operator]) -> Iterable[tuple[Operator, int]]:
    """Each operator once, and how often it comes: repeats read from JSON are the same object."""
    counts = Counter(map(id, operators))
    return ((operator, counts[key]) for key, operator in {id(operator): operator for operator in operators}.items())


def _dense(operator: Operator) -> Iterable[tuple[str, float, Vector, bool, bool]]:
    """FLOPs of each pass at the shape that the pass has, and the bytes of all passes."""
    group, shape = operator.op.value, operator.shape
    moved = operator.read_bytes + operator.write_bytes
    passes = [(FORWARD, shape)]
    if operator.input_gradient:
        passes.append((INPUT_GRADIENT, {**shape, "in": shape.get("out", 1.0), "out": shape.get("in", 1.0)}))
    if operator.weight_gradient:
        passes.append((WEIGHT_GRADIENT, _weight_shape(operator)))
    for name, seen in passes:
        yield group, operator.flops, _dense_phi(operator.op, seen, name), name == FORWARD, False
        yield f"{group}_bytes", moved, np.ones(1), name == FORWARD, False


def _weight_shape(operator: Operator) -> Mapping[str, float]:
    """A product [rows, in] x [in, out] has the weight gradient [in, rows] x [rows, out]; convolutions keep theirs."""
    shape = operator.shape
    if operator.op is not OpClass.GEMM:
        return shape
    return {**shape, "batch": shape.get("in", 1.0), "in": shape.get("batch", 1.0)}


def _dense_phi(op: OpClass, shape: Mapping[str, float], name: str) -> Vector:
    parts = DENSE[op]
    logs = [_log(part, shape) for part in parts]
    squares = [first * second for first, second in combinations_with_replacement(logs, 2)]
    pads = [_padding(shape.get(side, 1.0)) for side in ("in", "out")]
    extra: list[float] = []
    for other in (INPUT_GRADIENT, WEIGHT_GRADIENT):
        here = 1.0 if name == other else 0.0
        extra += [here, *(here * value for value in logs)]
    return np.array([1.0, *logs, *squares, *pads, *extra])


def _log(part: str, shape: Mapping[str, float]) -> float:
    value = shape.get("batch" if part == "rows" else part, CENTERS[part])
    return math.log(max(value, 1.0) / CENTERS[part]) / SCALES.get(part, SCALE)


def _padding(channels: float) -> float:
    """Logarithm of the registers' lanes over the channels that fill them."""
    channels = max(1.0, channels)
    return math.log(math.ceil(channels / VECTOR) * VECTOR / channels)


def _streaming(operator: Operator) -> Iterable[tuple[str, float, Vector, bool, bool]]:
    moved = operator.read_bytes + operator.write_bytes
    elements = math.log(max(1.0, moved / 8.0) / ELEMENTS_CENTER) / math.log(16.0)
    for backward in (0.0, 1.0) if operator.input_gradient else (0.0,):
        phi = np.array([1.0, elements, elements * elements, backward])
        yield operator.op.value, moved, phi, backward == 0.0, False
        yield f"{operator.op.value}_flops", operator.flops * (1.0 + backward), np.ones(1), backward == 0.0, False
