"""Columns that are known for the moments to come: what the model is given of them, and rows that a forecast takes."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codegen import spec_yaml
from codegen.resolve import resolve
from codegen.types import SpecError
from tests.codegen.model_profiles import TWO_CORES
from tests.codegen.programs import module, program_spec
from tests.codegen.test_forecast_programs import trained
from tests.codegen.time_series import days, profiled, shops
from tests.worker.runtime import samples
from worker.runtime.series_rows import read_series, series_coming
from worker.runtime.tables import InputError

HISTORY = module("history.py")
DAYS = 300
PLANNED = datetime(2020, 10, 27)
"""The day after the last one."""


def offers(known: int = DAYS) -> pa.Table:
    """Days on some of which, at random, 30 more are sold, the price is lower, and a sign is out; `sold` of the first
    `known` days."""
    chance = np.random.default_rng(0)
    offer = chance.random(DAYS) < 0.2
    sold = 100 + 10 * np.sin(2 * np.pi * np.arange(DAYS) / 7) + 30.0 * offer + chance.normal(size=DAYS)
    return pa.table(
        {
            "day": days(DAYS),
            "price": np.where(offer, 7.5, 9.0) + chance.random(DAYS) / 10,
            "sign": np.where(offer, "out", "in"),
            "rain": chance.random(DAYS),
            "sold": pa.array([value if row < known else None for row, value in enumerate(sold)]),
        }
    )


def read(folder: Path, table: pa.Table, known: str = "[price, sign]"):
    """(spec, examples, about)."""
    profile = profiled(folder / "data", table)
    text = f"task: forecast\ndata: {{target: sold, horizon: 7, known: {known}}}"
    spec = resolve(spec_yaml.load(text), profile, TWO_CORES).spec
    examples, _, about, _ = HISTORY.read(program_spec(spec), pq.read_table(folder / "data" / "table.parquet"))
    return spec, examples, json.loads(json.dumps(about))


def planned(count: int, **more: list) -> pa.Table:
    """Rows of moments to come."""
    return pa.table({"day": days(count, PLANNED), "price": [8.0] * count, "sign": ["out"] * count} | more)


def test_what_is_known_ahead_is_of_the_moment_that_is_foretold_and_the_rest_of_when_it_is_made(tmp_path: Path) -> None:
    table = offers()
    spec, examples, _ = read(tmp_path, table)
    assert spec["data"]["known"] == ["price", "sign"]
    targets, origins = examples.rows, examples.rows - examples.moments["steps ahead"].to_numpy()
    for name in ("price", "sign"):
        values = np.array(table[name].to_pylist())
        assert (np.array(examples.inputs[name].to_pylist()) == values[targets]).all()
        assert (np.array(examples.inputs[f"{name}: when the forecast is made"].to_pylist()) == values[origins]).all()
    assert np.allclose(examples.inputs["rain"].to_numpy(), table["rain"].to_numpy()[origins])
    assert "rain: when the forecast is made" not in examples.inputs.column_names
    made = {*spec["shape"]["numeric"], *spec["shape"]["categorical"]}
    assert made == set(examples.inputs.column_names)


def test_a_forecast_goes_as_far_as_there_are_rows_with_what_is_known(tmp_path: Path) -> None:
    _, _, about = read(tmp_path, offers())
    told: list[str] = []
    inputs, _, labels, past = series_coming(HISTORY.coming, about, planned(3), told.append)
    assert [label[1:] for label in labels] == [["2020-10-27", 1], ["2020-10-28", 2], ["2020-10-29", 3]]
    assert inputs["price"].to_pylist() == [8.0] * 3 and inputs["sign"].to_pylist() == ["out"] * 3
    assert past["sold"].null_count == 0 and str(past["day"][-1].as_py().date()) == "2020-10-26"
    assert told == ["Foretold are 3 of 7 steps: of the moments after them there are no rows with 'price', 'sign'."]
    newer = planned(5, rain=[0.5] * 5, sold=[100.0, 101.0, None, None, None])
    inputs, _, labels, _ = series_coming(HISTORY.coming, about, newer, told.append)
    assert [label[1] for label in labels] == ["2020-10-29", "2020-10-30", "2020-10-31"]
    assert inputs["sold: last value"].to_pylist() == [101.0] * 3


def test_rows_that_the_data_have_of_moments_to_come_are_kept_for_them(tmp_path: Path) -> None:
    table = offers(known=DAYS - 10)
    _, _, about = read(tmp_path, table)
    inputs, _, labels, _ = HISTORY.coming(about)
    assert [label[1] for label in labels][::6] == ["2020-10-17", "2020-10-23"]
    assert np.allclose(inputs["price"].to_numpy(), table["price"].to_numpy()[DAYS - 10 : DAYS - 3])


def test_a_plan_that_begins_before_the_end_of_the_data_takes_no_value_away_that_came(tmp_path: Path) -> None:
    _, _, about = read(tmp_path, offers())
    plain, *_ = HISTORY.coming(about, planned(3))
    early = {"day": days(20, datetime(2020, 10, 10)), "price": [8.0] * 20, "sign": ["out"] * 20}
    inputs, _, labels, past = HISTORY.coming(about, pa.table(early))
    assert [label[1] for label in labels] == ["2020-10-27", "2020-10-28", "2020-10-29"] and inputs.equals(plain)
    assert str(past["day"][-1].as_py().date()) == "2020-10-26"


@pytest.mark.parametrize(
    ("newer", "told"),
    [
        (None, "Rows of the moments to come are missing, 2020-10-27 to 2020-11-02: give 'price', 'sign' for each, and"),
        (planned(3).take([0, 2]), "No row for 2020-10-28 before 2020-10-29: give 'price', 'sign' there, too"),
        (planned(3).take([1, 2]), "No row for 2020-10-27 before 2020-10-28"),
        (planned(2).set_column(1, "price", [[8.0, None]]), "'price' is empty in the row of 2020-10-28: give its value"),
        (planned(2).drop_columns(["sign"]), "Column missing from the input: sign"),
        (planned(2, sold=[1.0, None]), "Column missing from the input: rain"),
    ],
)
def test_what_is_missing_of_the_moments_to_come_is_named(tmp_path: Path, newer: pa.Table | None, told: str) -> None:
    _, _, about = read(tmp_path, offers())
    with pytest.raises(InputError) as error:
        series_coming(HISTORY.coming, about, newer)
    assert error.value.message.startswith(told)


def test_the_series_whose_row_lacks_a_value_is_named_and_those_without_rows_are_told(tmp_path: Path) -> None:
    table = shops()
    _, _, about = read(tmp_path, table, "[rain]")
    newer = {"day": days(2, datetime(2020, 5, 30)), "shop": ["south"] * 2, "rain": [2.5, None]}
    with pytest.raises(ValueError, match="'rain' is empty in the row of 'south' of 2020-05-31"):
        HISTORY.coming(about, pa.table(newer))
    told: list[str] = []
    _, _, labels, _ = series_coming(HISTORY.coming, about, pa.table(newer | {"rain": [2.5, 2.0]}), told.append)
    assert [label[0] for label in labels] == ["south"] * 2
    assert told[1].startswith("2 series without a forecast ('north', 'west')")
    newer |= {"shop": ["south", "east"], "rain": [2.5, 2.0], "day": days(1, datetime(2020, 5, 30)) * 2}
    series_coming(HISTORY.coming, about, pa.table(newer), told.append)
    assert told[3].startswith("3 series without a forecast ('north', 'west', 'east')"), "one that was never there, too"


@pytest.mark.parametrize(
    ("known", "more", "told"),
    [
        ("[sold]", "", "'sold' is the target"),
        ("[day]", "", "'day' is known ahead anyway"),
        ("[prise]", "", "'prise' is no column that is learned from; those are 'price', 'sign', 'rain'"),
        ("[rain]", ", exclude: [rain]", "'rain' is no column that is learned from"),
    ],
)
def test_columns_that_cannot_be_known_ahead_are_refused(tmp_path: Path, known: str, more: str, told: str) -> None:
    profile = profiled(tmp_path / "data", offers())
    text = f"task: forecast\ndata: {{target: sold, known: {known}{more}}}"
    with pytest.raises(SpecError) as error:
        resolve(spec_yaml.load(text), profile, TWO_CORES)
    assert [(field, words.startswith(told)) for field, words in error.value.problems] == [("data.known", True)]


def test_a_column_that_is_called_as_an_input_beside_one_that_is_known_is_refused(tmp_path: Path) -> None:
    table = offers()
    table = table.append_column("rain: when the forecast is made", table["price"])
    profile = profiled(tmp_path / "data", table)
    with pytest.raises(SpecError) as error:
        resolve(spec_yaml.load("task: forecast\ndata: {target: sold, known: [rain]}"), profile, TWO_CORES)
    assert [field for field, _ in error.value.problems] == ["data.known"]
    apart = spec_yaml.load("data: {target: sold, known: [rain], exclude: ['rain: when the forecast is made']}")
    assert resolve(apart, profile, TWO_CORES).spec["data"]["known"] == ["rain"]


def test_only_a_forecast_knows_columns_ahead_and_naming_one_asks_for_a_forecast(tmp_path: Path) -> None:
    profile = profiled(tmp_path / "data", offers())
    with pytest.raises(SpecError) as error:
        resolve(spec_yaml.load("task: tabular_regression\ndata: {target: sold, known: [price]}"), profile, TWO_CORES)
    assert [field for field, _ in error.value.problems] == ["data.known"]
    found = resolve(spec_yaml.load("data: {target: sold, known: [price]}"), profile, TWO_CORES).spec
    assert found["task"] == "forecast"
    plain = resolve(spec_yaml.load("task: tabular_regression\ndata: {target: sold}"), profile, TWO_CORES).spec
    assert "known" not in plain["data"]


def test_offers_that_are_known_ahead_are_foretold(tmp_path: Path) -> None:
    parts = {"data": {"target": "sold", "horizon": 7, "known": ["price", "sign"]}, "training": {"epochs": 12}}
    program, results = trained(tmp_path / "with", offers(), **parts)
    del parts["data"]["known"]
    _, without = trained(tmp_path / "without", offers(), **parts)
    errors = [found["metrics"]["test"]["mae"] for found in (results, without)]
    assert errors[0] < 0.5 * errors[1], "chance alone is off by 0.8, not knowing the offers by 9"
    plan = "day,price,sign\n27.10.2020,7.5,out\n28.10.2020,9.0,in\n29.10.2020,9.0,neon\n"
    (program / "plan.csv").write_text(plan)
    done = samples.python(program, "predict.py", "--input", "plan.csv", "--output", "out.json", PYTHONPATH="")
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads((program / "out.json").read_text())
    said = [row[2] for row in answer["rows"]]
    assert said[0] > said[1] + 15 and len(said) == 3
    assert any("3 of 7 steps" in note for note in answer["notes"])
    assert any("'sign'" in note and "'neon' in the row of 2020-10-29" in note for note in answer["notes"])
    done = samples.python(program, "predict.py", "--output", "out.csv", PYTHONPATH="")
    assert done.returncode != 0 and "Rows of the moments to come are missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_newer_rows_with_what_is_known_are_read_as_those_of_the_data(tmp_path: Path) -> None:
    _, _, about = read(tmp_path, offers())
    (tmp_path / "plan.csv").write_text("day;price;sign\n27.10.2020;7,5;out\n28.10.2020;9,0;in\n")
    inputs, *_ = HISTORY.coming(about, read_series(about, tmp_path / "plan.csv"))
    assert inputs["price"].to_pylist() == [7.5, 9.0]
