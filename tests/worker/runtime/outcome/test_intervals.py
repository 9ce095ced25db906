"""Intervals of the figures of a part, as results.json has them."""

from __future__ import annotations

import cProfile

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.intervals import share_interval, student
from worker.runtime.outcome.intervals import (
    LEAST_ERRORS,
    STRETCH_HORIZONS,
    mae_interval,
    part_intervals,
    rmse_interval,
    stretches_of,
)


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


def test_the_intervals_of_a_forecast_hold_the_true_error_though_its_errors_hang_together() -> None:
    random, horizon, moments = np.random.default_rng(1), 7, 280
    stretches = np.repeat(np.arange(moments) // (STRETCH_HORIZONS * horizon), horizon)
    steps = np.tile(np.arange(horizon), moments)

    def errors() -> np.ndarray:
        """Of the sum of what came by chance since the forecast was made."""
        chance = random.normal(size=moments + horizon)
        sums = np.cumsum(chance)
        return (sums[horizon:, None] - sums[horizon - 1 - steps[:horizon] + np.arange(moments)[:, None]]).ravel()

    true = np.mean([np.abs(errors()).mean() for _ in range(300)])
    draws = [errors() for _ in range(300)]
    held, alone = (
        np.mean([low <= true <= high for _, low, high in (mae_interval(each, of) for each in draws)])
        for of in (stretches, None)
    )
    assert held > 0.9 and alone < 0.7


def test_stretches_are_of_all_series_together_and_few_of_them_tell_nothing() -> None:
    days = np.datetime64("2020-01-01", "us") + np.tile(np.arange(40), 2) * np.timedelta64(1, "D")
    names = np.repeat(["a", "b"], 40)
    moments = pa.table({"series": names, "time": days, "steps ahead": np.tile([1, 2, 3, 4], 20)})
    found = stretches_of(moments)
    assert found.tolist() == np.tile(np.repeat(np.arange(5), 8), 2).tolist()
    outputs, targets = torch.randn(80, 1), torch.zeros(80)
    assert set(part_intervals(outputs, targets, 1.0, found)) == {"rmse", "mae"}
    assert part_intervals(outputs, targets, 1.0, np.minimum(found, 3)) == {}


def test_series_whose_moments_lie_between_those_of_others_make_no_stretch_shorter() -> None:
    hours = np.datetime64("2020-01-01", "us") + np.arange(40) * np.timedelta64(1, "h")
    times = np.concatenate([hours + np.timedelta64(minutes, "m") for minutes in (0, 10, 25, 40)])
    names = np.repeat(["a", "b", "c", "d"], 40)
    found = stretches_of(pa.table({"series": names, "time": times, "steps ahead": np.tile([1, 2, 3, 4], 40)}))
    assert found.tolist() == np.tile(np.repeat(np.arange(5), 8), 4).tolist()


def test_no_series_has_more_steps_in_a_stretch_where_they_follow_one_another() -> None:
    times = np.datetime64("2020-01-01", "us") + np.arange(32) * np.timedelta64(1, "h")
    table = pa.table({"series": ["a"] * 16 + ["b"] * 16, "time": times, "steps ahead": np.tile([1, 2, 3, 4], 8)})
    assert stretches_of(table).tolist() == [0] * 8 + [1] * 16 + [2] * 8
    assert stretches_of(table.slice(0, 0)).tolist() == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=60), st.integers(1, 3))
def test_a_stretch_ends_when_any_series_has_had_its_steps(rows: list[tuple[str, int]], horizon: int) -> None:
    hours = sorted({hour for _, hour in rows})
    known, had, number = dict[int, int](), dict[str, set[int]](), 0
    for hour in hours:
        now = {name for name, when in rows if when == hour}
        if any(len(had.get(name, ())) == STRETCH_HORIZONS * horizon for name in now):
            had, number = {}, number + 1
        for name in now:
            had.setdefault(name, set()).add(hour)
        known[hour] = number
    times = np.datetime64("2020-01-01", "us") + np.array([hour for _, hour in rows], int) * np.timedelta64(1, "h")
    names = pa.array([name for name, _ in rows], pa.string())
    table = pa.table({"series": names, "time": times, "steps ahead": np.full(len(rows), horizon)})
    assert stretches_of(table).tolist() == [known[hour] for _, hour in rows]


def test_stretches_of_a_long_series_take_no_longer_than_reading_it() -> None:
    rows = 500_000
    times = np.datetime64("2020-01-01", "us") + np.arange(rows) * np.timedelta64(1, "m")
    table = pa.table({"series": ["a"] * rows, "time": times, "steps ahead": np.ones(rows, int)})
    profile = cProfile.Profile()
    found = profile.runcall(stretches_of, table)
    assert sum(entry.callcount for entry in profile.getstats()) < rows, "a call for each row"
    assert (found == np.arange(rows) // STRETCH_HORIZONS).all()


def test_student_is_within_a_hundredth() -> None:
    for freedom, known in ((3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)):
        assert student(freedom) == pytest.approx(known, rel=0.01)


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
