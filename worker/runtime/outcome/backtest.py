"""A forecast tried on what came after its training: beside the true values, and beside forecasts that need no model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from worker.runtime.outcome.chart import Chart, chart, figure
from worker.runtime.ranges import COLUMNS, STEPS, range_limits
from worker.words import counted, percent_words

SERIES_SHOWN, MOMENTS_SHOWN = 5, 600
"""In the picture: the first series, and the last moments of each."""
MODEL = "this model"
Floats = NDArray[np.float64]


def backtest_charts(moments: pa.Table, true: Floats, predicted: Floats, noted: dict[str, Any]) -> list[Chart]:
    """The picture, the figures and the error by step of rows [N] of one part; `noted`: where the ranges are."""
    steps = moments[STEPS].to_numpy()
    said = {MODEL: predicted}
    said |= {name: moments[name].to_numpy() for name in moments.column_names[3:]}
    return [
        _picture(moments, true, predicted, range_limits(noted, predicted, steps)),
        _against(true, said),
        _by_step(steps, true, said),
    ]


def _picture(moments: pa.Table, true: Floats, predicted: Floats, limits: dict[str, list[float]]) -> Chart:
    """Of each moment one forecast, as if one for all steps were made each time that the last one has run out."""
    steps = moments[STEPS].to_numpy()
    horizon = int(steps.max())
    names = moments["series"].to_pylist()
    times = moments["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    rows: list[list[Any]] = []
    shown = list(dict.fromkeys(names))[:SERIES_SHOWN]
    for name in shown:
        own = np.flatnonzero(np.array([each == name for each in names]))
        _, place = np.unique(times[own], return_inverse=True)
        due = place % horizon + 1
        order = np.lexsort((np.abs(steps[own] - due), place))
        first = own[order[np.flatnonzero(np.diff(place[order], prepend=-1))]][-MOMENTS_SHOWN:]
        for at in first:
            ends = [limits[column][at] for column in COLUMNS] if limits else [None, None]
            rows.append([name, _said(moments["time"][int(at)]), true[at], predicted[at], *ends, int(steps[at])])
    columns = ["series", "time", "true", "forecast", "low", "high", STEPS]
    every = len(dict.fromkeys(names))
    note = (
        f"Each value is foretold from what was known before: one forecast of {counted(horizon, 'step')} after the "
        "other, each from where the last one has run out."
    )
    note += f" The first {SERIES_SHOWN} of {every:,} series." if every > SERIES_SHOWN else ""
    cut = any(
        len(pc.unique(moments["time"].filter(pc.equal(moments["series"], name)))) > MOMENTS_SHOWN for name in shown
    )
    note += f" The last {MOMENTS_SHOWN} moments of each series." if cut else ""
    return chart("back_test", "Back-test", "back_test", columns, [_plain(row) for row in rows], note)


def _against(true: Floats, said: dict[str, Floats]) -> Chart:
    rows: list[list[Any]] = [[name, _mae(true, each), _rmse(true, each)] for name, each in said.items()]
    best = min(rows[1:], key=lambda row: row[1])
    own = rows[0][1]
    told = f"The mean absolute error of the model is {figure(own)}"
    if best[1] > 0:
        by = percent_words(abs(own / best[1] - 1))
        compared = f"{by} less than" if own < best[1] else f"{by} more than"
        compared = "as much as" if by == percent_words(0.0) else compared
        told += f", {compared} that of the best simple forecast ({best[0]}: {figure(best[1])})"
    more = "" if own < best[1] else " The simple forecast does as well without a model: use that one."
    columns = ["forecast", "mean_absolute_error", "rmse"]
    return chart("simple_forecasts", "Beside simple forecasts", "table", columns, rows, f"{told}.{more}")


def _by_step(steps: NDArray[np.int64], true: Floats, said: dict[str, Floats]) -> Chart:
    rows = [
        [name, int(step), _mae(true[steps == step], each[steps == step])]
        for name, each in said.items()
        for step in np.unique(steps)
    ]
    columns = ["series", STEPS, "mean absolute error"]
    note = "How far off forecasts are on average, by how many steps ahead they are made."
    return chart("error_by_step", "Error by steps ahead", "curve", columns, rows, note)


def _mae(true: Floats, said: Floats) -> float:
    return float(np.abs(said - true).mean())


def _rmse(true: Floats, said: Floats) -> float:
    return float(((said - true) ** 2).mean() ** 0.5)


def _said(moment: pa.Scalar) -> str:
    return str(moment.as_py())


def _plain(row: list[Any]) -> list[Any]:
    return [float(value) if isinstance(value, np.floating) else value for value in row]
