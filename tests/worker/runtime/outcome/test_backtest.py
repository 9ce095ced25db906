"""The back-test of a forecast: which forecasts are drawn, and what the model is compared with."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from worker.runtime.outcome import backtest
from worker.runtime.outcome.backtest import backtest_charts
from worker.runtime.ranges import NOTED

HORIZON, DAYS = 3, 7


def moments(series: int = 2) -> pa.Table:
    """Each day of each series from 1, 2 and 3 steps before; the last value says 2 too many, the season is right."""
    rows = [
        (f"s{name}", datetime(2020, 1, 1) + timedelta(days=day), step)
        for name in range(series)
        for day in range(DAYS)
        for step in range(1, HORIZON + 1)
    ]
    names, times, steps = (list(column) for column in zip(*rows, strict=True))
    true = np.array([float(time.day) for time in times])
    return pa.table(
        {
            "series": names,
            "time": pa.array(times, pa.timestamp("us")),
            "steps ahead": steps,
            "last value": true + 2,
            "7 steps before": true,
        }
    )


def charts(off: float, table: pa.Table, **noted: object) -> dict[str, dict]:
    true = table["7 steps before"].to_numpy()
    made = backtest_charts(table, true, true + off, {NOTED: noted} if noted else {})
    return {chart["id"]: chart for chart in made}


def test_each_moment_is_drawn_once_as_foretold_when_the_last_forecast_had_run_out() -> None:
    picture = charts(1.0, moments(), edges=[1.5], half_widths=[1.0, 3.0])["back_test"]
    assert [row[-1] for row in picture["rows"]] == [1, 2, 3, 1, 2, 3, 1] * 2
    assert picture["rows"][0] == ["s0", "2020-01-01 00:00:00", 1.0, 2.0, 1.0, 3.0, 1]
    assert picture["rows"][1][4:6] == [0.0, 6.0], "as wide as two steps ahead"
    without = charts(1.0, moments())["back_test"]
    assert without["rows"][0][4:6] == [None, None]


def test_where_steps_are_lacking_the_nearest_is_drawn() -> None:
    table = moments(series=1)
    kept = table.filter(pa.array([step != 2 for step in table["steps ahead"].to_pylist()]))
    assert [row[-1] for row in charts(0.0, kept)["back_test"]["rows"]] == [1, 1, 3, 1, 1, 3, 1]


def test_of_many_series_and_moments_some_are_drawn_and_it_is_said(monkeypatch) -> None:
    monkeypatch.setattr(backtest, "SERIES_SHOWN", 1)
    monkeypatch.setattr(backtest, "MOMENTS_SHOWN", 4)
    picture = charts(0.0, moments())["back_test"]
    assert [row[1][:10] for row in picture["rows"]] == [f"2020-01-0{day}" for day in range(4, 8)]
    assert "The first 1 of 2 series." in picture["note"] and "The last 4 moments of each series." in picture["note"]


def test_the_model_is_compared_with_the_best_forecast_without_one() -> None:
    table = moments()
    told = charts(1.0, table)
    rows = told["simple_forecasts"]["rows"]
    assert rows == [["this model", 1.0, 1.0], ["last value", 2.0, 2.0], ["7 steps before", 0.0, 0.0]]
    assert "does as well without a model" in told["simple_forecasts"]["note"]
    true = table["7 steps before"].to_numpy()
    alone = backtest_charts(table.drop_columns(["7 steps before"]), true, true + 1, {})
    note = next(chart["note"] for chart in alone if chart["id"] == "simple_forecasts")
    assert note == (
        "The mean absolute error of the model is 1, 50.0 % less than that of the best simple forecast (last value: 2)."
    )
    assert told["error_by_step"]["rows"][:3] == [["this model", step, 1.0] for step in (1, 2, 3)]


@pytest.mark.parametrize(
    ("off", "words"),
    [
        (2.0, "2, as much as that of the best simple forecast (last value: 2). The simple forecast does"),
        (2.0 - 6e-8, "2, as much as that of the best simple forecast (last value: 2)."),
        (
            2.0 + 6e-8,
            "2, as much as that of the best simple forecast (last value: 2). The simple forecast does as well",
        ),
        (2.02, "2.02, 1.0 % more than that of the best simple forecast (last value: 2). The simple forecast does"),
    ],
)
def test_an_error_that_is_all_but_that_of_the_best_simple_forecast_is_called_as_much(off: float, words: str) -> None:
    table = moments()
    true = table["7 steps before"].to_numpy()
    alone = backtest_charts(table.drop_columns(["7 steps before"]), true, true + off, {})
    note = next(chart["note"] for chart in alone if chart["id"] == "simple_forecasts")
    assert note.startswith(f"The mean absolute error of the model is {words}")
    assert ("does as well" in note) == (off >= 2)
