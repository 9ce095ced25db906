"""The moments that follow on those of a series, by the calendar: months by months, hours and days that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

DAY_S = 86_400
DAY_US = DAY_S * 1_000_000
LEAST_DAYS, LEAST_WEEK_DAYS = 3, 6
"""Of fewer it is not known which times of the day, and which weekdays, there are none of."""
MONTH_S = 28 * DAY_S
"""The shortest."""
MEAN_MONTH_S = 365.25 / 12 * DAY_S
LIKE_STEPS = 6
"""Of fewer single steps that are alike it is not known whether they are days or months: five of four months are, from
April 2019 on."""
CLOCK_US = 2 * 3_600_000_000
"""By which steps of whole days differ where clocks are changed."""
Moments = NDArray[np.int64]
Dates = NDArray[np.datetime64]


def moments_after(times: Moments, step_s: float, count: int) -> Moments:
    """`count` moments after the last of `times`, a step apart; all in microseconds since 1970.

    Months, quarters and years are no fixed numbers of days; four weeks are. Weekdays that no time is of are left out
    where a step is a day or a part of it, and so are times of the day.
    """
    last, ahead = int(times[-1]), np.arange(1, count + 1)
    if step_s >= MONTH_S and not _in_days(times, step_s):
        return _in_months(times[-1:].astype("datetime64[us]"), ahead * round(step_s / MEAN_MONTH_S))
    step_us = round(step_s * 1e6)
    if DAY_US % step_us:
        return last + ahead * step_us
    span_us, each = last - int(times[0]), DAY_US // step_us
    open_at = np.arange(each) if span_us < LEAST_DAYS * DAY_US else np.unique(_time_of_day(times, last, step_us))
    days = 7 * (1 + -(-count // len(open_at)))  # one of a week at least is left
    found = last + np.arange(1, days * each + 1) * step_us
    found = found[np.isin(_time_of_day(found, last, step_us), open_at)]
    if span_us >= LEAST_WEEK_DAYS * DAY_US:
        found = found[np.isin(_weekday(found), _weekday(times))]
    return found[:count]


def _in_days(times: Moments, step_s: float) -> bool:
    """Whether so long steps are always as many days, as four weeks or ninety days are; rows may be missing.

    Where they all lie on one day of the month they are months, though of few or with rows missing all may be alike.
    """
    steps, step_us = np.diff(times), round(step_s * 1e6)
    each = np.round(steps / step_us).astype(np.int64)
    alike = bool((np.abs(steps - each * step_us) <= CLOCK_US).all() and (each == 1).sum() >= LIKE_STEPS)
    return alike and not _on_one_day(times.astype("datetime64[us]"))


def _on_one_day(moments: Dates) -> bool:
    """Whether all lie on the same day of their month, or on its last one where it has no such day."""
    places, lengths = _place(moments), _length(moments.astype("datetime64[M]"))
    return bool((places == np.minimum(places.max(), lengths - 1)).all())


def _place(moments: Dates) -> Moments:
    """Their days of the month, from 0 on."""
    first = moments.astype("datetime64[M]").astype("datetime64[D]")
    days: Moments = (moments.astype("datetime64[D]") - first).astype(np.int64)
    return days


def _length(months: Dates) -> Moments:
    """In days."""
    days: Moments = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    return days


def _time_of_day(times: Moments, last: int, step_us: int) -> Moments:
    """Which step of the day each is nearest to."""
    return (times - last + step_us // 2) % DAY_US // step_us


def _weekday(times: Moments) -> Moments:
    return (times // DAY_US + 3) % 7


def _in_months(moment: Dates, months: Moments) -> Moments:
    """The same day and time as of `moment` [1] so many months later: the last day of a month stays the last one."""
    month, day = moment.astype("datetime64[M]"), moment.astype("datetime64[D]")
    later = month + months.astype("timedelta64[M]")
    lengths, place = _length(later), _place(moment)
    is_last = place == _length(month) - 1
    days = np.where(is_last, lengths, np.minimum(place + 1, lengths)) - 1
    found: Moments = (later.astype("datetime64[D]") + days + (moment - day)).astype("datetime64[us]").astype(np.int64)
    return found


def said(moment: pa.Scalar) -> str:
    """A moment as text, without a time of day where it has none."""
    return str(moment.as_py()).removesuffix(" 00:00:00")
