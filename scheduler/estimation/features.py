"""From a `Workload` to the terms of its step time: how much work, of which kind, at which shape.

    step_s = sum over terms of amount * exp(w_kind . phi(shape))

Kinds of work are operator classes and passes, not model families. A dense operator (convolution, matrix product) gives
one term in FLOPs per pass (forward, gradient of the input, gradient of the weight) and one in bytes; any other gives
terms in bytes. Then there are the optimizer's bytes and tensors, the batch that is gathered, the operators as such, and
the step.
`phi` holds the logarithms of the shape, their products, how badly the channels fill a vector register, and whether
those of a convolution come in whole blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from scheduler.estimation.columns import Columns
from scheduler.workload import OpClass, Workload

Vector = npt.NDArray[np.float64]

CENTERS = {"batch": 32.0, "in": 32.0, "out": 32.0, "kernel": 3.0, "size": 16.0, "rows": 64.0, "count": 1.0}
"""Where the logarithm of each part of a shape is zero: the middle of what people train on one core."""
SCALES = {"kernel": math.log(2.0), "count": math.log(64.0)}
"""Spread of a logarithm; log 4 for the rest."""
SCALE = math.log(4.0)
VECTOR = 16
"""Channels that one register of the widest usual kind holds (AVX-512: 16 floats)."""
BLOCK = 8
"""Channels of a convolution that come in multiples of it are copied and computed without a remainder: libraries lay
them out in blocks (oneDNN's formats nChw8c and nChw16c) and fill the last one up with zeros."""
PLAIN = 4
"""Up to so many channels, those of pictures, are read as they lie."""
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
class Block:
    """All terms of one group, of a step at several numbers of rows or of several steps; a step's lie side by side."""

    owner: npt.NDArray[np.intp]
    """Number of the step that a term belongs to."""
    amounts: Vector
    phi: Vector
    forward: npt.NDArray[np.bool_]
    """Terms that an evaluation costs too."""
    once: npt.NDArray[np.bool_]
    """Terms of the step itself, whatever the rows: the optimizer, the loop."""

    @cached_property
    def places(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """(the steps that have any of these terms, where those of each begin)."""
        return np.unique(self.owner, return_index=True)

    def per_step(self, values: Vector, size: int) -> Vector:
        """Sums over the terms of each of `size` steps of values that come as [terms, columns]."""
        owners, starts = self.places
        total = np.zeros((size, values.shape[1]))
        total[owners] = np.add.reduceat(values, starts, axis=0)
        return total


@dataclass(frozen=True)
class _Term:
    """One kind of work of several operators at several numbers of rows."""

    group: str
    amounts: Vector
    """[numbers of rows, operators]"""
    phi: Vector
    """[numbers of rows, operators, columns of the group's layout]"""
    forward: bool
    once: bool = False


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


TAILS = (("tail_in", "tail_out", "tail_in*in", "tail_out*out"), (0.4, 0.4, 0.3, 0.3))
"""Names and prior spreads of the last columns of a convolution's phi: channels beyond the last whole block."""


def _layouts() -> dict[str, Layout]:
    found = []
    for op, names in DENSE.items():
        columns, spread = dense_columns(names, (INPUT_GRADIENT, WEIGHT_GRADIENT))
        tails = TAILS if op is OpClass.CONV else ((), ())
        found.append(Layout(op.value, columns + tails[0], spread + tails[1]))
        found.append(Layout(f"{op.value}_bytes", ("1",), (0.7,)))
    for op in OpClass:
        if op not in DENSE:
            found.append(Layout(op.value, ("1", "elements", "elements*elements", BACKWARD), (0.7, 0.3, 0.15, 0.4)))
            found.append(Layout(f"{op.value}_flops", ("1",), (1.0,)))
    for name in ("optimizer_bytes", "optimizer_tensors", "batch_bytes", "operators", "step"):
        found.append(Layout(name, ("1",), (1.0,)))
    return {layout.name: layout for layout in found}


LAYOUTS = _layouts()


def terms(workload: Workload, rows: Sequence[int]) -> dict[str, Block]:
    """Terms of one training step on each of several numbers of rows, by group; the owner is the place in `rows`."""
    return _blocks((*_operator_terms(Columns.of(workload, rows)), *_step_terms(workload, rows)))


def operator_terms(workload: Workload) -> dict[str, Block]:
    """Terms of each different operator by itself, its calls included, at the rows of the trace; the owner is its place
    in the order in which they come first."""
    columns = Columns.apart(workload)
    return _blocks((*_operator_terms(columns), *_call_terms(np.ones((len(columns.operators), 1)))))


def _blocks(terms: Iterable[_Term]) -> dict[str, Block]:
    gathered: dict[str, list[_Term]] = {}
    for term in terms:
        gathered.setdefault(term.group, []).append(term)
    blocks = {group: _block(found) for group, found in gathered.items()}
    return {group: block for group, block in blocks.items() if len(block.owner)}


def _block(found: Sequence[_Term]) -> Block:
    """Terms of one group, without those of nothing."""
    amounts = np.concatenate([term.amounts for term in found], axis=1)
    phi = np.concatenate([term.phi for term in found], axis=1)
    phi = np.broadcast_to(phi, (len(amounts), *phi.shape[1:]))  # of operators apart they are those of the same rows
    widths = [term.amounts.shape[1] for term in found]
    forward = np.repeat([term.forward for term in found], widths)
    once = np.repeat([term.once for term in found], widths)
    owner, place = np.nonzero(amounts > 0)
    return Block(owner, amounts[owner, place], phi[owner, place], forward[place], once[place])


def _step_terms(workload: Workload, rows: Sequence[int]) -> Iterator[_Term]:
    """What a step costs besides the work of its operators."""
    state = workload.parameter_bytes + workload.gradient_bytes + workload.optimizer_bytes
    row_bytes = workload.data_bytes / max(1, workload.train_rows)
    each = np.ones((len(rows), 1))
    yield _Term("optimizer_bytes", state * each, _flat(each), forward=False, once=True)
    yield _Term("optimizer_tensors", workload.fixed_parameters_ops * each, _flat(each), forward=False, once=True)
    yield _Term("batch_bytes", row_bytes * np.array(rows)[:, None], _flat(each), forward=True)
    yield from _call_terms(len(workload.operators) * each)
    yield _Term("step", each, _flat(each), forward=False, once=True)


def _call_terms(calls: Vector) -> Iterator[_Term]:
    """What it costs to call so many operators, forward and twice backward."""
    yield _Term("operators", calls, _flat(calls), forward=True)
    yield _Term("operators", 2.0 * calls, _flat(calls), forward=False)


def _operator_terms(columns: Columns) -> Iterator[_Term]:
    for op in OpClass:
        alike = columns.only(op)
        if alike.operators:
            yield from _dense(op, alike) if op in DENSE else _streaming(op, alike)


def _dense(op: OpClass, columns: Columns) -> Iterator[_Term]:
    """FLOPs of each pass at the shape that the pass has, and the bytes of all passes."""
    passes = {
        FORWARD: columns,
        INPUT_GRADIENT: columns.where(lambda operator: operator.input_gradient),
        WEIGHT_GRADIENT: columns.where(lambda operator: operator.weight_gradient),
    }
    for name, some in passes.items():
        moved = some.repeats * some.moved_bytes
        yield _Term(op.value, some.repeats * some.flops, _dense_phi(op, some, name), name == FORWARD)
        yield _Term(f"{op.value}_bytes", moved, _flat(moved), name == FORWARD)


def _dense_phi(op: OpClass, columns: Columns, name: str) -> Vector:
    swapped = _swapped(op, name)

    def values(part: str, missing: float) -> Vector:
        if part in swapped:
            return columns.shape(swapped[part], 1.0)
        return columns.shape("batch" if part == "rows" else part, missing)

    parts = DENSE[op]
    logs = np.stack([_log(part, values(part, CENTERS[part])) for part in parts], axis=-1)
    one = np.ones((*logs.shape[:-1], 1))
    first, second = np.triu_indices(len(parts))
    sides = np.stack([values(side, 1.0) for side in ("in", "out")], axis=-1)
    extra = [float(name == other) * part for other in (INPUT_GRADIENT, WEIGHT_GRADIENT) for part in (one, logs)]
    if op is OpClass.CONV:
        tails = _tails(sides)
        extra += [tails, tails * _log("in", sides)]
    return np.concatenate([one, logs, logs[..., first] * logs[..., second], _padding(sides), *extra], axis=-1)


def _swapped(op: OpClass, name: str) -> Mapping[str, str]:
    """Parts of the shape that another one takes the place of in a pass.

    A product [rows, in] x [in, out] has the weight gradient [in, rows] x [rows, out]; convolutions keep theirs.
    """
    if name == INPUT_GRADIENT:
        return {"in": "out", "out": "in"}
    return {"rows": "in", "in": "batch"} if name == WEIGHT_GRADIENT and op is OpClass.GEMM else {}


def _log(part: str, values: Vector) -> Vector:
    logs: Vector = np.log(np.maximum(values, 1.0) / CENTERS[part]) / SCALES.get(part, SCALE)
    return logs


def _padding(channels: Vector) -> Vector:
    """Logarithm of the registers' lanes over the channels that fill them."""
    filled = np.maximum(1.0, channels)
    return np.log(np.ceil(filled / VECTOR) * VECTOR / filled)


def _tails(channels: Vector) -> Vector:
    """1 where channels beyond the last whole block are left, else 0."""
    return ((channels > PLAIN) & (np.mod(channels, BLOCK) > 0)).astype(float)


def _streaming(op: OpClass, columns: Columns) -> Iterator[_Term]:
    for backward in (0.0, 1.0):
        some = columns.where(lambda operator: operator.input_gradient) if backward else columns
        moved = some.moved_bytes
        elements = np.log(np.maximum(1.0, moved / 8.0) / ELEMENTS_CENTER) / math.log(16.0)
        flops = some.repeats * some.flops * (1.0 + backward)
        one = np.ones_like(elements)
        phi = np.stack([one, elements, elements * elements, backward * one], axis=-1)
        yield _Term(op.value, some.repeats * moved, phi, not backward)
        yield _Term(f"{op.value}_flops", flops, _flat(flops), not backward)


def _flat(amounts: Vector) -> Vector:
    """phi of a group whose cost does not depend on the shape."""
    return np.ones((*amounts.shape, 1))
