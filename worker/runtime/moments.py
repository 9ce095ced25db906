"""The moments that follow on those of a series, by the calendar: months by months, days on weekdays that there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DAY_S = 86_400
DAY_US = DAY_S * 1_000_000
MONTH_S = 28 * DAY_S
"""The shortest."""
MEAN_MONTH_S = 365.25 / 12 * DAY_S
Moments = NDArray[np.int64]


def moments_after(times: Moments, step_s: float, count: int) -> Moments:
    """`count` moments after the last of `times`, a step apart; all in microseconds since 1970.

    Months, quarters and years are no fixed numbers of days. Where a step is a day, weekdays that no time is of are left
    out.
    """
    last, ahead = int(times[-1]), np.arange(1, count + 1)
    if step_s >= MONTH_S:
        return _in_months(np.datetime64(last, "us"), ahead * round(step_s / MEAN_MONTH_S))
    if step_s != DAY_S:
        return last + (ahead * step_s * 1e6).astype(np.int64)
    days = last + np.arange(1, 7 * count + 1) * DAY_US
    return days[np.isin(_weekday(days), np.unique(_weekday(times)))][:count]


def _weekday(times: Moments) -> Moments:
    return (times // DAY_US + 3) % 7


def _in_months(moment: np.datetime64, months: Moments) -> Moments:
    """The same day and time so many months later: the last day of a month stays the last one."""
    month, day = moment.astype("datetime64[M]"), moment.astype("datetime64[D]")
    later = month + months
    lengths = ((later + 1).astype("datetime64[D]") - later.astype("datetime64[D]")).astype(int)
    place = (day - month.astype("datetime64[D]")).astype(int)
    is_last = (month + 1).astype("datetime64[D]") == day + 1
    days = lengths - 1 if is_last else np.minimum(place, lengths - 1)
    found: Moments = (later.astype("datetime64[D]") + days + (moment - day)).astype("datetime64[us]").astype(np.int64)
    return found


def said(moment: pa.Scalar) -> str:
    """A moment as text, without a time of day where it has none."""
    return str(moment.as_py()).removesuffix(" 00:00:00")
