"""What predictions are compared with: the numbers of the data, and what a program tells that keeps none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from worker.runtime.data import Dataset, Part
from worker.runtime.metrics import part_metrics
from worker.runtime.outcome.charts import true_values

SEEN = [1729454372.0, 1729454373.0, 214.04, 1e6]
MEAN, STD = float(np.mean(SEEN)), float(np.std(SEEN))


def told(*, kept: bool) -> tuple[Dataset, Part]:
    """Rows as data.py makes them, and as it made them before it kept the numbers."""
    numbers = torch.tensor(SEEN, dtype=torch.float64)
    targets, rows = ((numbers - MEAN) / STD).float(), torch.arange(len(SEEN))
    part = Part((torch.zeros(len(SEEN), 1),), targets, rows, numbers if kept else None)
    return Dataset(part, part, part, preprocess={"target_mean": MEAN, "target_std": STD}), part


def test_true_values_are_those_of_the_data() -> None:
    dataset, part = told(kept=True)
    assert true_values(part, dataset).tolist() == SEEN
    assert true_values(part.take(slice(1, 3)), dataset).tolist() == SEEN[1:3]
    assert true_values(part.to(torch.device("cpu")), dataset).tolist() == SEEN


def test_a_program_that_keeps_no_numbers_has_them_as_near_as_its_targets_are() -> None:
    dataset, part = told(kept=False)
    assert true_values(part, dataset) == pytest.approx(SEEN, abs=100) and true_values(part, dataset).tolist() != SEEN
    assert dataset.exact_targets(part) is part.targets


def test_metrics_are_made_of_the_numbers_of_the_data() -> None:
    outputs = ((torch.tensor(SEEN, dtype=torch.float64) - MEAN) / STD).unsqueeze(1)
    errors = {}
    for kept in (True, False):
        dataset, part = told(kept=kept)
        errors[kept] = part_metrics(outputs, dataset.exact_targets(part), dataset.target_std)["mae"]
    assert errors[True] < 1e-5 < 1 < errors[False], "a model that is right to the unit is told so"


def test_as_many_numbers_as_rows_are_needed() -> None:
    with pytest.raises(ValueError, match="the same number of rows"):
        Part((torch.zeros(2, 1),), torch.zeros(2), torch.arange(2), torch.zeros(1))
