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


def made(rows, at, windows: list[dict]) -> dict:
    """Windows of the rows `at` by name, one step ahead."""
    return WINDOWS.windows_of(rows, at, np.ones(len(at), int), rows.times[at], windows)


def spreads_of(rows, at, length: int):
    return made(rows, at, [{"of": "spread", "steps": length, "name": "spread"}])["spread"]


@pytest.mark.parametrize("large", [1e6, 1e13, 1e20, 1e200])
def test_small_values_keep_their_mean_and_spread_beside_large_ones(large: float) -> None:
    small = [0.25 + at % 7 / 10 for at in range(50)]
    rows = series([large * (1 + at % 3) for at in range(3000)], small, [large, *small])
    for last in (3049, 3100):
        ends = np.array([last])
        assert WINDOWS.mean_at(rows, ends, ends - 13, ends)[0] == pytest.approx(np.mean(small[-14:]), rel=1e-12)
        assert spreads_of(rows, ends, 14)[0] == pytest.approx(np.std(small[-14:]), rel=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 40])
def test_windows_are_of_the_known_values_of_one_series(length: int) -> None:
    random = np.random.default_rng(length)
    parts = [random.normal(5, 2, size).tolist() for size in (1, 30, 9, 2)]
    parts[1][::3] = [math.nan] * 10
    rows, parts_of = series(*parts), np.repeat(np.arange(4), [1, 30, 9, 2])
    at = np.arange(len(rows.values))
    means, spreads = WINDOWS.mean_at(rows, at, at - length + 1, at), spreads_of(rows, at, length)
    for place in at:
        first = max(int(rows.first[place]), int(place) - length + 1)
        assert (parts_of[first : place + 1] == parts_of[place]).all()
        known = [value for value in rows.values[first : place + 1] if math.isfinite(value)]
        expected = [np.mean(known), np.std(known)] if known else [math.nan, math.nan]
        np.testing.assert_allclose([means[place], spreads[place]], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("missing", [False, True], ids=["all known", "some missing"])
@pytest.mark.parametrize("parts", [[100], [60, 5, 35]], ids=["of one length", "cut short"])
def test_windows_that_share_their_runs_are_what_each_is_alone(parts: list[int], missing: bool) -> None:
    random = np.random.default_rng(3)
    values = random.normal(5, 2, 100)
    values[7::9] = math.nan if missing else 5.0
    rows = series(*np.split(values, np.cumsum(parts)[:-1]))
    at = np.flatnonzero(np.isfinite(values) & (np.arange(100) >= (50 if len(parts) == 1 else 0)))
    lengths = {"above_mean": (4, 21), "spread": (7, 32), "around": (10, 40)}
    windows = [{"of": of, "steps": steps, "name": f"{of} {steps}"} for of, each in lengths.items() for steps in each]
    together = made(rows, at, windows)
    for window in windows:
        np.testing.assert_array_equal(together[window["name"]], made(rows, at, [window])[window["name"]])
    kept = [place - max(rows.first[place], place - 6) for place in at]
    spreads = [np.nanstd(values[place - back : place + 1]) for place, back in zip(at, kept, strict=True)]
    np.testing.assert_allclose(together["spread 7"], spreads, rtol=1e-12, atol=1e-12)


def test_of_a_value_that_stays_the_same_the_mean_is_itself_and_the_spread_none() -> None:
    rows, at = series([0.1] * 90), np.arange(40, 90)
    windows = [
        {"of": of, "steps": steps, "name": f"{of} {steps}"} for of in ("above_mean", "spread") for steps in (7, 30)
    ]
    assert all((values == 0).all() for values in made(rows, at, windows).values())


def test_a_series_without_a_known_value_ends_with_its_last_row_wherever_it_stands() -> None:
    none = [math.nan] * 3
    assert WINDOWS.ends_of(series(none, [1.0, math.nan], none)).tolist() == [2, 3, 7]
