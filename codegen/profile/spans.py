"""When the rows of a column of dates lie: a histogram whose bars begin with a day, a month, a year, and the gaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import polars as pl
import pyarrow.parquet as pq

from codegen.profile.time_span import TimeGap, TimeSpan
from codegen.profile.types import ColumnProfile, ColumnType

_BARS_MOST = 60
_SECOND_S, _MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 1.0, 60.0, 3600.0, 86400.0, 365.2425 * 86400.0
_STEPS = (
    ("1s", "second", _SECOND_S),
    ("10s", "10 seconds", 10 * _SECOND_S),
    ("1m", "minute", _MINUTE_S),
    ("10m", "10 minutes", 10 * _MINUTE_S),
    ("1h", "hour", _HOUR_S),
    ("6h", "6 hours", 6 * _HOUR_S),
    ("1d", "day", _DAY_S),
    ("1w", "week", 7 * _DAY_S),
    ("1mo", "month", _YEAR_S / 12),
    ("1q", "quarter", _YEAR_S / 4),
    ("1y", "year", _YEAR_S),
    ("5y", "5 years", 5 * _YEAR_S),
    ("10y", "10 years", 10 * _YEAR_S),
    ("50y", "50 years", 50 * _YEAR_S),
    ("500y", "500 years", 500 * _YEAR_S),
)
"""Length of a bar as polars has it, in words and in seconds: the first that gives few enough bars."""
_EXPECTED_ROWS = 10.0
"""So many rows would lie in a gap if they were spread evenly: fewer may be missing by chance."""
_GAP_FAR = 3.0
"""So many times the usual distance of bars with rows is a gap: a weekend is none where each row is a day."""
_GAPS_KEPT = 20


def with_spans(columns: Iterable[ColumnProfile], packed: Path) -> tuple[ColumnProfile, ...]:
    """The columns, those of dates with when their rows lie, by the packed table."""
    return tuple(
        replace(column, span=_span(packed, column)) if column.type is ColumnType.DATE else column for column in columns
    )


def _span(packed: Path, column: ColumnProfile) -> TimeSpan | None:
    """None where every value is missing."""
    first, last = _ends(packed, column.name)
    if first is None or last is None:
        return None
    every, unit = _step(first, last, least_s=_DAY_S if "hour" in column.same_parts else 0.0)
    begins, counts, bars = _bars(packed, column.name, every)
    starts = pl.datetime_range(begins[0], begins[-1], interval=every, time_unit="us", eager=True).to_list()
    by_start = dict(zip(begins, counts, strict=True))
    return TimeSpan(
        first=first.isoformat(sep=" "),
        last=last.isoformat(sep=" "),
        unit=unit,
        starts=tuple(start.isoformat(sep=" ") for start in starts),
        counts=tuple(by_start.get(start, 0) for start in starts),
        gaps=_gaps(bars, sum(counts), (last - first).total_seconds()),
    )


def _moments(packed: Path, name: str) -> Iterable[pl.Series]:
    """The values that are there, in batches."""
    with pq.ParquetFile(packed) as parquet:
        for batch in parquet.iter_batches(columns=[name], use_threads=False):
            yield pl.Series(name, batch.column(0)).drop_nulls()


def _ends(packed: Path, name: str) -> tuple[datetime | None, datetime | None]:
    found = [(moments.min(), moments.max()) for moments in _moments(packed, name) if len(moments)]
    if not found:
        return None, None
    ends = pl.DataFrame(found, schema={"low": pl.Datetime("us"), "high": pl.Datetime("us")}, orient="row")
    low, high = ends["low"].min(), ends["high"].max()
    return (low, high) if isinstance(low, datetime) and isinstance(high, datetime) else (None, None)


def _step(first: datetime, last: datetime, least_s: float) -> tuple[str, str]:
    """(polars, words) of how long a bar is: the shortest of `least_s` and more that gives few enough bars."""
    span_s = (last - first).total_seconds()
    for every, unit, step_s in _STEPS:
        if step_s >= least_s and span_s / step_s < _BARS_MOST - 1:  # one more where the ends lie within bars
            return every, unit
    return _STEPS[-1][:2]


def _bars(packed: Path, name: str, every: str) -> tuple[list[datetime], list[int], list[tuple[datetime, datetime]]]:
    """(beginnings of the bars with rows, their rows, their first and last moment), in their order."""
    moment = pl.col("moment")
    tallies = [
        moments.rename("moment")
        .to_frame()
        .group_by(moment.dt.truncate(every).alias("start"))
        .agg(pl.len().alias("rows"), moment.min().alias("low"), moment.max().alias("high"))
        for moments in _moments(packed, name)
    ]
    bars = (
        pl.concat(tallies)
        .group_by("start")
        .agg(pl.col("rows").sum(), pl.col("low").min(), pl.col("high").max())
        .sort("start")
    )
    return bars["start"].to_list(), bars["rows"].to_list(), list(bars.select("low", "high").iter_rows())


def _gaps(bars: list[tuple[datetime, datetime]], rows: int, span_s: float) -> tuple[TimeGap, ...]:
    """The stretches between two bars in which many rows would lie if they were spread evenly, the longest first."""
    if len(bars) < 2:
        return ()
    usual_s = median((after - before).total_seconds() for (before, _), (after, _) in pairwise(bars))
    found = []
    for (_, before), (after, _) in pairwise(bars):
        gap_s = (after - before).total_seconds()
        if gap_s > _GAP_FAR * usual_s and rows * gap_s >= _EXPECTED_ROWS * span_s:
            found.append((gap_s, TimeGap(after=before.isoformat(sep=" "), until=after.isoformat(sep=" "))))
    found.sort(key=lambda gap: -gap[0])
    return tuple(gap for _, gap in found[:_GAPS_KEPT])
