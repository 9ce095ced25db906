"""Numbers far from the rest are told: codes for a missing value, and the few that make a target's variance."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from codegen.profile.outliers import sentinels
from codegen.profile.types import ColumnType, DatasetProfile, Severity
from tests.codegen.profile.uploads import Lab, finding

ROWS = 1000
RNG = np.random.default_rng(3)
AGES = RNG.integers(18, 90, ROWS).astype(float)
HEAVY = np.round(RNG.lognormal(10, 1, ROWS), 2)
COUNTS = RNG.poisson(0.4, ROWS).astype(float)


def table(lab: Lab, target: np.ndarray, **features: np.ndarray) -> DatasetProfile:
    columns = {**features, "x": RNG.normal(size=ROWS), "price": target}
    return lab.profile("a.csv", pl.DataFrame(columns).write_csv())


def mixed(rest: np.ndarray, value: float, every: int) -> np.ndarray:
    values = rest.copy()
    values[::every] = value
    return values


@pytest.mark.parametrize("value", [-999, -9999, 9999, 99999, -99, 998, -32768, 1e20])
@pytest.mark.parametrize("every", [2, 20, 150])
def test_a_frequent_number_far_from_all_others_is_told(lab: Lab, value: float, every: int) -> None:
    profile = table(lab, RNG.normal(size=ROWS), age=mixed(AGES, value, every))
    found = finding(profile, "sentinel_values")
    assert found.message.startswith(
        f"'age' is {value:.15g} in {len(range(0, ROWS, every)):,} rows, far from all others"
    )
    assert found.message.endswith("(18 to 89).")
    assert found.rows == tuple(1 + every * i for i in range(5)) and found.severity is Severity.WARNING


def test_a_number_that_stands_for_missing_in_nearly_all_rows_is_told(lab: Lab) -> None:
    days = np.full(ROWS, 999.0)
    days[::20] = np.arange(50) % 27
    profile = table(lab, RNG.normal(size=ROWS), days=days)
    assert "'days' is 999 in 950 rows, far from all others (0 to 26)" in finding(profile, "sentinel_values").message


@pytest.mark.parametrize("value", [-9, 99, 88, 77])
def test_a_code_among_a_few_marks_is_told(value: float) -> None:
    marks = mixed(np.arange(ROWS) % 5 + 1.0, value, 20)
    assert sentinels(marks) == ([(value, (1, 5))] if value > 0 else [])


def test_two_codes_of_one_column_are_told_each(lab: Lab) -> None:
    profile = table(lab, RNG.normal(size=ROWS), age=mixed(mixed(AGES, -999, 20), -998, 25))
    told = [found.message for found in profile.warnings if found.code == "sentinel_values"]
    assert ["is -999 in 40" in told[0], "is -998 in 40" in told[1]] == [True, True]


def test_codes_of_very_many_columns_are_told_in_one_sentence(lab: Lab) -> None:
    profile = table(lab, RNG.normal(size=ROWS), **{f"age{i}": mixed(AGES, -999, 20) for i in range(23)})
    told = [found for found in profile.warnings if found.code == "sentinel_values"]
    assert len(told) == 21 and all("is -999 in 50 rows" in found.message for found in told[:20])
    assert told[-1].message == "3 more findings of this kind (sentinel values)."


def test_a_code_in_the_target_is_told_once(lab: Lab) -> None:
    profile = table(lab, mixed(RNG.normal(50, 5, ROWS), -9999, 120))
    assert finding(profile, "sentinel_values", "price")
    assert "extreme_targets" not in {found.code for found in profile.warnings}


@pytest.mark.parametrize(
    "values",
    [
        mixed(RNG.normal(5000, 10, ROWS), 0, 10),
        mixed(RNG.uniform(0, 2, ROWS), 100, 20),
        mixed(RNG.uniform(0, 0.1, ROWS), 10, 20),
        np.where(np.arange(ROWS) % 2, 0.0, 9999.0),
        mixed(np.where(np.arange(ROWS) % 2, 0.0, 1.0), 9999, 10),
        RNG.choice([500.0, 1000, 1500, 2000, 25_000], ROWS),
        mixed(AGES, -999, 300),
        HEAVY,
        np.round(HEAVY, -4),
        np.minimum(HEAVY, 60_000),
        COUNTS,
        np.where(RNG.random(ROWS) < 0.9, 0, COUNTS * 50),
        mixed(AGES, np.nan, 3),
        np.full(ROWS, np.nan),
        np.full(ROWS, 7.0),
    ],
    ids=[
        "zeros", "per cent", "a scale's end", "two values", "a code of three", "a few amounts", "seldom", "heavy tail",
        "round amounts", "a cap", "counts", "mostly zero", "missing", "all missing", "constant",
    ],
)  # fmt: skip
def test_honest_numbers_are_no_codes(values: np.ndarray) -> None:
    assert sentinels(values[~np.isnan(values)]) == []


def test_few_values_that_make_a_targets_variance_are_named(lab: Lab) -> None:
    prices = RNG.normal(50, 5, ROWS)
    prices[[4, 700]] = [60_000, -45_000.5]
    found = finding(table(lab, prices), "extreme_targets", "price")
    assert "2 of 1,000 values of 'price' make 99.99" in found.message
    assert "60,000 in row 5, -45,000.5 in row 701." in found.message
    assert "objective.metric to mae" in found.meaning
    assert found.rows == (5, 701) and found.severity is Severity.WARNING


@pytest.mark.parametrize(
    "prices",
    [
        HEAVY,
        np.r_[RNG.normal(50, 5, ROWS - 1), 130],
        mixed(RNG.normal(50, 5, ROWS), 60_000.0, 50) + RNG.normal(0, 900, ROWS) * (np.arange(ROWS) % 50 == 0),
        np.where(np.arange(ROWS) < 5, 5000.0, 0) + (np.arange(ROWS) < 3),
    ],
    ids=["heavy tail", "little of the variance", "too many", "nearly all the same"],
)
def test_a_target_without_such_values_is_not_told(lab: Lab, prices: np.ndarray) -> None:
    profile = table(lab, prices)
    assert "extreme_targets" not in {found.code for found in profile.warnings}


def test_far_class_numbers_are_none_of_an_amount(lab: Lab) -> None:
    classes = mixed(np.arange(ROWS) % 5, 999, 20)
    profile = table(lab, classes)
    column = profile.column("price")
    assert column and column.type is ColumnType.NUMERIC and profile.task == "tabular_classification"
    assert not {"sentinel_values", "extreme_targets"} & {found.code for found in profile.warnings}
