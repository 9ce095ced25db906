"""Nights in which clocks are changed: times without a zone lack an hour there, or have one twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
_LAST = 0
_SUNDAYS = ((3, 2), (3, _LAST), (4, 1), (9, _LAST), (10, 1), (10, _LAST), (11, 1))
"""(month, which Sunday of it): Europe, North America now and before 2007, Australia and New Zealand."""
_UNTIL_HOUR = 4
"""By then they are changed on all of these days; where that is at midnight, the hour before it is the one that comes
twice."""
_LEAST_TWICE_S, _MOST_TWICE_S = 2_700.0, 3_600.0
"""An hour, of which a few rows may be missing, is what clocks that are put back give a second time."""


def are_changed(moments: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Of each moment (microseconds since 1970): whether it lies in the night of a Sunday on which that is usual."""
    days = moments.astype("datetime64[us]").astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    month = months.astype(np.int64) % 12 + 1
    nth = (days - months.astype("datetime64[D]")).astype(np.int64) // 7 + 1
    is_last = (days + 7).astype("datetime64[M]") != months
    found = np.zeros(len(moments), np.bool_)
    for of_month, which in _SUNDAYS:
        found |= (month == of_month) & (is_last if which == _LAST else nth == which)
    found &= (days.astype(np.int64) + 4) % 7 == 0  # it is a Sunday: 1970 began with a Thursday
    found &= moments % _DAY_US < _UNTIL_HOUR * _HOUR_US
    return found


def lack_an_hour(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64], step_s: float) -> npt.NDArray[np.bool_]:
    """Of each pair of neighbours: whether clocks were put forward between them, and no other row is missing."""
    longer_s = (after - before) / 1e6 - step_s
    night = are_changed(before) | are_changed(after)  # put forward at midnight, they stood on Saturday before
    return (np.abs(longer_s - 3600.0) < 0.1 * step_s) & (step_s <= 3600.0) & night


def have_an_hour_twice(again: npt.NDArray[np.int64], step_s: float) -> npt.NDArray[np.bool_]:
    """Of each moment of a row that another has, too: whether clocks were put back, so that those of its night make
    about an hour. A row that somebody wrote twice in such a night makes none."""
    found = np.zeros(len(again), np.bool_)
    if step_s > 3600.0:
        return found
    places = np.flatnonzero(are_changed(again) | are_changed(again + _HOUR_US))
    _, night, counts = np.unique(days_of(again[places]), return_inverse=True, return_counts=True)
    twice_s = counts[night] * step_s
    found[places] = (twice_s >= _LEAST_TWICE_S) & (twice_s < _MOST_TWICE_S + step_s / 2)
    return found


def days_of(moments: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Days since 1970, of the last hour of a day the next one: what changes at midnight belongs to the Sunday."""
    return (moments + _HOUR_US) // _DAY_US
