"""What a forecast is made of: which series, how far ahead, and what a model is shown of the past.

The program's history.py makes the inputs that are named here (`shape.windows` of the spec) out of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from codegen.notes import Notes
from codegen.profile.target import REGRESSION
from codegen.profile.time_series import TIME_SERIES, TimeSeries
from codegen.profile.types import ColumnProfile, ColumnType, DatasetProfile
from codegen.spec import Split, TaskSpec
from worker.words import counted, duration_words

TIME, SERIES, HORIZON, HISTORY, KNOWN = "data.time", "data.series", "data.horizon", "data.history", "data.known"
FIELDS = ("time", "series", "horizon", "history", "known")
"""Of `data`: only forecasts have them."""
WHEN_MADE = "{}: when the forecast is made"
"""Beside a column that is known ahead, for what it will be: what it is then. history.py of the program makes it."""
DAY_S = 86_400.0
MONTH_S, QUARTER_S, YEAR_S = 28 * DAY_S, 89 * DAY_S, 365 * DAY_S
"""The shortest of their kind."""
HORIZONS = ((YEAR_S, 3), (QUARTER_S, 4), (MONTH_S, 12), (7 * DAY_S, 8), (DAY_S, 14), (3600.0, 24), (0.0, 60))
HISTORIES = ((YEAR_S, 5), (QUARTER_S, 8), (MONTH_S, 12), (7 * DAY_S, 8), (DAY_S, 14), (3600.0, 24), (0.0, 30))
"""(steps from so long on, how many unasked): two weeks of days, a year of months."""
ROWS_PER_STEP = 10
"""Of each series, so that validation and test hold the whole way ahead about once and more."""
LEAST_ROWS_PER_STEP = 4
EXAMPLES = 40_000
"""Each row is foretold from so many steps before it that there are about so many examples; from one at least."""
SMOOTH_FROM = 50
"""Of so long seasons the values around the same place tell more than the one there."""
ALIKE = 0.02
NEARLY_EVEN = 1.05
"""Of mean and usual step: rows are missing in places, as by an outage, and not each night or weekend."""
UNFIT = (ColumnType.DATE, ColumnType.TEXT)
"""Kinds of other columns that a forecast does not learn from."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One that can be made."""

    series: TimeSeries
    horizon: int
    history: int
    seasons: tuple[int, ...]
    """Steps after which things come again, as far as the rows reach over them."""
    steps_each: int
    """Steps ahead from which each row is foretold in training."""


def unasked(spec: TaskSpec, profile: DatasetProfile, target: ColumnProfile, task: str, useful: list[str]) -> str:
    """Why a forecast is meant where nobody has named a task; empty where none is.

    `task`: the one without a forecast, `useful`: columns to learn from.
    """
    if target.type is not ColumnType.NUMERIC or spec.data.split != "auto":
        return ""
    named = _named(spec)
    if named:
        return f"data.{named[0]} is of a forecast"
    for series in profile.series if task == REGRESSION else ():
        if series.time in useful and set(useful) <= {series.time, series.by}:
            step = f"rows follow one another after {duration_words(series.step_s)} by {series.time!r}"
            beside = "there is nothing else to learn from" if not series.by else f"{series.by!r} names the series"
            return f"{step} and {beside}: the next values are foretold from earlier ones"
    return ""


def forecast_of(spec: TaskSpec, profile: DatasetProfile, target: str, notes: Notes) -> Forecast | None:
    """The forecast that is asked for; None where it cannot be made, with the reason in `notes`."""
    series = _series(spec, profile, target, notes)
    if series is None or not _split_fits(spec, series, notes):
        return None
    most = max(1, series.rows // LEAST_ROWS_PER_STEP)
    usual = min(_first(HORIZONS, series.step_s), max(1, series.rows // ROWS_PER_STEP))
    ahead = duration_words(usual * series.step_s)
    horizon = notes.choose(
        HORIZON, spec.data.horizon, usual, f"steps ahead: {ahead}, usual where rows are so far apart"
    )
    last = min(_first(HISTORIES, series.step_s), most)
    history = notes.choose(HISTORY, spec.data.history, last, "last values that the model is shown one by one")
    for field, value in ((HORIZON, horizon), (HISTORY, history)):
        if value > most:
            rows = f"{series.rows:,} rows" + (f" of a value of {series.by!r}" if series.by else "")
            notes.problem(field, f"{rows} are too few for {counted(value, 'step')}; use at most {most}, or add rows")
    steps_each = max(1, min(horizon, EXAMPLES // profile.rows))
    return Forecast(series=series, horizon=horizon, history=history, seasons=seasons_of(series), steps_each=steps_each)


def _series(spec: TaskSpec, profile: DatasetProfile, target: str, notes: Notes) -> TimeSeries | None:
    """The one of the profile's that the wishes fit; a problem where none does."""
    time, by = spec.data.time, spec.data.series
    names = [column.name for column in profile.columns]
    for field, name in ((TIME, time), (SERIES, by)):
        if name != "auto" and (name not in names or name == target):
            told = "is the target" if name == target else "is no column"
            notes.problem(field, f"{name!r} {told}; the columns are {', '.join(map(repr, names[:20]))}")
            return None
    there = [one for one in profile.series if target not in (one.time, one.by)]
    fitting = [one for one in there if time in ("auto", one.time) and by in ("auto", one.by)]
    if not fitting:
        notes.problem(TIME if by == "auto" else SERIES, _why_none(profile, there, str(time), str(by)))
        return None
    chosen = fitting[0]
    step = f"rows follow one another after {duration_words(chosen.step_s)}"
    if time == "auto":
        notes.note(TIME, chosen.time, step + (f" for each value of {chosen.by!r}" if chosen.by else ""))
    if by == "auto" and chosen.by:
        notes.note(SERIES, chosen.by, f"its {chosen.count:,} values have rows of the same moments: each is a series")
    return chosen


def _why_none(profile: DatasetProfile, there: list[TimeSeries], time: str, by: str) -> str:
    if profile.given_split:
        return "the upload comes with its own split, and a forecast is tested on the latest rows; upload it without"
    column = profile.column(time)
    if column is not None and column.type is not ColumnType.DATE:
        return f"{time!r} is read as {column.type.value}; set its type to date on the page of the dataset"
    if there:
        found = " or ".join(f"{one.time!r}" + (f" with series {one.by!r}" if one.by else "") for one in there[:5])
        return f"rows do not follow one another evenly by these columns; they do by {found}"
    if any(finding.code == TIME_SERIES for finding in profile.warnings):
        return "the data was read before forecasts could be made; upload it again"
    dates = [column.name for column in profile.columns if column.type is ColumnType.DATE]
    if not dates:
        return "there is no column of dates; set its type to date on the page of the dataset, or predict from columns"
    named = f"data.series: {by!r} has" if by != "auto" else f"{', '.join(map(repr, dates))} have"
    return (
        f"{named} no even steps from row to row: moments are uneven or repeated, or there are fewer than 50 rows; fill "
        "the gaps, sum up rows of one moment, or have one column that says which series a row belongs to"
    )


def _split_fits(spec: TaskSpec, series: TimeSeries, notes: Notes) -> bool:
    wish = spec.data.split if spec.data.split != "auto" else Split()
    if wish.by not in ("auto", "time"):
        notes.problem("data.split.by", "a forecast is tested on the latest rows; use time or auto")
    elif wish.column not in ("auto", series.time):
        notes.problem("data.split.column", f"a forecast is split by {series.time!r}; use auto")
    else:
        return True
    return False


def _first(table: tuple[tuple[float, int], ...], step_s: float) -> int:
    return next(count for least_s, count in table if step_s >= least_s)


def seasons_of(series: TimeSeries) -> tuple[int, ...]:
    """Steps of a day, a week, a year, where rows reach over three of them."""
    step_s, mean_s = series.step_s, series.mean_step_s
    whole: list[float] = []
    if step_s >= MONTH_S:
        whole = [round(YEAR_S / mean_s)] if step_s < YEAR_S else []
    else:
        whole = [DAY_S / step_s] if step_s < DAY_S else []
        even = mean_s <= NEARLY_EVEN * step_s
        whole += [7 * DAY_S / (step_s if even else mean_s)] if step_s <= DAY_S else []
        whole += [YEAR_S / mean_s] if step_s >= DAY_S else []
    lengths = [round(length) for length in whole if abs(length - round(length)) <= ALIKE * length]
    return tuple(length for length in dict.fromkeys(lengths) if 1 < length <= series.rows // 3)


def windows(forecast: Forecast, target: str) -> list[dict[str, Any]]:
    """The inputs that are made of the past and of the calendar: name, what it is, and its steps."""
    series, season = forecast.series, max(forecast.seasons, default=0)
    found: list[dict[str, Any]] = [{"name": f"{target}: last value", "of": "last"}]
    for steps in range(1, forecast.history):
        found.append({"name": f"{target}: change over {counted(steps, 'step')}", "of": "change", "steps": steps})
    lengths = dict.fromkeys(length for length in (forecast.history, *forecast.seasons) if length > 1)
    for steps in lengths:
        found.append({"name": f"{target}: last above the mean of {steps}", "of": "above_mean", "steps": steps})
    if forecast.history > 2:
        found.append({"name": f"{target}: spread of {forecast.history}", "of": "spread", "steps": forecast.history})
    for steps in forecast.seasons:
        found.append({"name": f"{target}: {steps} steps before, above the last", "of": "season", "steps": steps})
    if season >= SMOOTH_FROM:
        found.append(
            {"name": f"{target}: around {season} steps before, above the last", "of": "around", "steps": season}
        )
    found.append({"name": f"{series.time}: steps ahead", "of": "ahead"})
    return found + [{"name": f"{series.time}: {part}", "of": part} for part in _calendar(series)]


def _calendar(series: TimeSeries) -> list[str]:
    """Parts of the date that come again within the rows, finer than which a step is not."""
    span_s = series.rows * series.mean_step_s
    lasting = (("hour", DAY_S, 3 * DAY_S), ("weekday", 7 * DAY_S, 21 * DAY_S))
    parts = [name for name, below_s, least_s in lasting if series.step_s < below_s and span_s >= least_s]
    if span_s >= 1.5 * YEAR_S and series.step_s < YEAR_S:
        parts += ["month"] + (["day of the year"] if series.step_s < MONTH_S else [])
    return parts


def may_be_missing(window: dict[str, Any]) -> bool:
    """Whether early rows have no such input."""
    return window["of"] in ("season", "around")


def when_made(columns: list[ColumnProfile], known: list[str]) -> list[ColumnProfile]:
    """The columns, behind each that is known ahead what it is at the moment of the forecast."""
    each = ([one, replace(one, name=WHEN_MADE.format(one.name))] if one.name in known else [one] for one in columns)
    return [column for of in each for column in of]


def shape_of(forecast: Forecast, target: ColumnProfile, rows: int, beside: dict[str, Any]) -> dict[str, Any]:
    """The spec's `shape`: that of a table of so many rows, with the windows in front of the other columns, `beside`."""
    made = windows(forecast, target.name)
    names = [window["name"] for window in made]
    lacking = [window["name"] for window in made if may_be_missing(window)]
    features = [name for one in names for name in ([one, f"{one}: missing"] if one in lacking else [one])]
    return beside | {
        "numeric": [*names, *beside["numeric"]],
        "indicators": [*lacking, *beside["indicators"]],
        "features": [*features, *beside["features"]],
        "spelling": beside["spelling"] | ({target.name: target.spelling} if target.spelling else {}),
        "windows": made,
        "steps_each": forecast.steps_each,
        "rows": rows,
        "step_s": forecast.series.step_s,
        "target": target.name,
        "outputs": 1,
        "classes": [],
    }


def no_forecast_check(spec: TaskSpec, task: str, notes: Notes) -> None:
    """Note fields of a forecast that the spec of another task has."""
    for name in _named(spec):
        notes.problem(f"data.{name}", f"only a forecast has it, and the task is {task}; use auto, or task: forecast")


def _named(spec: TaskSpec) -> list[str]:
    """Fields of a forecast that the spec has."""
    return [name for name in FIELDS if getattr(spec.data, name) not in ("auto", [])]


def known_ahead(spec: TaskSpec, target: str, used: list[str], beside: set[str], notes: Notes) -> list[str]:
    """Columns that are known for the moments to come, as far as they are among the `used` ones; a problem for others.

    `beside`: the columns of time and series, and the target.
    """
    known = [] if spec.data.known == "auto" else list(dict.fromkeys(spec.data.known))
    for name in known:
        if name == target:
            notes.problem(KNOWN, f"{name!r} is the target, which is not known ahead; take it out of the list")
        elif name in beside:
            notes.problem(KNOWN, f"{name!r} is known ahead anyway; take it out of the list")
        elif name not in used:
            listed = ", ".join(map(repr, used[:20])) or "none"
            notes.problem(KNOWN, f"{name!r} is no column that is learned from; those are {listed}")
        elif WHEN_MADE.format(name) in used:
            there = WHEN_MADE.format(name)
            notes.problem(KNOWN, f"an input beside {name!r} is called {there!r}; leave that column out in data.exclude")
    return [name for name in known if name in used]
