"""Ranges around predicted numbers: how wide they are, and how many true values they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from worker.runtime import serving
from worker.runtime.ranges import LEAST_ROWS, NOTED, PART_ROWS, PARTS, range_limits, range_said, ranges_found


@pytest.mark.parametrize(("rows", "rank"), [(LEAST_ROWS, 9), (18, 18), (19, 18), (29, 27), (99, 90), (199, 180)])
def test_the_half_width_is_the_residual_of_the_rank_that_few_rows_ask_for(rows: int, rank: int) -> None:
    sizes = np.arange(1.0, rows + 1)
    signs = np.where(sizes % 2 == 0, 1.0, -1.0)
    residuals = np.random.default_rng(1).permutation(sizes * signs)
    assert ranges_found(np.ones(50), np.ones(rows), residuals) == {"edges": [], "half_widths": [float(rank)]}


@pytest.mark.parametrize("rows", [9, 19, 60])
def test_nine_in_ten_new_rows_lie_inside_over_many_trainings(rows: int) -> None:
    random = np.random.default_rng(2)
    inside = []
    for _ in range(3000):
        (half,) = ranges_found(np.ones(5), np.ones(rows), random.standard_t(3, rows))["half_widths"]
        inside.append(np.mean(np.abs(random.standard_t(3, 50)) <= half))
    expected = np.ceil(0.9 * (rows + 1)) / (rows + 1)  # exact for residuals that differ
    assert np.mean(inside) == pytest.approx(expected, abs=0.01)


def test_large_predictions_that_are_less_sure_have_wider_ranges_and_each_part_holds_its_share() -> None:
    random = np.random.default_rng(3)
    predicted = random.uniform(1, 100, 20_000)
    residuals = random.normal(0, predicted / 10)
    found = ranges_found(predicted[:5000], predicted[5000:7000], residuals[5000:7000])
    assert len(found["edges"]) == PARTS - 1 and found["half_widths"] == sorted(found["half_widths"])
    assert found["half_widths"][-1] > 4 * found["half_widths"][0]
    limits = range_limits({NOTED: found}, predicted[7000:])
    true = predicted[7000:] - residuals[7000:]
    inside = (np.array(limits["prediction_low"]) <= true) & (true <= np.array(limits["prediction_high"]))
    for part in range(PARTS):
        here = np.searchsorted(found["edges"], predicted[7000:], side="right") == part
        assert inside[here].mean() == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("rows", "parts"), [(2 * PART_ROWS - 1, 1), (2 * PART_ROWS, 2), (3 * PART_ROWS, 3)])
def test_there_are_as_many_parts_as_have_rows_enough(rows: int, parts: int) -> None:
    predicted = np.arange(rows, dtype=float) + 0.5
    assert len(ranges_found(np.linspace(0, rows, 1001), predicted, np.ones(rows))["half_widths"]) == parts


def test_a_model_that_always_says_the_same_has_one_width() -> None:
    found = ranges_found(np.full(900, 2.0), np.full(900, 2.0), np.arange(900.0))
    assert len(found["half_widths"]) == len(found["edges"]) + 1 == 1


def test_a_prediction_has_the_width_of_its_part_and_one_at_an_edge_that_of_the_upper() -> None:
    preprocess = {NOTED: {"edges": [10.0, 20.0], "half_widths": [1.0, 2.0, 5.0], "said": "Nine in ten."}}
    limits = range_limits(preprocess, [-3.0, 10.0, 19.5, 40.0])
    assert limits == {"prediction_low": [-4.0, 8.0, 17.5, 35.0], "prediction_high": [-2.0, 12.0, 21.5, 45.0]}
    assert range_said(preprocess) == "Nine in ten."


def test_programs_of_before_and_classes_have_none() -> None:
    assert range_limits({}, [1.0]) == {} and range_said({}) == ""


def test_the_ranges_of_the_best_weights_are_not_those_of_a_checkpoint(tmp_path: Path) -> None:
    results, checkpoint = tmp_path / "results", tmp_path / "checkpoints" / "step-00000010"
    for folder in (results, checkpoint):
        folder.mkdir(parents=True)
    noted: dict[str, Any] = {"target_std": 1.0, NOTED: {"edges": [], "half_widths": [1.0], "said": ""}}
    (results / "preprocess.json").write_text(json.dumps(noted))
    (results / "model.safetensors").touch()
    assert serving.read_preprocess(results / "model.safetensors") == noted
    assert serving.read_preprocess(checkpoint) == {"target_std": 1.0}
    (checkpoint / "state.pt").touch()
    assert serving.read_preprocess(checkpoint / "state.pt") == {"target_std": 1.0}
