"""What a run tells of the ranges of its predictions, as results.json has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from worker.runtime.data import Dataset, Part
from worker.runtime.outcome.ranges import part_ranges
from worker.runtime.ranges import LEAST_ROWS, STEPS

MEAN, STD = 100.0, 20.0


def told(val: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Of a model that says 100 each time and is off by these."""

    def part(off: np.ndarray) -> Part:
        targets = torch.tensor(off / STD, dtype=torch.float32)
        return Part((torch.zeros(len(off), 1),), targets, torch.arange(len(off)))

    preprocess = {"target_mean": MEAN, "target_std": STD}
    dataset = Dataset(part(np.zeros(40)), part(val), part(test), preprocess=preprocess)
    outputs = {name: torch.zeros(len(getattr(dataset, name)), 1) for name in ("train", "val", "test")}
    return part_ranges(dataset, outputs)


def test_the_range_comes_from_the_validation_rows_in_the_unit_of_the_target_and_the_test_rows_try_it() -> None:
    found = told(np.arange(1.0, 20.0), np.array([5.0] * 44 + [30.0] * 6))
    assert found["half_widths"] == pytest.approx([18.0]) and found["rows"] == 19 and found["share"] == 0.9
    assert found["test"]["rows"] == 50 and found["test"]["inside"] == 0.88
    assert found["said"] == (
        "A prediction comes with a range that holds the true value for 90 % of rows like the 19 validation rows it was "
        "taken from: ± 18. Of 50 test rows 88.0 % lie inside (95 % interval 76 to 94 %). It holds over such rows taken "
        "together, not for each kind of row, and tells nothing of rows unlike them."
    )


def test_test_rows_that_are_unlike_the_validation_rows_are_told() -> None:
    random = np.random.default_rng(1)
    val = random.normal(0, 1, 400)
    assert "too few for chance" not in told(val, random.normal(0, 1, 400))["said"]
    nearly = told(np.arange(1.0, 20.0), np.array([5.0] * 99_999 + [30.0]))["said"]
    assert "100,000 test rows 99.999 % lie inside (95 % interval 99.9943 to 99.9998 %)." in nearly
    assert "Of 1 test row 100.0 % lies inside" in told(val, np.zeros(1))["said"]
    assert "too few for chance: the test rows are unlike those of the validation" in told(val, 2 * val)["said"]


@pytest.mark.parametrize(("held_out", "tested"), [(200, 1), (200, 3), (20, 200), (400, 100)])
def test_rows_that_are_alike_are_called_unlike_by_chance_alone_and_rarely(held_out: int, tested: int) -> None:
    random = np.random.default_rng(0)
    found = [told(random.normal(0, 1, held_out), random.normal(0, 1, tested)) for _ in range(400)]
    assert sum("too few for chance" in one["said"] for one in found) <= 8, "2 are to be expected"


def test_predictions_that_are_no_finite_numbers_have_no_range_and_say_so() -> None:
    dataset = Dataset(*[Part((torch.zeros(20, 1),), torch.zeros(20), torch.arange(20))] * 3, preprocess={})
    outputs = {name: torch.full((20, 1), torch.nan) for name in ("train", "val", "test")}
    assert part_ranges(dataset, outputs)["said"].endswith("some of the held-out ones are no finite numbers.")


def test_several_widths_are_told_from_the_least_to_the_largest() -> None:
    random = np.random.default_rng(1)
    predicted = torch.tensor(random.uniform(-1, 1, 500), dtype=torch.float32)
    off = torch.tensor(random.normal(0, np.where(predicted.numpy() > 0, 0.5, 0.05)), dtype=torch.float32)
    part = Part((torch.zeros(500, 1),), predicted + off, torch.arange(500))
    dataset = Dataset(part, part, part, preprocess={"target_mean": MEAN, "target_std": STD})
    found = part_ranges(dataset, dict.fromkeys(("train", "val", "test"), predicted.unsqueeze(1)))
    assert len(found["half_widths"]) == len(found["edges"]) + 1 > 1
    assert f"± {found['half_widths'][0]:.3g} to ± " in found["said"]
    assert "by how large the prediction is" in found["said"]


def test_too_few_validation_rows_have_no_range_and_say_so() -> None:
    assert list(told(np.ones(LEAST_ROWS), np.zeros(0))) == ["share", "edges", "half_widths", "rows", "test", "said"]
    assert told(np.ones(LEAST_ROWS - 1), np.ones(9)) == {
        "said": "Predictions come without a range: it takes 9 validation rows to find one, and there are 8."
    }
    assert "there are 0." in told(np.zeros(0), np.ones(9))["said"]
    assert "there is 1." in told(np.zeros(1), np.ones(9))["said"]


def test_without_test_rows_nothing_is_said_to_be_measured() -> None:
    found = told(np.arange(1.0, 20.0), np.zeros(0))
    assert found["test"] is None and " There are no test rows to try it on. It holds" in found["said"]


def test_classes_have_no_ranges() -> None:
    part = Part((torch.zeros(20, 1),), torch.zeros(20, dtype=torch.int64), torch.arange(20))
    assert part_ranges(Dataset(part, part, part, ["a", "b"]), {}) == {}


@pytest.mark.parametrize(("off", "fewer"), [(1.0, False), (3.0, True)])
def test_the_ranges_of_a_forecast_are_by_its_steps_and_tell_where_the_test_has_fewer_inside(
    off: float, fewer: bool
) -> None:
    steps = torch.arange(400) % 2 + 1
    moments = pa.table({"series": [""] * 400, "time": [0] * 400, STEPS: steps.numpy()})

    def part(values: torch.Tensor) -> Part:
        return Part((torch.zeros(400, 1),), values.float(), torch.arange(400), values, torch.zeros(400).double())

    known, tested = part(steps.double()), part(off * steps.double())
    parts = {"train": known, "val": known, "test": tested}
    dataset = Dataset(**parts, moments=dict.fromkeys(parts, moments))
    found = part_ranges(dataset, dict.fromkeys(parts, torch.zeros(400, 1)))
    assert found["half_widths"] == [1.0, 2.0]
    assert "± 1 a step ahead, ± 2 furthest ahead" in found["said"]
    assert ("count on less" in found["said"]) is fewer and "95 %" not in found["said"]
