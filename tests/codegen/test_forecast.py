"""What becomes of the wish to forecast: series found, how far ahead, what the model is shown; mistakes by field."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from codegen.profile.types import ColumnType, DatasetProfile
from codegen.render import render
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.suggest import suggest
from codegen.task import task_guessed
from tests.codegen.model_profiles import TWO_CORES
from tests.codegen.resolving import problems, resolved
from tests.codegen.time_series import days, months, profiled, rising, shops

FORECAST = "task: forecast\n"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> DatasetProfile:
    return profiled(tmp_path_factory.mktemp("one") / "data", rising())


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> DatasetProfile:
    return profiled(tmp_path_factory.mktemp("several") / "data", shops())


def test_a_date_and_a_number_are_forecast_unasked_and_it_is_said_why(one: DatasetProfile) -> None:
    found = resolve(TaskSpec(), one, TWO_CORES)
    assert found.spec["task"] == "forecast"
    reasons = {guess.field: guess.reason for guess in found.guesses}
    assert "there is nothing else to learn from" in reasons["task"]
    assert {"data.time", "data.horizon", "data.history"} <= set(reasons)
    assert "training windows" in reasons["model.size"], "more of them than rows, which would read like a slip"
    assert "history.py" in render(found, one).files


def test_data_look_like_what_is_chosen_unasked(one: DatasetProfile, several: DatasetProfile) -> None:
    for profile in (one, several):
        (chosen,) = [guess for guess in resolve(TaskSpec(), profile, TWO_CORES).guesses if guess.field == "task"]
        assert task_guessed(profile) == (chosen.value, chosen.reason)
    assert task_guessed(replace(one, target=None, task=None, task_reason="")) == ("", "")


def test_beside_other_columns_a_forecast_is_only_offered(several: DatasetProfile) -> None:
    spec = resolved("", several)
    assert spec["task"].startswith("tabular") and "horizon" not in spec["data"]
    (told,) = [warning for warning in several.warnings if warning.code == "time_series"]
    assert "for each value of 'shop'" in told.message
    assert "task: forecast, data.time: day and data.series: shop" in told.meaning
    assert resolved("data: {horizon: 7}", several)["task"] == "forecast"


def test_days_are_foretold_two_weeks_ahead_as_far_as_the_rows_reach(
    one: DatasetProfile, several: DatasetProfile, tmp_path: Path
) -> None:
    data = resolved(FORECAST, one)["data"]
    assert (data["time"], data["horizon"], data["history"]) == ("day", 14, 14) and "series" not in data
    assert data["split"]["by"] == "time" and data["split"]["column"] == "day"
    data = resolved(FORECAST, several)["data"]
    assert (data["series"], data["horizon"]) == ("shop", 14)
    few = profiled(tmp_path / "few", pa.table({"month": months(60), "sold": np.arange(60.0) % 12 + np.arange(60)}))
    assert resolved(FORECAST, few)["data"]["horizon"] == 6


def test_seasons_are_those_that_the_rows_reach_over(one: DatasetProfile, tmp_path: Path) -> None:
    def seasons(profile: DatasetProfile) -> list[int]:
        windows = resolved(FORECAST, profile)["shape"]["windows"]
        return [window["steps"] for window in windows if window["of"] == "season"]

    assert seasons(one) == [7]
    long = pa.table({"day": days(1500), "sold": np.random.default_rng(0).normal(size=1500)})
    assert seasons(profiled(tmp_path / "long", long)) == [7, 365]
    years = pa.table({"month": months(120), "sold": np.random.default_rng(0).normal(size=120)})
    assert seasons(profiled(tmp_path / "years", years)) == [12]
    working = [day for day in days(1500) if day.weekday() < 5]
    week = pa.table({"day": working, "sold": np.random.default_rng(0).normal(size=len(working))})
    assert seasons(profiled(tmp_path / "working", week)) == [5, 261]
    outage = [datetime(2024, 1, 1) + timedelta(hours=hour) for hour in range(2160) if not 300 < hour < 340]
    hourly = pa.table({"hour": outage, "sold": np.random.default_rng(0).normal(size=len(outage))})
    assert seasons(profiled(tmp_path / "outage", hourly)) == [24, 168]


def test_each_row_is_an_example_from_several_steps_before(one: DatasetProfile) -> None:
    (best, *_) = suggest(TaskSpec.model_validate({"task": "forecast"}), one, TWO_CORES)
    assert best.fits
    shape = resolved(FORECAST, one)["shape"]
    assert shape["steps_each"] == 14
    assert "sold: last value" in shape["features"] and "day: weekday" in shape["features"]
    assert "sold: 7 steps before, above the last: missing" in shape["features"]


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("data: {horizon: 200}", "data.horizon", "too few for 200 steps; use at most 100"),
        ("data: {history: 200}", "data.history", "use at most 100"),
        ("data: {time: when}", "data.time", "'when' is no column; the columns are 'day', 'sold'"),
        ("data: {time: sold}", "data.time", "is the target"),
        ("data: {series: day}", "data.series", "they do by 'day'"),
        ("data: {split: {by: random}}", "data.split.by", "the latest rows"),
    ],
)
def test_a_mistake_names_field_and_next_step(one: DatasetProfile, text: str, field: str, words: str) -> None:
    assert words in problems(f"{FORECAST}{text}", one)[field]


def test_uneven_moments_repeated_ones_and_no_dates_are_told_apart(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    numbers = chance.normal(size=200)
    moments = [day for day in days(400) if chance.random() < 0.5][:200]
    uneven = profiled(tmp_path / "uneven", pa.table({"day": moments, "sold": numbers[: len(moments)]}))
    assert "uneven or repeated" in problems(FORECAST, uneven)["data.time"]
    twice = profiled(tmp_path / "twice", pa.table({"day": [*days(100), *days(100)], "sold": numbers}))
    assert "uneven or repeated" in problems(FORECAST, twice)["data.time"]
    none = profiled(tmp_path / "none", pa.table({"size": chance.normal(size=200), "sold": numbers}))
    assert "there is no column of dates" in problems(FORECAST, none)["data.time"]


def test_words_cannot_be_forecast(tmp_path: Path) -> None:
    table = pa.table({"day": days(100), "kind": ["a", "b"] * 50})
    assert "numeric" in str(problems(FORECAST, profiled(tmp_path / "words", table)))


def test_fields_of_a_forecast_mean_nothing_to_other_tasks(one: DatasetProfile) -> None:
    told = problems("task: tabular_regression\ndata: {horizon: 3}", one)
    assert "only a forecast has it" in told["data.horizon"]
    assert not {"time", "series", "horizon", "history"} & set(resolved("task: tabular_regression", one)["data"])


def test_a_profile_of_before_is_read_and_tells_that_the_data_must_be_read_again(one: DatasetProfile) -> None:
    body = one.to_dict()
    assert DatasetProfile.from_dict(body) == one
    body.pop("series")
    assert "upload it again" in problems(FORECAST, DatasetProfile.from_dict(body))["data.time"]


def test_classes_are_not_foretold_unasked_and_a_date_that_is_left_out_is_not_gone_by(
    several: DatasetProfile, tmp_path: Path
) -> None:
    states = profiled(tmp_path / "states", pa.table({"day": days(300), "state": np.arange(300) % 3}))
    assert resolved("", states)["task"] == "tabular_classification"
    assert resolved("data: {horizon: 3}", states)["task"] == "forecast"
    assert resolved("data: {target: rain, features: [shop]}", several)["task"] == "tabular_regression"
    assert resolved("data: {target: rain, features: [day, shop]}", several)["task"] == "forecast"


def test_rows_count_of_all_series_whatever_their_lengths(tmp_path: Path) -> None:
    sizes = [40, 40, 40, 30_000]
    columns = {
        "day": [day for size in sizes for day in days(size, datetime(1920, 1, 1))],
        "shop": [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)],
        "sold": np.random.default_rng(0).normal(size=sum(sizes)),
    }
    shape = resolved(FORECAST, profiled(tmp_path / "unequal", pa.table(columns)))["shape"]
    assert shape["steps_each"] == 1 and shape["rows"] == sum(sizes)


def test_a_column_of_texts_that_names_the_series_is_not_said_to_be_left_out(several: DatasetProfile) -> None:
    as_text = [
        replace(column, type=ColumnType.TEXT if column.name == "shop" else column.type) for column in several.columns
    ]
    found = resolve(TaskSpec.model_validate({"task": "forecast"}), replace(several, columns=tuple(as_text)), TWO_CORES)
    assert found.spec["shape"]["categorical"] == ["shop"]
    assert not [guess for guess in found.guesses if guess.value == "without shop"]
