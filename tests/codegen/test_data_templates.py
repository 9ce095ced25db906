"""Data templates: what is learned from training rows only, transforms, bad rows, augmentation."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from codegen import reading
from codegen.profile.types import ColumnType
from codegen.reading import table_shape
from tests.codegen.data_tables import ROWS, TABULAR, load_table, make_table, table_spec
from tests.codegen.model_profiles import column
from tests.codegen.programs import module
from worker.runtime.onnx_export import predict_table

IMAGES = module("data_images.py")


@pytest.mark.parametrize("template", [TABULAR, IMAGES, reading])
def test_classes_have_the_same_numbers_on_every_rank_whatever_they_are_called(template):
    names = ["10", "nan", "2", "inf", "-nan", "cat"]
    for order in itertools.permutations(names):
        assert sorted(order, key=template.natural_order) == ["2", "10", "inf", "-nan", "cat", "nan"]


def test_inputs_have_one_column_per_feature_in_the_order_of_the_shape(tmp_path):
    dataset = load_table(tmp_path, make_table())
    numeric, categorical = dataset.train.inputs
    features = ["age", "age: missing", "hours", "joined: days", "joined: year", "joined: month", "joined: weekday"]
    assert dataset.shape["features"] == features
    assert numeric.shape == (len(dataset.train), len(features))
    assert numeric.dtype == torch.float32
    assert categorical.shape == (len(dataset.train), 1)
    missing = torch.tensor([row % 10 == 0 for row in dataset.train.rows.tolist()])
    assert torch.equal(numeric[:, 1].bool(), missing)
    assert torch.isfinite(numeric).all()
    assert dataset.shape["cardinalities"] == [5]  # three towns, any other, none


def categories(folder, cities, read=None):
    """Numbers of these cities (of `read`, where it is given) by a table of them, and how many numbers there are."""
    table = make_table().set_column(2, "city", pa.array([cities[row % len(cities)] for row in range(ROWS)]))
    dataset = load_table(folder, table)
    rows = table.slice(0, len(read or cities)).set_column(2, "city", pa.array(read or cities, pa.string()))
    return TABULAR.transform(dataset.preprocess, rows)[1][:, 0].tolist(), dataset.shape["cardinalities"]


def test_a_missing_category_is_told_from_one_never_seen(tmp_path):
    assert categories(tmp_path, ["a", "a", "b", None], ["a", "b", "c", None]) == ([1, 2, 0, 3], [4])


def test_whether_a_value_is_missing_may_be_all_that_there_is_to_learn_from(tmp_path):
    assert categories(tmp_path, ["a", None], ["a", "c", None]) == ([1, 0, 2], [3])


def test_where_hardly_any_training_row_lacks_it_a_missing_category_is_as_one_never_seen(tmp_path):
    assert categories(tmp_path, ["a", "b", "b"], ["a", "b", "c", None]) == ([2, 1, 0, 0], [3])


def test_the_inputs_of_a_row_are_those_that_the_spec_names(tmp_path):
    table = make_table()
    joined = [None if row % 7 == 0 else moment for row, moment in enumerate(table["joined"].to_pylist())]
    joined = [moment and moment + dt.timedelta(hours=row % 5) for row, moment in enumerate(joined)]
    words = np.random.default_rng(0).integers(0, 99, (ROWS, 3))
    note = [None if row % 5 == 0 else " ".join(map(str, words[row][: row % 3 + 1])) for row in range(ROWS)]
    table = table.set_column(3, "joined", pa.array(joined)).set_column(4, "note", pa.array(note))
    missing = {"age": ROWS // 10, "hours": 0, "joined": 58, "note": ROWS // 5}
    kinds = {"age": "numeric", "hours": "numeric", "joined": "date", "note": "text"}
    shape = table_shape([column(name, ColumnType(kinds[name]), missing=missing[name]) for name in kinds], ROWS)
    dataset = load_table(tmp_path, table, **shape)
    numeric, rows = dataset.train.inputs[0], dataset.train.rows
    assert dataset.shape["features"] == shape["features"] and numeric.shape[1] == len(shape["features"])
    for name, every in (("age", 10), ("joined", 7), ("note", 5)):
        told = numeric[:, shape["features"].index(f"{name}: missing")]
        assert torch.equal(told.bool(), rows % every == 0)


def test_the_hour_of_a_time_is_an_input_of_its_own(tmp_path):
    moments = [dt.datetime(2020, 1, 1 + row // 48 % 28) + dt.timedelta(minutes=30 * (row % 48)) for row in range(ROWS)]
    dataset = load_table(tmp_path, make_table().set_column(3, "joined", pa.array(moments)))
    hours = dataset.train.inputs[0][:, dataset.shape["features"].index("joined: hour")]
    order = (dataset.train.rows % 48).float()
    assert torch.corrcoef(torch.stack([hours, order]))[0, 1] > 0.98


def test_prediction_prepares_rows_exactly_as_training_did(tmp_path):
    table = make_table()
    dataset = load_table(tmp_path, table)
    preprocess = json.loads(json.dumps(dataset.preprocess))
    records = table.take(pa.array(dataset.test.rows.numpy())).drop_columns(["income", "price"])
    for ours, theirs in zip(TABULAR.transform(preprocess, records), dataset.test.inputs, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("factor", [1, 10], ids=["quartiles", "ranks"])
def test_only_training_rows_shape_the_preparation(tmp_path, factor):
    table = make_table(ROWS * factor)
    dataset = load_table(tmp_path, table)
    hours = table["hours"].to_numpy().copy()
    hours[dataset.test.rows.numpy()] = 10**6
    changed = load_table(tmp_path, table.set_column(1, "hours", pa.array(hours)))
    assert changed.preprocess["numeric"] == dataset.preprocess["numeric"]
    assert changed.test.inputs[0].abs().max() < 20


@pytest.mark.parametrize("factor", [1, 10], ids=["quartiles", "ranks"])
def test_scaled_numbers_are_about_normal(tmp_path, factor):
    dataset = load_table(tmp_path, make_table(ROWS * factor))
    hours = dataset.train.inputs[0][:, 2]
    assert abs(hours.mean().item()) < 0.2
    assert 0.6 < hours.std().item() < 1.4


def test_regression_targets_are_standardised_by_training_rows(tmp_path):
    dataset = load_table(tmp_path, make_table(), task="tabular_regression", target="price")
    assert dataset.train.targets.dtype == torch.float32
    assert abs(dataset.train.targets.mean().item()) < 1e-4
    assert dataset.train.targets.std().item() == pytest.approx(1, abs=0.01)
    assert dataset.target_mean == pytest.approx(1000, abs=10)
    assert dataset.shape["outputs"] == 1


def test_numbers_to_predict_are_kept_as_the_table_has_them_and_classes_are_kept_once(tmp_path):
    table = make_table()
    dataset = load_table(tmp_path, table, task="tabular_regression", target="price")
    for part in (dataset.train, dataset.val, dataset.test):
        assert part.values.numpy().tolist() == table["price"].take(pa.array(part.rows.numpy())).to_pylist()
    assert load_table(tmp_path, table).train.values is None


def test_rows_without_a_target_are_left_out_and_row_numbers_stay_those_of_the_file(tmp_path):
    table = make_table()
    income = table["income"].to_pylist()
    income[0] = income[7] = None
    dataset = load_table(tmp_path, table.set_column(5, "income", pa.array(income)))
    rows = set(torch.cat([dataset.train.rows, dataset.val.rows, dataset.test.rows]).tolist())
    assert rows == set(range(ROWS)) - {0, 7}


def test_whole_numbers_as_classes_are_named_and_ordered_as_numbers(tmp_path):
    numbers = pa.array([float(index % 12) for index in range(ROWS)])
    dataset = load_table(tmp_path, make_table().set_column(5, "income", numbers))
    assert list(dataset.classes) == [str(number) for number in range(12)]


def test_a_missing_column_is_named(tmp_path):
    preprocess = load_table(tmp_path, make_table()).preprocess
    with pytest.raises(ValueError, match="hours"):
        TABULAR.transform(preprocess, make_table().drop_columns(["hours"]))


def test_text_in_a_number_column_is_named(tmp_path):
    preprocess = load_table(tmp_path, make_table()).preprocess
    records = make_table().slice(0, 1).set_column(1, "hours", pa.array(["many"]))
    with pytest.raises(ValueError, match=r"hours.*many"):
        TABULAR.transform(preprocess, records)


def test_whole_numbers_beyond_the_exact_ones_are_read_as_those_of_training_were(tmp_path):
    preprocess = load_table(tmp_path, make_table()).preprocess
    records = make_table().slice(0, 1).set_column(1, "hours", pa.array([2**60 + 1]))
    assert torch.isfinite(TABULAR.transform(preprocess, records)[0]).all()


def test_numbers_and_dates_given_as_text_are_read(tmp_path):
    table = make_table()
    preprocess = load_table(tmp_path, table).preprocess
    few = table.slice(0, 3)
    texts = few.set_column(1, "hours", few["hours"].cast(pa.string()))
    texts = texts.set_column(3, "joined", pa.array(["2020-01-01", "2020-01-02", "2020-01-03"]))
    for ours, theirs in zip(TABULAR.transform(preprocess, texts), TABULAR.transform(preprocess, few), strict=True):
        assert torch.equal(ours, theirs)


def test_what_never_changes_in_the_training_rows_is_no_input(tmp_path):
    table = make_table().set_column(0, "age", pa.array([None] * ROWS, pa.float64()))
    table = table.set_column(2, "city", pa.array(["here"] * ROWS))
    rows = load_table(tmp_path, table).train.rows.numpy()
    hours = np.where(np.isin(np.arange(ROWS), rows), 5, 7)
    dataset = load_table(tmp_path, table.set_column(1, "hours", pa.array(hours)))
    assert dataset.shape["features"] == ["joined: days", "joined: year", "joined: month", "joined: weekday"]
    assert dataset.shape["cardinalities"] == dataset.shape["categorical"] == []
    for part in (dataset.train, dataset.val, dataset.test):
        assert part.inputs[0].shape == (len(part), 4) and part.inputs[1].shape == (len(part), 0)
    assert (dataset.train.inputs[0].std(0) > 0).all()
    records = table.select(["joined"]).slice(0, 3)  # what is no input is not asked for
    assert torch.equal(
        TABULAR.transform(dataset.preprocess, records)[0], TABULAR.transform(dataset.preprocess, table.slice(0, 3))[0]
    )


def test_a_table_in_which_nothing_changes_has_no_inputs(tmp_path):
    shape = {"numeric": ["hours"], "indicators": [], "dates": [], "texts": [], "categorical": []}
    dataset = load_table(tmp_path, make_table().set_column(1, "hours", pa.array([5] * ROWS)), **shape)
    assert [tensor.shape[1] for tensor in dataset.train.inputs] == [0, 0]


def test_values_far_beyond_those_of_training_stay_far(tmp_path):
    preprocess = load_table(tmp_path, make_table()).preprocess
    far = make_table().slice(0, 2).set_column(0, "age", pa.array([1e200, -1e300]))
    assert TABULAR.transform(preprocess, far)[0][:, 0].tolist() == pytest.approx([3, -3])


LARGEST = float(np.finfo(np.float64).max)
"""Programs write it for a value that they do not have."""


@pytest.mark.parametrize("usual", [[1e-9, 2e-9, 3e-9, 4e-9], [0.5, 1.0, 1.5, 2.0], [0.0] * 4, [-LARGEST] * 4])
def test_the_largest_number_there_is_spoils_no_input(tmp_path, usual):
    ages = [LARGEST if row % 9 == 0 else usual[row % 4] for row in range(ROWS)]
    table = make_table().set_column(0, "age", pa.array(ages))
    dataset = load_table(tmp_path, table)
    numeric = TABULAR.transform(json.loads(json.dumps(dataset.preprocess, allow_nan=False)), table)[0][:, 0]
    assert torch.isfinite(numeric).all() and numeric[0] > 0.9 and numeric.abs().max() <= 3


@pytest.mark.parametrize("value", [LARGEST, -LARGEST])
def test_a_row_with_the_largest_number_there_is_gets_an_answer(value):
    column = {"scaling": "quartiles", "median": 1e-3, "scale": 1e-3}
    for scaled in (TABULAR.scale, predict_table.scaled):
        assert scaled(column, np.array([value])).tolist() == pytest.approx([np.copysign(3, value)])


def test_a_table_without_categories_or_without_numbers_loads(tmp_path):
    no_categories = load_table(tmp_path, make_table(), categorical=[])
    assert no_categories.train.inputs[1].shape == (len(no_categories.train), 0)
    no_numbers = load_table(tmp_path, make_table(), numeric=[], indicators=[], dates=[], texts=[])
    assert no_numbers.train.inputs[0].shape == (len(no_numbers.train), 0)


def test_a_table_is_never_in_memory_as_a_whole_beside_what_is_made_of_it(tmp_path):
    rows, names = 100_000, [f"number {column}" for column in range(40)]
    generator = np.random.default_rng(0)
    table = pa.table({name: generator.normal(size=rows) for name in names} | {"income": ["high", "low"] * (rows // 2)})
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=10_000)
    spec = table_spec(numeric=names, indicators=[], dates=[], texts=[], categorical=[])
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        TABULAR.load(spec, tmp_path)
        arrays_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert 0 < counted.max_memory() < table.nbytes / 3
    assert 0 < arrays_bytes < table.nbytes * 2 / 3  # blocks, and what sorts the rows; no tensors
