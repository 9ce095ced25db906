"""Numbers of the past of a series are those of its own known values, whatever lies beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.codegen.programs import module

WINDOWS = module("windows.py")


def series(*parts: list[float]):
    """One series for each part."""
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    values = np.concatenate([np.asarray(part, float) for part in parts])
    return WINDOWS.Series(values, np.arange(len(values)), WINDOWS.starts_of(numbers))


@pytest.mark.parametrize("large", [1e6, 1e13, 1e20, 1e200])
def test_small_values_keep_their_mean_and_spread_beside_large_ones(large: float) -> None:
    small = [0.25 + at % 7 / 10 for at in range(50)]
    rows = series([large * (1 + at % 3) for at in range(3000)], small, [large, *small])
    for last in (3049, 3100):
        ends = np.array([last])
        assert WINDOWS.mean_at(rows, ends, ends - 13, ends)[0] == pytest.approx(np.mean(small[-14:]), rel=1e-12)
        assert WINDOWS.spread_at(rows, ends, 14)[0] == pytest.approx(np.std(small[-14:]), rel=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 40])
def test_windows_are_of_the_known_values_of_one_series(length: int) -> None:
    random = np.random.default_rng(length)
    parts = [random.normal(5, 2, size).tolist() for size in (1, 30, 9, 2)]
    parts[1][::3] = [math.nan] * 10
    rows, parts_of = series(*parts), np.repeat(np.arange(4), [1, 30, 9, 2])
    at = np.arange(len(rows.values))
    means, spreads = WINDOWS.mean_at(rows, at, at - length + 1, at), WINDOWS.spread_at(rows, at, length)
    for place in at:
        first = max(int(rows.first[place]), int(place) - length + 1)
        assert (parts_of[first : place + 1] == parts_of[place]).all()
        known = [value for value in rows.values[first : place + 1] if math.isfinite(value)]
        expected = [np.mean(known), np.std(known)] if known else [math.nan, math.nan]
        np.testing.assert_allclose([means[place], spreads[place]], expected, rtol=1e-12, atol=1e-12)


def test_a_series_without_a_known_value_ends_with_its_last_row_wherever_it_stands() -> None:
    none = [math.nan] * 3
    assert WINDOWS.ends_of(series(none, [1.0, math.nan], none)).tolist() == [2, 3, 7]
