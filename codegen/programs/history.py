"""Makes examples of time series: what is known at one moment, and the value some steps later.

A forecast is direct: each value ahead is predicted from known ones alone, never from another prediction, so that errors
do not add up on the way (Ben Taieb et al. 2012, "A review and comparison of strategies for multi-step ahead time series
forecasting based on the NN5 forecasting competition", doi:10.1016/j.eswa.2012.01.039). One model does it for every
step: how many steps ahead is one of its inputs.

- Inputs: those of `shape.windows` in spec.yaml, made of values up to the moment of the forecast and of the calendar of
  the moment that is foretold; other columns are taken as they are at the moment of the forecast.
- What is learned is the difference to a base: the last value, the mean of the last ones or the value one season
  before, whichever comes nearest in training. So a series that rises is foretold beyond all that was seen.
- Parts: by the moment that is foretold, the latest are the test. No input or target of training lies in a later part.
- A step is the way from one row of a series to the next.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from worker.runtime.data import DataError
from worker.runtime.moments import moments_after, said
from worker.runtime.series_rows import joined
from worker.runtime.split_by import split_times

TESTED = 40_000  # about so many examples at most to test, as to validate; of more rows each is one
NEARBY = 3  # steps around the place one season before
DAY_S = 86_400
CALENDAR = {"month": pc.month, "weekday": pc.day_of_week, "day of the year": pc.day_of_year}


@dataclass(frozen=True)
class Rows:
    """Rows of all series, one series below the other, each in the order of time."""

    table: pa.Table
    numbers: np.ndarray  # [N] of each row in the file
    values: np.ndarray  # [N] target, NaN where it is missing
    times: np.ndarray  # [N] microseconds since 1970
    first: np.ndarray  # [N] place of the first row of the same series


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
    about = {name: spec.data.get(name, "") for name in ("time", "series", "horizon", "history")}
    about |= {
        "target": spec.shape.target,
        "step_s": spec.shape.step_s,
        "windows": [dict(w) for w in spec.shape.windows],
    }
    made = {window["name"] for window in about["windows"]}
    about["numeric"] = [name for name in spec.shape.numeric if name not in made]
    about["categorical"] = list(spec.shape.categorical)
    about["spelling"] = dict(spec.shape.get("spelling", {}))
    about["missing"] = [about["target"], *(name for name in about["numeric"] if name in spec.shape.indicators)]
    rows = in_order(table, about)
    known = np.flatnonzero(np.isfinite(rows.values))
    split = split_times(rows.table.take(known), about["time"], spec.data.split.validation, spec.data.split.test)

    random = np.random.default_rng(spec.training.seed)
    tested = {"val": spec.shape.rows * spec.data.split.validation, "test": spec.shape.rows * spec.data.split.test}
    pairs = {}
    for part, places in split.parts.items():  # as many of each row where only some of the rows are here
        each = spec.shape.steps_each if part == "train" else max(1, int(TESTED / max(1.0, tested[part])))
        pairs[part] = pairs_of(rows, known[places], about, each, random)
    if not len(pairs["train"][0]):
        told = f"no training row has {about['history']} rows of its series before it"
        raise DataError(f"data.history: {told}.", "Use a smaller data.history or data.horizon, or add rows.")
    about["base"] = best_base(rows, *pairs["train"], about)

    origins, targets = (np.concatenate([pair[side] for pair in pairs.values()]) for side in (0, 1))
    steps = targets - origins
    base = simple_forecast(rows, origins, steps, about["base"])
    moments = {"series": names_of(rows, about).take(targets), "time": rows.table[about["time"]].take(targets)}
    moments |= {"steps ahead": steps}
    moments |= {name_of(simple): simple_forecast(rows, origins, steps, simple) for simple in naive(about)}
    examples = Examples(
        inputs=inputs_of(rows, origins, steps, rows.times[targets], about),
        rows=rows.numbers[targets],
        values=rows.values[targets],
        base=base,
        moments=pa.table(moments),
    )
    sizes = np.cumsum([0] + [len(pair[0]) for pair in pairs.values()])
    parts = {part: np.arange(*sizes[at : at + 2]) for at, part in enumerate(pairs)}
    about["recent"] = recent(rows, about)
    return examples, parts, about, split.said


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
    starts = np.flatnonzero(np.diff(series, prepend=-1))
    first = np.repeat(starts, np.diff(np.append(starts, len(series))))
    return Rows(table, kept[order], values, times, first)


def numbers(column) -> np.ndarray:
    """A column as float64 [N], NaN where missing or infinite."""
    values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def names_of(rows: Rows, about: dict):
    """The series of each row, as text."""
    if about["series"]:
        return rows.table[about["series"]].cast(pa.string())
    return pa.array([""] * len(rows.times))


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


# ---- inputs ----------------------------------------------------------------------------------------------------
def inputs_of(rows: Rows, origins: np.ndarray, steps: np.ndarray, times: np.ndarray, about: dict) -> pa.Table:
    """What is known at the rows `origins` [E] for so many `steps` ahead, where it will be `times`."""
    last = rows.values[origins]
    moments = pa.array(times).cast(pa.timestamp("us"))
    columns = {}
    for window in about["windows"]:
        kind, length = window["of"], window.get("steps", 0)
        if kind == "last":
            found = last
        elif kind == "change":
            found = last - value_at(rows, origins, origins - length)
        elif kind == "above_mean":
            found = last - mean_at(rows, origins, origins - length + 1, origins)
        elif kind == "spread":
            found = spread_at(rows, origins, length)
        elif kind == "season":
            found = value_at(rows, origins, season_before(origins, steps, length)) - last
        elif kind == "around":
            middle = season_before(origins, steps, length)
            found = mean_at(rows, origins, middle - NEARBY, np.minimum(middle + NEARBY, origins)) - last
        elif kind == "ahead":
            found = steps.astype(np.float64)
        elif kind == "hour":
            found = times % (DAY_S * 1e6) / 3600e6
        else:
            found = CALENDAR[kind](moments).to_numpy().astype(np.float64)
        columns[window["name"]] = pa.array(found, from_pandas=True)
    beside = [*about["numeric"], *about["categorical"]]
    return pa.table(columns | {name: rows.table[name].take(origins) for name in beside})


def season_before(origins: np.ndarray, steps: np.ndarray, length: int) -> np.ndarray:
    """Places one season before what is foretold, or as many seasons as it takes to be known."""
    return origins + steps - length * -(-steps // length)


def value_at(rows: Rows, origins: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Values at `places` [E] of the series of the `origins`; NaN before its first row."""
    there = places >= rows.first[origins]
    return np.where(there, rows.values[np.where(there, places, 0)], np.nan)


def mean_at(rows: Rows, origins: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Mean of the known values from `begin` to `end`, both included, within the series; NaN where there are none."""
    total, count = sums(rows.values)
    begin = np.maximum(begin, rows.first[origins])
    end = np.maximum(end + 1, begin)
    with np.errstate(invalid="ignore"):
        return (total[end] - total[begin]) / (count[end] - count[begin])


def spread_at(rows: Rows, origins: np.ndarray, length: int) -> np.ndarray:
    """Standard deviation of the last `length` values."""
    begin = origins - length + 1
    middle = np.nanmean(rows.values) if np.isfinite(rows.values).any() else 0.0
    squares = Rows(rows.table, rows.numbers, (rows.values - middle) ** 2, rows.times, rows.first)
    mean = mean_at(rows, origins, begin, origins) - middle
    return np.sqrt(np.maximum(0.0, mean_at(squares, origins, begin, origins) - mean**2))


def sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sums, counts) [N + 1] of the known values before each place."""
    known = np.isfinite(values)
    return np.append(0.0, np.cumsum(np.where(known, values, 0.0))), np.append(0, np.cumsum(known))


# ---- simple forecasts: what the model is measured by, and what it learns the difference to --------------------------
def naive(about: dict) -> list[dict]:
    """The last value, and that of one season before, by the seasons there are."""
    seasons = [window["steps"] for window in about["windows"] if window["of"] == "season"]
    return [{"of": "last"}, *({"of": "season", "steps": length} for length in seasons)]


def name_of(simple: dict) -> str:
    """As tables call it."""
    return {"last": "last value", "mean": "mean of {} before"}.get(simple["of"], "{} steps before").format(
        simple.get("steps", "")
    )


def simple_forecast(rows: Rows, origins: np.ndarray, steps: np.ndarray, simple: dict) -> np.ndarray:
    """What it says [E]; the last value where it knows none."""
    last = rows.values[origins]
    if simple["of"] == "last":
        return last
    if simple["of"] == "mean":
        return mean_at(rows, origins, origins - simple["steps"] + 1, origins)
    found = value_at(rows, origins, season_before(origins, steps, simple["steps"]))
    return np.where(np.isfinite(found), found, last)


def best_base(rows: Rows, origins: np.ndarray, targets: np.ndarray, about: dict) -> dict:
    """The simple forecast that comes nearest to the training rows."""

    def error(simple: dict) -> float:
        said = simple_forecast(rows, origins, targets - origins, simple)
        return float(np.abs(said - rows.values[targets]).mean())

    return min([*naive(about), {"of": "mean", "steps": about["history"]}], key=error)


# ---- what comes next --------------------------------------------------------------------------------------------
def recent(rows: Rows, about: dict) -> dict:
    """The last rows of each series whose values are known, as many as a forecast from there needs, as JSON."""
    reach = [about["history"], *(window.get("steps", 0) for window in about["windows"])]
    need = max(reach) + 2 * NEARBY
    kept = np.concatenate([np.arange(max(rows.first[end], end - need + 1), end + 1) for end in ends_of(rows)])
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
    them. Raises `ValueError`.
    """
    table = recent_rows(about)
    rows = in_order(table if newer is None else joined(about, table, newer), about)
    ends = ends_of(rows)
    ends = ends[(ends - rows.first[ends] >= about["history"] - 1) & np.isfinite(rows.values[ends])]
    if not len(ends):
        raise ValueError(f"a forecast goes on from {about['history']} rows of {about['target']!r} at least; give more")
    origins = np.repeat(ends, about["horizon"])
    steps = np.tile(np.arange(1, about["horizon"] + 1), len(ends))
    times = np.concatenate([times_of(rows, end, about) for end in ends])
    names = names_of(rows, about).take(origins).to_pylist()
    inputs = inputs_of(rows, origins, steps, times, about)
    base = simple_forecast(rows, origins, steps, about["base"])
    moments = pa.array(times).cast(pa.timestamp("us"))
    labels = [[name, said(moment), int(step)] for name, moment, step in zip(names, moments, steps, strict=True)]
    return inputs, base, labels, rows.table


def ends_of(rows: Rows) -> np.ndarray:
    """The last row of each series whose value is known: rows after it may have other columns alone."""
    ends = np.append(np.flatnonzero(np.diff(rows.first)), len(rows.first) - 1)
    known = np.where(np.isfinite(rows.values), np.arange(len(rows.values)), 0)
    last = np.maximum.accumulate(known)[ends]
    return np.where(last >= rows.first[ends], last, ends)


def times_of(rows: Rows, end: int, about: dict) -> np.ndarray:
    """The moments [horizon], in microseconds since 1970, that follow on row `end`."""
    return moments_after(rows.times[rows.first[end] : end + 1], about["step_s"], about["horizon"])
