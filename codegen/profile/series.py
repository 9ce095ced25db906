"""Columns of dates at which rows follow one another evenly: if they are a series, a random split flatters the model.

A table may hold several series, one below the other or mixed, which a column tells apart: rows then follow one another
evenly for each of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from codegen.profile.clock_changes import days_of, have_an_hour_twice, lack_an_hour
from codegen.profile.findings import DATE_COLUMN
from codegen.profile.time_series import TIME_SERIES, TimeSeries
from codegen.profile.types import ColumnProfile, ColumnType, DatasetProfile, Finding, Severity
from worker.words import counted, duration_words

UNEVEN_SERIES = "uneven_series"
"""Code of the finding that rows are missing among those of a series, or have the moment of another."""
FEWEST_ROWS = 50
"""Of a table; of each of several series fewer are enough."""
SERIES_MOST = 1_000
_FEWEST_OF_EACH = 20
_ROWS_READ = 1_000_000
_MISSING_SHARE = 0.02
_REPEATED_SHARE = 0.02
"""The hour that comes twice in autumn is none the less one of a series."""
_EVEN_SHARE = 0.75
"""Of the steps: a row a working day is a series, too, with longer steps at weekends."""
_STEP_TOLERANCE = 0.1
"""Months have 28 to 31 days."""
_GAP_STEPS = 1.5
_DAY_S = 86_400.0
_PERIODS_S = (3_600.0, _DAY_S, 7 * _DAY_S)
_RECURS_LEAST, _RECURS_SHARE = 3, 0.25
"""Of hours, days or weeks with rows: gaps that are equally long and begin at the same time of so many, such as nights
and weekends, belong to the series."""
_NAMES_TRIED = 8
"""Columns that may tell series apart: the first of them."""
_UNEVEN = (
    "A forecast counts rows, not time: beside such places, what it takes for the value of a day, a week or a year "
    "before is that of another moment."
)
_ADD_ROWS = "Add the missing rows with the target left empty, and keep one row of each moment."
_OTHER_CLOCK = "Times in UTC, or with their zone, have neither."
Moments = npt.NDArray[np.int64]


def with_series(profile: DatasetProfile, findings: list[Finding], table: Path) -> tuple[DatasetProfile, list[Finding]]:
    """The profile with the series of a packed table, and the findings with a warning of each column of dates that has
    some in the place of the note that it is a date.

    Where the data brings its own split, none is drawn at random.
    """
    if profile.given_split or profile.rows < FEWEST_ROWS:
        return profile, findings
    found: list[TimeSeries] = []
    uneven: list[Finding] = []
    for column in profile.columns:
        if column.type is ColumnType.DATE and column.name != profile.target and _is_filled(column, profile.rows):
            moments = _read(table, column.name)
            whole = _series(column.name, "", moments, np.zeros(len(moments), np.int64))
            found += [whole] if whole else _apart(profile, column.name, moments, table)
            uneven += _uneven(whole, moments) if whole else []
    first = {series.time: series for series in reversed(found)}
    told = [*(one for one in findings if one.code != DATE_COLUMN or one.column not in first)]
    return replace(profile, series=tuple(found)), [*told, *map(_finding, reversed(first.values())), *uneven]


def _is_filled(column: ColumnProfile, rows: int) -> bool:
    return column.missing <= _MISSING_SHARE * rows


def _apart(profile: DatasetProfile, time: str, moments: Moments, table: Path) -> Iterator[TimeSeries]:
    """The series that the values of another column make, for each column that makes some."""
    columns = [column for column in profile.columns if column.name not in (time, profile.target)]
    columns = [column for column in columns if _may_name(column, profile.rows)]
    for column in columns[:_NAMES_TRIED]:
        found = _series(time, column.name, moments, _read(table, column.name))
        if found:
            yield found


def _may_name(column: ColumnProfile, rows: int) -> bool:
    kinds = (ColumnType.CATEGORY, ColumnType.TEXT)
    fits = column.type in kinds or (column.type is ColumnType.NUMERIC and column.whole_numbers)
    few = 1 < column.unique <= min(SERIES_MOST, rows // _FEWEST_OF_EACH)
    return fits and few and column.unique_is_exact and not column.missing


def _read(table: Path, column: str) -> Moments:
    """Of the first rows: microseconds since 1970, -2^63 where missing; of other columns a number for each value."""
    read: list[pa.Array] = []
    with pq.ParquetFile(table) as parquet:
        for batch in parquet.iter_batches(columns=[column], use_threads=False):
            read.append(batch.column(0))
            if sum(map(len, read)) >= _ROWS_READ:
                break
    values = pa.chunked_array(read)
    if pa.types.is_timestamp(values.type):
        moments: Moments = pc.fill_null(values.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
        return moments
    numbers: Moments = pc.index_in(values, pc.unique(values)).cast(pa.int64()).to_numpy()
    return numbers


def _series(time: str, by: str, moments: Moments, names: Moments) -> TimeSeries | None:
    """The series that the names make of the moments, [N] both, where nearly all steps within them are about alike."""
    known = moments != np.iinfo(np.int64).min
    moments, names = moments[known], names[known]
    order = np.lexsort((moments, names))
    moments, names = moments[order], names[order]
    steps = np.diff(moments)[np.diff(names) == 0]
    usual = float(np.median(steps)) if len(steps) else 0.0
    even = np.abs(steps - usual) <= _STEP_TOLERANCE * usual
    if not usual or (steps == 0).mean() > _REPEATED_SHARE or even.mean() < _EVEN_SHARE:
        return None
    sizes = np.unique(names, return_counts=True)[1]
    mean_s = float(steps.mean()) / 1e6
    rows = int(np.median(sizes))
    return TimeSeries(time=time, by=by, step_s=usual / 1e6, mean_step_s=mean_s, rows=rows, count=len(sizes))


def _finding(series: TimeSeries) -> Finding:
    each = f" for each value of '{series.by}'" if series.by else ""
    named = f"data.time: {series.time}" + (f" and data.series: {series.by}" if series.by else "")
    return Finding(
        code=TIME_SERIES,
        severity=Severity.WARNING,
        message=f"The rows may be a series in time: by '{series.time}' most follow the one before after "
        f"{duration_words(series.step_s)}{each}.",
        meaning="To foretell the next values from earlier rows, use Table: forecast a number (task: forecast, "
        f"{named}); it is chosen for you where there is nothing else to learn from. The other tasks predict a row from "
        "its own columns, not from earlier rows. A random split would then put neighbours of test rows into training, "
        "and its figures would flatter: split by time with this column (under Data in the form, data.split by: time in "
        "YAML), which trains on the past and tests on the latest rows. If each row is an event of its own, a random "
        "split is right.",
        column=series.time,
    )


def _uneven(series: TimeSeries, moments: Moments) -> Iterator[Finding]:
    """A note of moments that come twice and of gaps, where there are some: a forecast counts rows, not hours."""
    moments = np.sort(moments[moments != np.iinfo(np.int64).min])
    steps = np.diff(moments) / 1e6 / series.step_s
    gaps = np.flatnonzero(steps > _GAP_STEPS)
    gaps = gaps[~_recurs(moments, steps, gaps, series.step_s)]
    again = np.flatnonzero(steps == 0)
    whole_days = not (moments % int(_DAY_S * 1e6)).any()
    forward = lack_an_hour(moments[gaps], moments[gaps + 1], series.step_s)
    back = have_an_hour_twice(moments[again], series.step_s)
    nights = np.unique(days_of(np.concatenate([moments[gaps[forward] + 1], moments[again[back]]])))
    gaps, again = gaps[~forward], again[~back]
    told = []
    if len(again):
        have = counted(len(again), "row has", "rows have")
        told.append(f"{have} the moment of another, such as {_written(moments[again[0]], whole_days)}")
    if len(gaps):
        longest = gaps[np.argmax(steps[gaps])]
        reach = " to ".join(_written(moments[place], whole_days) for place in (longest, longest + 1))
        told.append(f"rows are missing in {counted(len(gaps), 'place')}, the longest from {reach}")
    if len(nights):
        night = _written(nights[0] * int(_DAY_S * 1e6), whole_days=True)
        told.append(
            f"where clocks are changed an hour is missing or comes twice, in {counted(len(nights), 'night')} such as "
            f"{night}"
        )
    if told:
        yield Finding(
            code=UNEVEN_SERIES,
            severity=Severity.INFO,
            message=f"The series by '{series.time}' is uneven: {'; '.join(told)}.",
            meaning=" ".join(
                filter(
                    None, (_UNEVEN, _ADD_ROWS if len(gaps) or len(again) else "", _OTHER_CLOCK if len(nights) else "")
                )
            ),
            column=series.time,
        )


def _recurs(
    moments: Moments, steps: npt.NDArray[np.float64], gaps: npt.NDArray[np.int64], step_s: float
) -> npt.NDArray[np.bool_]:
    """Of each gap, by the place of its step: whether equally long ones begin at the same time of many days or the like.

    A length alone says nothing: most rows that are lost here and there are lost one by one.
    """
    since = (moments - moments[0]) / 1e6 / step_s
    found = np.zeros(len(gaps), np.bool_)
    for period in (period_s / step_s for period_s in _PERIODS_S):
        if len(gaps) and period >= 2:  # else all moments are at the same time of it
            phases = np.round(since[gaps] % period) % round(period)
            kinds = np.round(steps[gaps]) + 1j * phases  # of pairs `unique` is far slower
            _, kind, counts = np.unique(kinds, return_inverse=True, return_counts=True)
            with_rows = 1 + np.count_nonzero(np.diff(since // period))
            found |= counts[kind] >= max(_RECURS_LEAST, _RECURS_SHARE * with_rows)
    return found


def _written(moment: np.int64, whole_days: bool) -> str:
    """To the minute where its seconds are zero; the day alone where all moments are midnights."""
    day, _, clock = str(moment.astype("datetime64[us]").astype("datetime64[s]")).partition("T")
    return day if whole_days else f"{day} {clock.removesuffix(':00')}"
