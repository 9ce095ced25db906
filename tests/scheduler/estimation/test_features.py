"""Terms of a step: those of many numbers of rows at once are those of each operator by itself, pass by pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.columns import Columns
from scheduler.estimation.features import (
    BLOCK,
    CENTERS,
    DENSE,
    ELEMENTS_CENTER,
    FORWARD,
    INPUT_GRADIENT,
    LAYOUTS,
    PLAIN,
    SCALE,
    SCALES,
    VECTOR,
    WEIGHT_GRADIENT,
    terms,
)
from scheduler.workload import OpClass, Operator, Workload, at_batch
from tests.scheduler.made_workloads import workload

FIGURES = st.floats(0.0, 1e9)
SLOPES = st.floats(-1e6, 1e7)
SHAPES = ("batch", "in", "out", "kernel", "size", "count", "elements")


@st.composite
def operators(draw: Any) -> Operator:
    """Any operator: parts of its shape may be missing, some of its figures go with the rows."""
    shape = draw(st.dictionaries(st.sampled_from(SHAPES), st.floats(0.0, 1e5)))
    figures = {name: draw(FIGURES) for name in ("flops", "read_bytes", "write_bytes")}
    return Operator(
        op=draw(st.sampled_from(OpClass)), **figures, shape=shape,
        input_gradient=draw(st.booleans()), weight_gradient=draw(st.booleans()),
        per_row=draw(st.dictionaries(st.sampled_from((*figures, *SHAPES)), SLOPES)),
    )  # fmt: skip


@st.composite
def programs(draw: Any) -> Workload:
    """Steps of any operators, some of them several times."""
    different = draw(st.lists(operators(), max_size=4))
    chain = [operator for operator in different for _ in range(draw(st.integers(1, 3)))]
    return replace(workload(layers=1), operators=tuple(chain))


@settings(deadline=None)
@given(programs(), st.lists(st.integers(1, 500), min_size=1, max_size=5))
def test_columns_are_the_figures_of_each_operator_at_each_number_of_rows(work: Workload, rows: list[int]) -> None:
    columns = Columns.of(work, rows)
    for place, number in enumerate(rows):
        moved = {id(now): then for now, then in zip(work.operators, at_batch(work, number).operators, strict=True)}
        seen = [moved[id(operator)] for operator in columns.operators]
        assert columns.flops[place].tolist() == [operator.flops for operator in seen]
        assert columns.moved_bytes[place].tolist() == [operator.read_bytes + operator.write_bytes for operator in seen]
        for name in SHAPES:
            assert columns.shape(name, 7.0)[place].tolist() == [operator.shape.get(name, 7.0) for operator in seen]
    assert columns.repeats.sum() == len(work.operators)


Plain = tuple[float, list[float], bool]
"""(amount, phi, whether it is of the forward pass)"""


def log_of(part: str, shape: dict[str, float]) -> float:
    value = shape.get("batch" if part == "rows" else part, CENTERS[part])
    return math.log(max(value, 1.0) / CENTERS[part]) / SCALES.get(part, SCALE)


def padding_of(channels: float) -> float:
    return math.log(math.ceil(max(1.0, channels) / VECTOR) * VECTOR / max(1.0, channels))


def phi_of(op: OpClass, shape: dict[str, float], name: str) -> list[float]:
    logs = [log_of(part, shape) for part in DENSE[op]]
    squares = [first * second for first, second in combinations_with_replacement(logs, 2)]
    pads = [padding_of(shape.get(side, 1.0)) for side in ("in", "out")]
    own = [[float(name == other) * value for value in (1.0, *logs)] for other in (INPUT_GRADIENT, WEIGHT_GRADIENT)]
    return [1.0, *logs, *squares, *pads, *own[0], *own[1], *(tails_of(shape) if op is OpClass.CONV else ())]


def tails_of(shape: dict[str, float]) -> list[float]:
    sides = {side: shape.get(side, 1.0) for side in ("in", "out")}
    left = [float(channels > PLAIN and channels % BLOCK > 0) for channels in sides.values()]
    return [*left, *(tail * log_of(side, sides) for side, tail in zip(sides, left, strict=True))]


def dense(operator: Operator) -> Iterator[tuple[str, Plain]]:
    shape = dict(operator.shape)
    turned = {**shape, "in": shape.get("out", 1.0), "out": shape.get("in", 1.0)}
    across = {**shape, "batch": shape.get("in", 1.0), "in": shape.get("batch", 1.0)}
    seen = {FORWARD: shape}
    if operator.input_gradient:
        seen[INPUT_GRADIENT] = turned
    if operator.weight_gradient:
        seen[WEIGHT_GRADIENT] = across if operator.op is OpClass.GEMM else shape
    for name, one in seen.items():
        forward = name == FORWARD
        yield operator.op.value, (operator.flops, phi_of(operator.op, one, name), forward)
        yield f"{operator.op.value}_bytes", (operator.read_bytes + operator.write_bytes, [1.0], forward)


def streaming(operator: Operator) -> Iterator[tuple[str, Plain]]:
    moved = operator.read_bytes + operator.write_bytes
    size = math.log(max(1.0, moved / 8.0) / ELEMENTS_CENTER) / math.log(16.0)
    for backward in (0.0, 1.0) if operator.input_gradient else (0.0,):
        yield operator.op.value, (moved, [1.0, size, size * size, backward], not backward)
        yield f"{operator.op.value}_flops", (operator.flops * (1.0 + backward), [1.0], not backward)


@settings(deadline=None)
@given(programs(), st.lists(st.integers(1, 500), min_size=1, max_size=4))
def test_terms_of_many_rows_are_those_of_each_operator_by_itself(work: Workload, rows: list[int]) -> None:
    found = terms(work, rows)
    generator = np.random.default_rng(0)
    for group, layout in LAYOUTS.items():
        if group in ("optimizer_bytes", "optimizer_tensors", "batch_bytes", "operators", "step"):
            continue
        weights = 0.1 * generator.normal(size=len(layout.columns))
        for place, number in enumerate(rows):
            plain = [
                term
                for operator in at_batch(work, number).operators
                for name, term in (dense(operator) if operator.op in DENSE else streaming(operator))
                if name == group
            ]
            for forward in (True, False):
                wanted = sum(
                    amount * math.exp(np.dot(phi, weights)) for amount, phi, ahead in plain if ahead is forward
                )
                seconds = 0.0
                if group in found:
                    block = found[group]
                    mine = (block.owner == place) & (block.forward == forward)
                    seconds = float(block.amounts[mine] @ np.exp(block.phi[mine] @ weights))
                assert seconds == pytest.approx(wanted, rel=1e-9)


def test_terms_of_one_step_lie_side_by_side() -> None:
    for block in terms(workload(), [32, 8, 16]).values():
        assert (np.diff(block.owner) >= 0).all() and set(block.owner) == {0, 1, 2}


def test_a_step_costs_its_optimizer_once_whatever_the_rows() -> None:
    found = terms(workload(), [1, 64])
    for group in ("optimizer_bytes", "optimizer_tensors", "step"):
        block = found[group]
        assert block.once.all() and not block.forward.any()
        assert block.amounts[0] == block.amounts[1]
    assert found["batch_bytes"].amounts[1] == pytest.approx(64 * found["batch_bytes"].amounts[0])
