"""A series that the rows of a table make."""

from __future__ import annotations

from dataclasses import dataclass

TIME_SERIES = "time_series"
"""Code of the finding that rows follow one another evenly in time."""


@dataclass(frozen=True, kw_only=True)
class TimeSeries:
    """Rows that follow one another evenly by a column of dates, if need be for each value of another column."""

    time: str
    by: str = ""
    """Column that names the series; empty: all rows are one."""
    step_s: float
    """The usual one from a row to the next."""
    mean_step_s: float
    """Longer where moments are left out: the weekends of working days."""
    rows: int
    """Of the middle one of the series."""
    count: int = 1
