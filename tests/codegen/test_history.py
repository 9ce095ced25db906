"""Examples of time series: what each knows, in which part it lies, what it is measured by."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen import spec_yaml
from codegen.resolve import resolve
from tests.codegen.model_profiles import TWO_CORES
from tests.codegen.programs import module, program_spec
from tests.codegen.time_series import days, profiled, rising, shops
from worker.runtime.data import DataError
from worker.runtime.series_rows import read_series, series_coming
from worker.runtime.tables import InputError

HISTORY = module("history.py")


def read(folder: Path, table: pa.Table, text: str = ""):
    """(examples, parts, about, split) of a table that is uploaded and resolved as a forecast."""
    profile = profiled(folder / "data", table)
    spec = resolve(spec_yaml.load(f"task: forecast\n{text}"), profile, TWO_CORES).spec
    return HISTORY.read(program_spec(spec), pq.read_table(folder / "data" / "table.parquet"))


def test_no_example_knows_what_comes_after_it_is_made(tmp_path: Path) -> None:
    table = rising()
    examples, *_ = read(tmp_path, table)
    values = table["sold"].to_numpy()
    steps = examples.moments["steps ahead"].to_numpy()
    origins = examples.rows - steps
    last, seven = (
        examples.inputs[f"sold: {name}"].to_numpy() for name in ("last value", "7 steps before, above the last")
    )
    assert np.allclose(last, values[origins])
    place = examples.rows - 7 * -(-steps // 7)
    known = place >= 0
    assert (place <= origins).all() and np.isnan(seven[~known]).all()
    assert np.allclose(seven[known], (values[place] - values[origins])[known])
    change = examples.inputs["sold: change over 3 steps"].to_numpy()
    assert np.allclose(change, values[origins] - values[origins - 3])

    changed = values.copy()
    changed[300:] += 1000
    other, *_ = read(tmp_path, pa.table({"day": table["day"], "sold": changed}))
    early = origins < 300
    for name in examples.inputs.column_names:
        assert np.allclose(
            examples.inputs[name].to_numpy()[early], other.inputs[name].to_numpy()[early], equal_nan=True
        ), name


def test_parts_follow_one_another_by_the_moment_that_is_foretold(tmp_path: Path) -> None:
    examples, parts, _, said = read(tmp_path, rising())
    train, val, test = (examples.rows[parts[part]] for part in ("train", "val", "test"))
    assert train.max() < val.min() and val.max() < test.min()
    assert len(set(test)) == 80 and "up to" in said
    steps = examples.moments["steps ahead"].to_numpy()
    assert sorted(set(steps[parts["test"]])) == list(range(1, 15))


def test_the_step_does_not_tell_the_weekday() -> None:
    about = {"horizon": 7, "history": 3}
    rows = HISTORY.in_order(rising(), {"time": "day", "target": "sold", "series": "", "numeric": [], "categorical": []})
    origins, targets = HISTORY.pairs_of(rows, np.arange(20, 400), about, 1, np.random.default_rng(0))
    weekdays = {step: set((targets[targets - origins == step] % 7).tolist()) for step in range(1, 8)}
    assert all(len(found) == 7 for found in weekdays.values())


def test_a_rising_series_is_learned_as_a_difference(tmp_path: Path) -> None:
    examples, parts, about, _ = read(tmp_path, rising())
    left = examples.values - examples.base
    assert about["base"] == {"of": "season", "steps": 7}
    assert np.abs(left[parts["test"]]).max() < 25 < examples.values[parts["train"]].std()


def test_series_keep_to_themselves(tmp_path: Path) -> None:
    examples, parts, about, _ = read(tmp_path, shops())
    assert about["series"] == "shop" and examples.inputs.column_names[-2:] == ["rain", "shop"]
    assert examples.inputs["shop"].to_pylist() == examples.moments["series"].to_pylist()
    last = examples.inputs["sold: last value"].to_numpy()
    north = np.array([name == "north" for name in examples.inputs["shop"].to_pylist()])
    assert last[north].min() == 50 and last[north].max() == 170
    assert set(examples.moments.take(parts["test"])["series"].to_pylist()) == {"north", "south", "west"}


def test_missing_values_are_neither_foretold_nor_gone_on_from(tmp_path: Path) -> None:
    table = rising()
    values = [None if row in (50, 51, 399) else value for row, value in enumerate(table["sold"].to_pylist())]
    examples, _, about, _ = read(tmp_path, pa.table({"day": table["day"], "sold": values}))
    assert not {50, 51, 399} & set(examples.rows.tolist())
    assert np.isfinite(examples.inputs["sold: last value"].to_numpy()).all()
    _, _, labels, _ = HISTORY.coming(about)
    assert labels[0][1] == "2021-02-03"  # row 399 is the 3rd: it has no value, and is foretold itself


def test_rows_of_one_moment_are_refused() -> None:
    about = {"time": "day", "target": "sold", "series": "", "numeric": [], "categorical": []}
    table = pa.table({"day": [*days(10), *days(10)], "sold": np.arange(20.0)})
    with pytest.raises(DataError, match="same 'day'"):
        HISTORY.in_order(table, about)


def test_newer_rows_go_on_from_those_that_are_kept(tmp_path: Path) -> None:
    *_, about, _ = read(tmp_path, rising())
    about = json.loads(json.dumps(about))
    inputs, base, labels, past = HISTORY.coming(about)
    assert labels[0] == ["", "2021-02-04", 1] and len(labels) == len(base) == inputs.num_rows == 14
    newer = pa.table({"day": days(3, datetime(2021, 2, 3)), "sold": [0.0, 1.0, 2.0]})
    inputs, _, labels, later = HISTORY.coming(about, newer)
    assert labels[0][1] == "2021-02-06" and later.num_rows == past.num_rows + 2
    assert inputs["sold: last value"][0].as_py() == 2.0
    assert later["sold"].to_pylist()[-3:] == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="rows are missing between 2021-02-03, where the data ends, and 2021-04-01"):
        HISTORY.coming(about, pa.table({"day": days(30, datetime(2021, 4, 1)), "sold": np.arange(30.0)}))
    with pytest.raises(ValueError, match="column missing from the input: sold"):
        HISTORY.coming(about, pa.table({"day": days(3)}))


def test_rows_behind_the_last_known_value_do_not_take_its_place(tmp_path: Path) -> None:
    planned = pa.table({"day": days(40, datetime(2021, 2, 4)), "sold": pa.nulls(40, pa.float64())})
    *_, about, _ = read(tmp_path, pa.concat_tables([rising(), planned]), "data: {split: {validation: 0.1, test: 0.1}}")
    _, _, labels, past = HISTORY.coming(json.loads(json.dumps(about)))
    assert labels[0][1] == "2021-02-04" and past["sold"].null_count == 0


def test_of_few_rows_each_is_tried_as_often_as_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HISTORY, "TESTED", 240)
    profile = profiled(tmp_path / "data", rising())
    spec = program_spec(resolve(spec_yaml.load("task: forecast"), profile, TWO_CORES).spec)
    table = pq.read_table(tmp_path / "data" / "table.parquet")
    for rows in (400, 200):
        examples, parts, *_ = HISTORY.read(spec, table.slice(0, rows))
        assert len(parts["test"]) == 3 * len(set(examples.rows[parts["test"]].tolist()))


def test_hours_of_opening_are_gone_on_from_the_next_morning(tmp_path: Path) -> None:
    opening = [day + timedelta(hours=hour) for day in days(60) if day.weekday() < 5 for hour in range(9, 17)]
    sold = np.random.default_rng(0).normal(size=len(opening))
    *_, about, _ = read(tmp_path, pa.table({"day": opening[:-8], "sold": sold[:-8]}))
    _, _, labels, _ = HISTORY.coming(about)
    assert [label[1] for label in labels[:8]] == [str(moment) for moment in opening[-8:]]
    _, _, labels, _ = HISTORY.coming(about, pa.table({"day": opening[-8:-6], "sold": sold[-8:-6]}))
    assert labels[0][1] == str(opening[-6])


def test_series_too_short_to_go_on_from_are_told(tmp_path: Path) -> None:
    *_, about, _ = read(tmp_path, shops())
    newer = pa.table(
        {"day": days(5, datetime(2020, 5, 30)), "shop": ["east"] * 5, "rain": [1.0] * 5, "sold": [1.0] * 5}
    )
    told: list[str] = []
    labels = series_coming(HISTORY.coming, about, newer, told.append)[2]
    assert {name for name, *_ in labels} == {"north", "south", "west"}
    assert told == [
        "1 series without a forecast ('east'): it takes 14 rows of each up to the last known value of 'sold'."
    ]
    told.clear()
    series_coming(HISTORY.coming, about, None, told.append)
    assert told == []


def test_newer_rows_are_read_as_those_of_the_data(tmp_path: Path) -> None:
    table = shops()
    table = table.append_column("offer", pa.array([["True", "False"][row % 2] for row in range(table.num_rows)]))
    *_, about, _ = read(tmp_path, table, "data: {target: sold}")
    (tmp_path / "new.csv").write_text("day,shop,rain,sold,offer\n2020-05-30,north,2.5,70,true\n")
    inputs, _, labels, _ = HISTORY.coming(about, read_series(about, tmp_path / "new.csv"))
    assert labels[0][1] == "2020-05-31" and inputs["offer"][0].as_py() == "True"
    (tmp_path / "bad.csv").write_text("day,shop,rain,sold,offer\nsoon,north,2.5,70,true\n")
    with pytest.raises(InputError, match="Column 'day': 'soon' is not a date that can be read") as told:
        read_series(about, tmp_path / "bad.csv")
    assert told.value.hint == "Write dates like 2020-01-31."
