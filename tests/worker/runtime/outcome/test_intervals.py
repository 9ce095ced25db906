"""Intervals of the figures of a part, as results.json has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from worker.intervals import share_interval
from worker.runtime.outcome.intervals import LEAST_ERRORS, mae_interval, part_intervals, rmse_interval


def test_the_interval_of_an_rmse_holds_the_true_one_about_95_times_in_100() -> None:
    random = np.random.default_rng(1)
    draws = [rmse_interval(random.normal(0.0, 2.0, 80)) for _ in range(1000)]
    assert 910 < sum(low <= 2.0 <= high for _, low, high in draws) < 970
    assert rmse_interval(np.zeros(5)) == (0.0, 0.0, 0.0)


def test_the_interval_of_a_mean_absolute_error_holds_the_true_one_about_95_times_in_100() -> None:
    random = np.random.default_rng(1)
    draws = [mae_interval(random.normal(0.0, 2.0, 80)) for _ in range(1000)]
    true = 2.0 * (2 / np.pi) ** 0.5
    assert 910 < sum(low <= true <= high for _, low, high in draws) < 970


def test_a_part_of_classes_has_intervals_around_its_accuracies() -> None:
    targets = torch.tensor([0] * 8 + [2] * 2)
    outputs = torch.eye(3)[torch.tensor([0] * 8 + [2, 0])]
    found = part_intervals(outputs, targets, 1.0)
    assert found["accuracy"] == list(share_interval(9, 10)[1:])
    low, high = found["balanced_accuracy"]
    assert low < 0.75 < high < 1 and high - low > found["accuracy"][1] - found["accuracy"][0]


def test_a_part_of_numbers_has_intervals_on_the_scale_of_the_data() -> None:
    outputs, targets = torch.tensor([[1.0], [2.0]] * 10), torch.zeros(20)
    found = part_intervals(outputs, targets, 3.0)
    assert found["mae"][0] < 4.5 < found["mae"][1] and found["rmse"][0] < 3 * 2.5**0.5 < found["rmse"][1]
    assert found["mae"] == pytest.approx([4.5 - 1.96 * 1.5 / 20**0.5, 4.5 + 1.96 * 1.5 / 20**0.5])


def test_too_few_rows_have_none() -> None:
    few = LEAST_ERRORS - 1
    assert part_intervals(torch.zeros(few, 1), torch.zeros(few), 1.0) == {}
    assert part_intervals(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), 1.0) == {}
