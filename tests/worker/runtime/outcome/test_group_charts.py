"""How good a model is by group of rows: the groups, the intervals, the order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from worker.runtime.outcome.group_charts import LEAST_ROWS, MOST_ROWS, accuracy_by_group, error_by_group
from worker.runtime.outcome.groups import BINS, CATEGORIES, FEATURES, LABEL_LENGTH, groups

ROWS = 600


def named(**columns: object) -> dict[str, int]:
    """The groups of some columns, with their rows."""
    return {group.values: int(group.inside.sum()) for group in groups(pa.table(columns))}


def test_every_row_is_in_one_group_of_each_feature() -> None:
    random = np.random.default_rng(0)
    table = pa.table({
        "number": np.where(random.random(ROWS) < 0.2, np.nan, random.normal(size=ROWS)),
        "mostly zero": np.where(random.random(ROWS) < 0.7, 0.0, random.exponential(size=ROWS)),
        "around five": np.where(random.random(ROWS) < 0.3, 5.0, random.normal(5.0, 3.0, ROWS)),
        "whole": random.integers(0, 100, ROWS),
        "day": pa.array(random.integers(0, 9999, ROWS).astype("datetime64[D]")),
        "category": [None if at % 40 == 39 else f"c{at % 40}" for at in range(ROWS)],
        "text": [f"{'word ' * (at % 30)}{at}" for at in range(ROWS)],
        "flag": random.random(ROWS) < 0.5,
        "nothing": pa.array([None] * ROWS, pa.float64()),
        "no text": pa.array([None] * ROWS, pa.string()),
        "endless": [np.inf if at % 2 else float(at) for at in range(ROWS)],
    })  # fmt: skip
    covered = {name: np.zeros(ROWS, int) for name in table.column_names}
    for group in groups(table):
        covered[group.feature] += group.inside
    for name, times in covered.items():
        assert (times == 1).all(), name


def test_a_number_with_two_values_has_two_groups() -> None:
    """Fifths of it would have the same ends, and be one group of all rows."""
    assert named(flag=[0, 1, 1] * 100) == {"0": 100, "1": 200}


def test_a_value_that_most_rows_have_is_a_group_of_its_own() -> None:
    gain = [0.0] * 450 + list(np.linspace(100.0, 900.0, 150))
    found = named(gain=gain)
    assert found.pop("0") == 450
    assert len(found) == BINS - 1 and sum(found.values()) == 150 and not any("without" in name for name in found)


def test_a_range_tells_which_value_inside_it_is_not_meant() -> None:
    assert any(name.endswith("without 5") for name in named(number=[5.0] * 200 + list(np.linspace(0.0, 17.0, 301))))


def test_few_rows_make_fewer_parts() -> None:
    """Fifths of 36 rows would all be too small to tell anything."""
    found = named(number=list(np.linspace(0.0, 1.0, 36)))
    assert list(found.values()) == [18, 18]


def test_rare_categories_are_together_and_missing_ones_are_apart_from_the_word() -> None:
    texts = ["missing"] * 50 + [None] * 30 + [f"c{at % 15}" for at in range(450)]
    found = [(group.values, int(group.inside.sum())) for group in groups(pa.table({"city": texts}))]
    assert len(found) == CATEGORIES + 2
    assert found[0] == ("missing", 50) and found[-2:] == [("6 other values", 180), ("missing", 30)]


def test_texts_are_grouped_by_length_and_days_by_parts_of_the_time() -> None:
    lengths = named(note=["x" * (at % 60) + f"{at:04}" for at in range(ROWS)])
    assert all(name.endswith(" characters") for name in lengths)
    days = named(day=pa.array(np.arange(ROWS).astype("datetime64[D]")))
    assert len(days) == BINS and next(iter(days)).startswith("1970-01-01 to 1970-0")
    hours = pa.array(np.array(["2020-02-29T01", "2020-03-01T23"] * 9, "datetime64[s]"))
    assert named(hour=hours) == {"2020-02-29": 9, "2020-03-01": 9}


def test_values_that_nobody_reads_make_no_groups() -> None:
    assert named(blob=pa.array([b"\xff"] * 20), pair=pa.array([[1, 2]] * 20), deep=pa.array([{"a": 1}] * 20)) == {}


def test_a_long_category_is_cut() -> None:
    assert max(map(len, named(text=["x" * 5000, "y"] * 50))) == LABEL_LENGTH


def test_the_surely_worst_group_leads_not_the_smallest() -> None:
    """A dozen rows of which half are wrong by chance say less than two hundred of which a third are."""
    wrong = [True] * 70 + [False] * 130 + [True] * 6 + [False] * 6 + [False] * 388
    kind = ["worse"] * 200 + ["small"] * 12 + ["good"] * 388
    chart = accuracy_by_group(~np.array(wrong), pa.table({"kind": kind}))
    assert [row[1] for row in chart["rows"]] == ["worse", "small", "good"]
    assert chart["rows"][0] == [
        "kind",
        "worse",
        0.65,
        pytest.approx(0.582, abs=1e-3),
        pytest.approx(0.713, abs=1e-3),
        200,
    ]
    assert chart["overall"] == pytest.approx(524 / 600)
    assert "the accuracy is 0.8733. 2 of 3 groups are worse than that by more than the interval" in chart["note"]


def test_errors_of_a_number_lead_with_the_largest_and_tell_their_lean() -> None:
    random = np.random.default_rng(2)
    north = np.arange(ROWS) % 3 == 0
    residuals = np.where(north, 3.0, 0.0) + random.normal(size=ROWS)
    chart = error_by_group(residuals, pa.table({"side": np.where(north, "north", "south")}))
    columns = ["feature", "values", "rmse", "low", "high", "rows", "mean_absolute_error", "mean_error"]
    assert chart["columns"] == columns
    first = dict(zip(columns, chart["rows"][0], strict=True))
    assert (first["values"], first["rows"]) == ("north", 200) and first["low"] < 10**0.5 < first["high"]
    assert first["mean_error"] == pytest.approx(3.0, abs=0.3) and "the RMSE is" in chart["note"]


def test_small_groups_and_a_group_of_all_rows_are_left_out() -> None:
    kind = ["a"] * (LEAST_ROWS - 1) + ["b"] * 100
    chart = accuracy_by_group(np.ones(len(kind), bool), pa.table({"kind": kind, "same": ["x"] * len(kind)}))
    assert [row[:2] for row in chart["rows"]] == [["kind", "b"]]


def test_without_rows_enough_it_is_said() -> None:
    chart = error_by_group(np.array([0.5]), pa.table({"a": [1.0]}))
    assert chart["rows"] == [] and chart["note"] == "No group has rows enough to tell." and chart["overall"] == 0.5


def test_of_many_rows_and_many_features_some_are_looked_at() -> None:
    rows = MOST_ROWS + 500
    table = pa.table({f"f{at}": np.arange(rows) % 2 for at in range(FEATURES + 1)})
    chart = accuracy_by_group(np.arange(rows) % 4 > 0, table)
    assert len(chart["rows"]) == 2 * FEATURES and chart["rows"][0][-1] < MOST_ROWS
    assert (
        f"{MOST_ROWS:,}, evenly spaced" in chart["note"]
        and f"first {FEATURES} of {FEATURES + 1} features" in chart["note"]
    )


def test_large_numbers_are_written_whole_not_as_powers_of_ten() -> None:
    table = pa.table({"square_feet": np.linspace(9_999.7, 178_000.0, 60)})
    labels = [row[1] for row in error_by_group(np.linspace(-1.0, 2.0, 60), table)["rows"]]
    assert any(label.startswith("10000 to ") for label in labels) and not any("e+" in label for label in labels)
    chart = error_by_group(np.full(60, 194_900.0), table)
    assert "the RMSE is 194,900. " in chart["note"]
