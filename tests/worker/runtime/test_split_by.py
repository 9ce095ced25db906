"""Splits by group and by time: which rows lie in which part, whatever the table."""

from __future__ import annotations

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.runtime.data import DataError
from worker.runtime.split import PARTS
from worker.runtime.split_by import said_of_classes, split_groups, split_times

SHARES = st.sampled_from([(0.15, 0.15), (0.1, 0.2), (0.3, 0.3), (0.0, 0.2), (0.2, 0.0), (0.45, 0.5), (0.0, 0.0)])
GROUPED = st.lists(st.integers(1, 30), min_size=3, max_size=60)
"""Rows of each group."""
TIMES = st.lists(st.integers(0, 40), min_size=3, max_size=200).filter(lambda times: len(set(times)) >= 3)


def grouped(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Group numbers [N], in any order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def a_table(values: object) -> pa.Table:
    """In several chunks, as a large file is read."""
    whole = pa.table({"key": values})
    return pa.concat_tables([whole.slice(0, 7), whole.slice(7)])


def refused(action) -> str:
    with pytest.raises(DataError) as caught:
        action()
    assert caught.value.hint
    return caught.value.message


@given(GROUPED, SHARES, st.integers(0, 2**32 - 1))
def test_no_group_lies_in_two_parts_and_every_row_in_one(sizes, shares, seed):
    groups = grouped(sizes)
    parts = split_groups(a_table(groups), "key", *shares, seed).parts
    assert tuple(parts) == PARTS
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(groups)))
    of_parts = [set(groups[rows]) for rows in parts.values()]
    assert sum(map(len, of_parts)) == len(sizes)
    assert [len(rows) > 0 for rows in parts.values()] == [True, shares[0] > 0, shares[1] > 0]


@given(GROUPED, SHARES, st.integers(0, 100))
def test_parts_of_groups_are_as_large_as_asked_but_for_two_groups(sizes, shares, seed):
    groups = grouped(sizes)
    parts = split_groups(a_table(groups), "key", *shares, seed).parts
    most = sum(sorted(sizes)[-2:])
    for part, share in zip(PARTS, (1 - sum(shares), *shares), strict=True):
        assert abs(len(parts[part]) - share * len(groups)) <= most


@given(GROUPED, st.integers(0, 100), st.data())
def test_each_class_keeps_a_group_to_train_on(sizes, seed, data):
    groups = grouped(sizes)
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups))))
    labels = np.unique(labels, return_inverse=True)[1]
    try:
        parts = split_groups(a_table(groups), "key", 0.2, 0.2, seed, labels).parts
    except DataError as error:
        assert "each class needs one to train on" in error.message
        return
    assert set(labels[parts["train"]]) == set(labels)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(groups)))
    assert sum(len(set(groups[rows])) for rows in parts.values()) == len(sizes)


@pytest.mark.parametrize("seed", range(5))
def test_classes_are_shared_out_about_evenly_over_groups_of_one_class_each(seed):
    generator = np.random.default_rng(seed)
    of_group = (generator.random(200) < 0.1).astype(np.int64)
    groups = generator.integers(0, 200, 4000)
    labels = of_group[groups]
    parts = split_groups(a_table(groups), "key", 0.15, 0.2, seed, labels).parts
    for label, rows in enumerate(np.bincount(labels)):
        assert np.count_nonzero(labels[parts["test"]] == label) == pytest.approx(0.2 * rows, abs=30)
        assert np.count_nonzero(labels[parts["val"]] == label) == pytest.approx(0.15 * rows, abs=30)


def test_groups_are_dealt_the_same_for_the_same_seed_and_otherwise_for_another():
    table = a_table(grouped([3, 4, 5, 6] * 20))
    first, again, other = (split_groups(table, "key", 0.2, 0.2, seed).parts for seed in (1, 1, 2))
    assert all(np.array_equal(first[part], again[part]) for part in PARTS)
    assert not np.array_equal(first["test"], other["test"])


def test_rows_without_a_group_are_one_group_and_told():
    found = split_groups(a_table([None, "a", "b", None, "c", "d"] * 5), "key", 0.2, 0.2, 0)
    homes = [part for part, rows in found.parts.items() if 0 in rows or 3 in rows]
    assert len(homes) == 1
    assert "10 rows without a value count as one group." in found.said
    assert found.said.startswith("All rows of one 'key' lie in one part: ")


@given(TIMES, SHARES)
def test_no_row_is_earlier_than_one_of_an_earlier_part(times, shares):
    moments = np.array(times)
    parts = split_times(a_table(moments), "key", *shares).parts
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(times)))
    there = [moments[parts[part]] for part in PARTS if len(parts[part])]
    assert len(there) == 1 + (shares[0] > 0) + (shares[1] > 0)
    for earlier, later in itertools.pairwise(there):
        assert earlier.max() < later.min()  # strictly: rows of one moment lie in one part


@given(st.integers(20, 300), SHARES, st.integers(0, 5))
def test_parts_in_time_are_as_large_as_asked_where_no_two_rows_are_of_one_moment(rows, shares, seed):
    moments = np.random.default_rng(seed).permutation(rows)
    parts = split_times(a_table(moments), "key", *shares).parts
    for part, share in (("val", shares[0]), ("test", shares[1])):
        assert abs(len(parts[part]) - share * rows) <= 1


@given(TIMES)
def test_a_boundary_in_time_lies_at_the_nearest_change_of_the_moment(times):
    moments = np.array(times)
    first = moments[split_times(a_table(moments), "key", 0, 0.25).parts["test"]].min()
    off = {
        moment: abs(np.count_nonzero(moments < moment) - 0.75 * len(moments)) for moment in set(times) - {min(times)}
    }
    assert off[first] == min(off.values())


@pytest.mark.parametrize(
    "values",
    [
        [dt.datetime(2024, 1, 1) + dt.timedelta(hours=9 * hour) for hour in range(20)],
        [f"{number:03d}" for number in range(20)],
        [number / 7 for number in range(20)],
        [2**60 + number for number in range(20)],
        [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(20)],
    ],
    ids=["moments", "counted rows", "fractions", "large numbers", "days"],
)
def test_every_kind_of_time_is_put_in_order(values):
    found = split_times(a_table(values[::-1]), "key", 0.2, 0.2)
    assert {part: rows.tolist() for part, rows in found.parts.items()} == {
        "train": list(range(8, 20)),
        "val": list(range(4, 8)),
        "test": list(range(4)),
    }


def test_the_split_in_time_names_the_last_moment_of_each_part():
    days = [dt.datetime(2024, 1, 1) + dt.timedelta(days=day) for day in range(10)]
    said = split_times(a_table(days), "key", 0.2, 0.2).said
    assert said == (
        "In the order of 'key', the latest rows last: 6 rows up to 2024-01-06 to train on, 2 rows up to 2024-01-08 "
        "to validate, 2 rows up to 2024-01-10 to test."
    )


def test_what_cannot_be_split_is_refused_by_field():
    few, some = a_table(["a", "b"] * 6), a_table([1.0, None] * 6)
    assert "has 2 groups, and 3 parts" in refused(lambda: split_groups(few, "key", 0.2, 0.2, 0))
    assert "no column 'day'" in refused(lambda: split_groups(few, "day", 0.2, 0.2, 0))
    assert "no column 'day'" in refused(lambda: split_times(few, "day", 0.2, 0.2))
    assert "6 rows have no 'key'" in refused(lambda: split_times(some, "key", 0.2, 0.2))
    assert "1 row has no 'key'" in refused(lambda: split_times(a_table([1.0, float("nan"), 2.0]), "key", 0.2, 0.2))
    assert "neither dates nor numbers, for example 'a'" in refused(lambda: split_times(few, "key", 0.2, 0.2))
    moments = a_table([dt.datetime(2024, 1, 1)] * 12)
    assert "has 1 moment, and 2 parts" in refused(lambda: split_times(moments, "key", 0, 0.2))
    each = a_table(["a", "b", "c"] * 4)
    message = refused(lambda: split_groups(each, "key", 0.2, 0.2, 0, np.array([0, 1, 2] * 4)))
    assert message.startswith("data.split.column: no group of 'key' is left for the ")


def test_a_class_that_training_lacks_is_refused_and_one_that_the_test_lacks_is_told():
    targets = np.array([0, 0, 1, 1, 0, 2])
    parts = {"train": np.arange(4), "val": np.array([4]), "test": np.array([5])}
    message = refused(lambda: said_of_classes(parts, targets, ["x", "y", "z"]))
    assert message == "data.split.by: no training row is of class 'z', so the model could not learn it."
    parts = {"train": np.array([0, 2, 5]), "val": np.array([1, 3, 4]), "test": np.empty(0, np.int64)}
    assert said_of_classes(parts, targets, ["x", "y", "z"]) == " No validation row is of class 'z'."
    assert said_of_classes(parts, np.zeros(6), []) == ""
