"""Makes examples of time series: what is known at one moment, and the value some steps later.

A forecast is direct: each value ahead is predicted from known ones alone, never from another prediction, so that errors
do not add up on the way (Ben Taieb et al. 2012, "A review and comparison of strategies for multi-step ahead time series
forecasting based on the NN5 forecasting competition", doi:10.1016/j.eswa.2012.01.039). One model does it for every
step: how many steps ahead is one of its inputs.

- Inputs: those of `shape.windows` in spec.yaml, which windows.py makes of values up to the moment of the forecast and
  of the calendar of the moment that is foretold. Other columns are taken as they are at the moment of the forecast;
  those that `data.known` names as they will be at the moment that is foretold, too.
- What is learned is the difference to a base: the last value, the mean of the last ones or the value one season
  before, whichever comes nearest in training. So a series that rises is foretold beyond all that was seen.
- Parts: by the moment that is foretold, the latest are the test. No input or target of training lies in a later part.
- A step is the way from one row of a series to the next.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import windows
from windows import NEARBY, last_rows, name_of, simple_forecast

from worker.runtime.data import DataError
from worker.runtime.moments import moments_after, said
from worker.runtime.series_checks import WHEN_MADE, none_planned, planned_check
from worker.runtime.series_rows import first_empty, joined
from worker.runtime.split_by import split_times

TESTED = 40_000  # about so many examples at most to test, as to validate; of more rows each is one


@dataclass(frozen=True)
class Rows(windows.Series):
    """Rows of all series with their other columns."""

    table: pa.Table
    numbers: np.ndarray  # [N] of each row in the file


@dataclass(frozen=True)
class Examples:
    """One row for each pair of a moment at which a forecast is made and a moment that is foretold."""

    inputs: pa.Table
    rows: np.ndarray  # [E] rows of the file that are foretold
    values: np.ndarray  # [E] what came
    base: np.ndarray  # [E] what the model's output is added to
    moments: pa.Table  # series, time, steps ahead, what simple forecasts say


def read(spec, table) -> tuple[Examples, dict, dict, str]:
    """(examples, places of `train`, `val`, `test` among them, what predictions need, how rows were split)."""
    about = about_series(spec, table)
    rows = in_order(table, about)
    known = np.flatnonzero(np.isfinite(rows.values))
    split = split_times(rows.table.take(known), about["time"], spec.data.split.validation, spec.data.split.test)
    pairs = pairs_by_part(spec, rows, about, {part: known[places] for part, places in split.parts.items()})
    about["base"] = windows.best_base(rows, *pairs["train"], about["windows"], about["history"])
    about["recent"] = recent(rows, about)

    origins, targets = (np.concatenate([pair[side] for pair in pairs.values()]) for side in (0, 1))
    steps = targets - origins
    examples = Examples(
        inputs=inputs_of(rows, origins, steps, rows.times[targets], about),
        rows=rows.numbers[targets],
        values=rows.values[targets],
        base=simple_forecast(rows, origins, steps, about["base"]),
        moments=moments_of(rows, origins, targets, about),
    )
    sizes = np.cumsum([0] + [len(pair[0]) for pair in pairs.values()])
    parts = {part: np.arange(*sizes[at : at + 2]) for at, part in enumerate(pairs)}
    return examples, parts, about, split.said


def about_series(spec, table) -> dict:
    """Which columns there are and how they are read, for predictions, too."""
    about = {name: spec.data.get(name, "") for name in ("time", "series", "horizon", "history")}
    about |= {
        "target": spec.shape.target,
        "step_s": spec.shape.step_s,
        "windows": [dict(w) for w in spec.shape.windows],
    }
    about["known"] = list(spec.data.get("known", []))
    made = {window["name"] for window in about["windows"]} | {WHEN_MADE.format(name) for name in about["known"]}
    about["numeric"] = [name for name in spec.shape.numeric if name not in made]
    about["categorical"] = [name for name in spec.shape.categorical if name not in made]
    about["spelling"] = dict(spec.shape.get("spelling", {}))
    about["form"] = dict(spec.shape.get("form", {}))
    about["missing"] = [about["target"], *(name for name in about["numeric"] if name in spec.shape.indicators)]
    about["missing"] += [name for name in about["categorical"] if table[name].null_count]
    return about


def in_order(table, about: dict) -> Rows:
    """The rows by series and time. Raises `DataError` where a time is missing or comes twice."""
    used = dict.fromkeys([about["time"], about["target"], *about["numeric"], *about["categorical"]])
    table = pa.table({name: table[name] for name in used})
    times = table[about["time"]].cast(pa.timestamp("us")).cast(pa.int64())
    kept = np.flatnonzero(times.is_valid().to_numpy())
    table, times = table.take(kept), times.take(kept).to_numpy()
    series = np.zeros(len(times), np.int64)
    if about["series"]:
        series = pc.fill_null(pc.rank(table[about["series"]].cast(pa.string()), tiebreaker="dense"), 0).to_numpy()
        series = series.astype(np.int64)
    order = np.lexsort((times, series))
    times, series, table = times[order], series[order], table.take(order)
    values = numbers(table[about["target"]])
    same = np.flatnonzero((np.diff(times) == 0) & (np.diff(series) == 0))
    if len(same) > 0.02 * len(times):
        moment = table[about["time"]][int(same[0])]
        raise DataError(
            f"data.time: {len(same):,} rows have the same {about['time']!r} as another, such as {moment}.",
            "Keep one row for each moment, or name the column that tells series apart in data.series.",
        )
    return Rows(values, times, windows.starts_of(series), table, kept[order])


def numbers(column) -> np.ndarray:
    """A column as float64 [N], NaN where missing or infinite."""
    values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def names_of(rows: Rows, about: dict):
    """The series of each row, as text."""
    if about["series"]:
        return rows.table[about["series"]].cast(pa.string())
    return pa.array([""] * len(rows.times))


def pairs_by_part(spec, rows: Rows, about: dict, targets: dict) -> dict:
    """(origins, targets) of each part; of those to test as many of each row where only some of the rows are here.

    Raises `DataError` where nothing is left to train on.
    """
    random = np.random.default_rng(spec.training.seed)
    tested = {"val": spec.shape.rows * spec.data.split.validation, "test": spec.shape.rows * spec.data.split.test}
    pairs = {}
    for part, places in targets.items():
        each = spec.shape.steps_each if part == "train" else max(1, int(TESTED / max(1.0, tested[part])))
        pairs[part] = pairs_of(rows, places, about, each, random)
    if not len(pairs["train"][0]):
        told = f"no training row has {about['history']} rows of its series before it"
        raise DataError(f"data.history: {told}.", "Use a smaller data.history or data.horizon, or add rows.")
    return pairs


def pairs_of(rows: Rows, targets: np.ndarray, about: dict, each: int, random) -> tuple[np.ndarray, np.ndarray]:
    """(origins, targets) [E]: each target from `each` of the numbers of steps ahead, drawn anew for each.

    Drawn, not counted through: the step must not tell the weekday.
    """
    horizon = about["horizon"]
    steps = np.tile(np.arange(1, horizon + 1, dtype=np.int32), (len(targets), 1))
    if each < horizon:
        steps = random.permuted(steps, axis=1)[:, :each]
    origins, targets = targets[:, None] - steps, np.broadcast_to(targets[:, None], steps.shape)
    fits = origins - rows.first[targets] >= about["history"] - 1
    fits[fits] = np.isfinite(rows.values[origins[fits]])
    return origins[fits].astype(np.int64), targets[fits]


def moments_of(rows: Rows, origins: np.ndarray, targets: np.ndarray, about: dict) -> pa.Table:
    """What is foretold of which series, how many steps ahead, and what simple forecasts say of it."""
    steps = targets - origins
    moments = {"series": names_of(rows, about).take(targets), "time": rows.table[about["time"]].take(targets)}
    moments |= {"steps ahead": steps}
    moments |= {
        name_of(simple): simple_forecast(rows, origins, steps, simple) for simple in windows.naive(about["windows"])
    }
    return pa.table(moments)


def inputs_of(rows: Rows, origins: np.ndarray, steps: np.ndarray, times: np.ndarray, about: dict) -> pa.Table:
    """What is known at the rows `origins` [E] for so many `steps` ahead, where it will be `times`."""
    made = windows.windows_of(rows, origins, steps, times, about["windows"])
    columns = {name: pa.array(values, from_pandas=True) for name, values in made.items()}
    for name in [*about["numeric"], *about["categorical"]]:
        columns[name] = rows.table[name].take(origins)
        if name in about.get("known", ()):
            columns |= {WHEN_MADE.format(name): columns[name], name: rows.table[name].take(origins + steps)}
    return pa.table(columns)


# ---- what comes next --------------------------------------------------------------------------------------------
def recent(rows: Rows, about: dict) -> dict:
    """The last rows of each series whose values are known, as many as a forecast from there needs, as JSON.

    Rows after them, with columns that are known ahead, are kept, too.
    """
    reach = [about["history"], *(window.get("steps", 0) for window in about["windows"])]
    need = max(reach) + 2 * NEARBY
    ahead = about["horizon"] if about["known"] else 0
    ends = zip(windows.ends_of(rows), last_rows(rows), strict=True)
    kept = np.concatenate(
        [np.arange(max(rows.first[end], end - need + 1), min(last, end + ahead) + 1) for end, last in ends]
    )
    table = rows.table.take(kept)
    time = table.column_names.index(about["time"])
    moments = table[about["time"]].cast(pa.timestamp("us")).cast(pa.int64())
    table = table.set_column(time, about["time"], moments)
    texts = {name: table[name].cast(pa.string()) for name in about["categorical"]}
    return {name: texts.get(name, table[name]).to_pylist() for name in table.column_names}


def recent_rows(about: dict) -> pa.Table:
    """What `recent` has kept."""
    kinds = dict.fromkeys([about["target"], *about["numeric"]], pa.float64())
    kinds |= dict.fromkeys(about["categorical"], pa.string()) | {about["time"]: pa.timestamp("us")}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in about["recent"].items()})


def coming(about: dict, newer: pa.Table | None = None) -> tuple[pa.Table, np.ndarray, list[list], pa.Table]:
    """(inputs, base [E], [series, moment, steps ahead] of each, the rows that it goes on from).

    One step to `horizon` steps after the last row of each series: of the data, or of the `newer` rows, which go on from
    them. Where columns are known ahead, as many as there are rows with them. Raises `ValueError`.
    """
    table = recent_rows(about)
    rows = in_order(table if newer is None else joined(about, table, newer), about)
    ends = windows.begins_of(rows, about)
    moments = moments_ahead(rows, ends, about)
    origins = np.repeat(ends, [len(each) for each in moments])
    steps = np.concatenate([np.arange(1, len(each) + 1) for each in moments])
    times = np.concatenate(moments)
    names = names_of(rows, about).take(origins).to_pylist()
    inputs = inputs_of(rows, origins, steps, times, about)
    base = simple_forecast(rows, origins, steps, about["base"])
    said_of = map(said, pa.array(times).cast(pa.timestamp("us")))
    labels = [[name, moment, int(step)] for name, moment, step in zip(names, said_of, steps, strict=True)]
    past = rows.table.filter(pc.is_valid(rows.table[about["target"]])) if about.get("known") else rows.table
    return inputs, base, labels, past


def moments_ahead(rows: Rows, ends: np.ndarray, about: dict) -> list[np.ndarray]:
    """The moments, in microseconds since 1970, that follow on each of the rows `ends`: by the calendar, `horizon` each;
    where columns are known ahead, those of the rows with them. Raises `ValueError`."""
    pasts = [rows.times[rows.first[end] : end + 1] for end in ends]
    if not about.get("known"):
        return [moments_after(past, about["step_s"], about["horizon"]) for past in pasts]
    places = [windows.places_ahead(rows, end, about["horizon"]) for end in ends]
    if not any(map(len, places)):
        raise ValueError(none_planned(about, moments_after(pasts[0], about["step_s"], about["horizon"])))
    for name, past, ahead in zip(names_of(rows, about).take(ends).to_pylist(), pasts, places, strict=True):
        planned_check(about, past, rows.times[ahead], first_empty(about, rows.table.take(ahead)), name)
    return [rows.times[ahead] for ahead in places]
