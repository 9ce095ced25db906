"""Workloads as JSON, and at other batch sizes. What a program tells of itself is checked."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.workload import (
    COUNTS,
    MOST_KINDS,
    MOST_OPERATORS,
    OpClass,
    Operator,
    Piece,
    Workload,
    at_batch,
    totals_at_batch,
)

CONV = Operator(
    op=OpClass.CONV, flops=800.0, read_bytes=1_100.0, write_bytes=400.0,
    shape={"batch": 8.0, "in": 3.0, "out": 4.0, "kernel": 3.0, "size": 5.0, "groups": 1.0}, input_gradient=False,
    per_row={"flops": 100.0, "read_bytes": 100.0, "write_bytes": 50.0, "batch": 1.0},
)  # fmt: skip
WEIGHTS_ONLY = Operator(op=OpClass.OTHER, flops=0.0, read_bytes=64.0, write_bytes=64.0, shape={"elements": 16.0})


def made(**changes: Any) -> Workload:
    values: dict[str, Any] = {
        "batch_size": 8, "operators": (CONV, WEIGHTS_ONLY, CONV), "parameters": 100, "parameter_bytes": 400,
        "gradient_bytes": 400, "optimizer_bytes": 800, "activation_bytes": 1_600.0, "transient_bytes": 80.0,
        "data_bytes": 10_000, "fixed_parameters_ops": 4, "train_rows": 70, "evaluated_rows": 20, "epochs": 3,
        "global_batch_size": 8, "per_row": {"activation_bytes": 200.0, "transient_bytes": 10.0},
    }  # fmt: skip
    return Workload(**{**values, **changes})


def test_json_keeps_every_figure_and_merges_what_is_equal() -> None:
    load = made()
    body = json.loads(json.dumps(load.to_dict()))
    assert [item["repeat"] for item in body["operators"]] == [2, 1]
    back = Workload.from_dict(body)
    assert sorted(back.operators, key=repr) == sorted(load.operators, key=repr)
    assert back.to_dict() == load.to_dict()
    assert back.flops == load.flops == 1_600.0


@pytest.mark.parametrize("pieces", [None, (Piece(parameter_bytes=8.0, output_bytes=4.0),) * 3])
def test_the_places_where_a_model_can_be_cut_come_back_from_json(pieces: tuple[Piece, ...] | None) -> None:
    work = replace(made(), pieces=pieces)
    assert Workload.from_dict(json.loads(json.dumps(work.to_dict()))).pieces == pieces


def test_a_first_layer_costs_one_backward_pass_and_a_frozen_one_none() -> None:
    assert CONV.backward_flops == CONV.flops
    assert Operator(op=OpClass.GEMM, flops=5.0, read_bytes=0, write_bytes=0).backward_flops == 10.0
    frozen = Operator(
        op=OpClass.GEMM, flops=5.0, read_bytes=0, write_bytes=0, input_gradient=False, weight_gradient=False
    )
    assert frozen.backward_flops == 0.0


@given(st.integers(1, 4096))
def test_figures_go_linearly_with_the_batch(rows: int) -> None:
    load = at_batch(made(), rows)
    conv, other, again = load.operators
    assert (load.batch_size, load.global_batch_size) == (rows, 8)
    assert conv == again
    assert other == WEIGHTS_ONLY
    assert (conv.flops, conv.write_bytes) == pytest.approx((100.0 * rows, 50.0 * rows))
    assert conv.read_bytes == pytest.approx(300.0 + 100.0 * rows)
    assert (conv.shape["batch"], conv.shape["in"], conv.shape["size"]) == (rows, 3.0, 5.0)
    assert load.activation_bytes == pytest.approx(200.0 * rows)
    assert load.parameter_bytes == 400


@given(st.integers(1, 512), st.integers(1, 512))
def test_the_way_to_a_batch_does_not_matter(first: int, second: int) -> None:
    straight, around = at_batch(made(), second), at_batch(at_batch(made(), first), second)
    assert around.flops == pytest.approx(straight.flops)
    assert around.activation_bytes == pytest.approx(straight.activation_bytes)


def test_rows_beyond_all_figures_are_refused() -> None:
    steep = replace(made(), per_row={"activation_bytes": 1e29})
    with pytest.raises(ValueError, match="not a figure"):
        totals_at_batch(steep, 1000)
    moved = totals_at_batch(made(), 16)
    assert moved == replace(moved) and moved.operators == () and made().operators and made().batch_size != 16


def test_there_is_no_step_without_rows() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        at_batch(made(), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2},
        {"operators": None},
        {"operators": [3]},
        {"operators": [{"op": "conv"}]},
        {"parameters": -1},
        {"parameters": "many"},
        {"activation_bytes": float("nan")},
        {"activation_bytes": float("inf")},
        {"epochs": True},
        {"batch_size": 0},
        {"surprise": 1},
        {"per_row": {"activation_bytes": float("nan")}},
    ],
)
def test_what_is_no_workload_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Workload.from_dict({**made().to_dict(), **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "magic"}, {"flops": float("nan")}, {"flops": -1.0}, {"shape": {"batch": "x"}}, {"repeat": 0},
        {"repeat": 1.5}, {"repeat": MOST_OPERATORS + 1}, {"read_bytes": None},
    ],
)  # fmt: skip
def test_an_operator_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    body = made().to_dict()
    body["operators"][0] |= wrong
    with pytest.raises(ValueError):
        Workload.from_dict(body)


def test_more_different_operators_than_can_be_priced_in_time_are_refused() -> None:
    body = made().to_dict()
    body["operators"] = [{**body["operators"][0], "flops": float(number)} for number in range(MOST_KINDS + 1)]
    with pytest.raises(ValueError, match="too many operators"):
        Workload.from_dict(body)


def test_equal_operators_are_one_entry_whether_they_are_one_object_or_two() -> None:
    work = made()
    one, other = work.operators[0], replace(work.operators[0])
    (entry, *_) = replace(work, operators=(one, one, other)).to_dict()["operators"]
    assert entry["repeat"] == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"activation_bytes": math.inf}, "activation_bytes is not a figure: inf"),
        ({"epochs": 0}, "epochs is 0; a run has one at least"),
        ({"per_row": {"activation_bytes": "x"}}, "per_row.activation_bytes is not a figure: 'x'"),
        ({"surprise": 1}, "there is no field surprise"),
        ({"operators": [{"op": "conv"}]}, "the field flops is missing"),
        ({"operators": [{**CONV.to_dict(), "op": "magic"}]}, "op is 'magic'; it must be one of conv, "),
        ({"operators": [{**CONV.to_dict(), "shape": {"in": math.inf}}]}, "shape.in is not a figure: inf"),
    ],
)
def test_the_field_that_is_wrong_is_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^not a workload: {re.escape(words)}"):
        Workload.from_dict({**made().to_dict(), **wrong})


def test_a_field_that_is_missing_is_named() -> None:
    body = made().to_dict()
    del body["train_rows"]
    with pytest.raises(ValueError, match="the field train_rows is missing"):
        Workload.from_dict(body)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [8.0, 8.5, 10**15 + 1])
def test_what_is_counted_is_a_whole_number_that_can_be_shared_out(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is .* whole number"):
        Workload.from_dict({**made().to_dict(), name: value})


def test_a_workload_that_was_read_before_loading_was_timed_is_as_one_that_takes_no_time_of_its_own() -> None:
    body = made().to_dict()
    del body["load_s"]
    assert Workload.from_dict(body).load_s == 0.0
