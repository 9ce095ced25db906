"""Nights in which clocks are changed: times without a zone lack an hour there, or have one twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
_LAST = 0
_SUNDAYS = ((3, 2), (3, _LAST), (4, 1), (9, _LAST), (10, 1), (10, _LAST), (11, 1))
"""(month, which Sunday of it): Europe, North America now and before 2007, Australia and New Zealand."""
_UNTIL_HOUR = 4
"""Nowhere are they changed later in the night."""


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
    return (np.abs(longer_s - 3600.0) < 0.1 * step_s) & (step_s <= 3600.0) & are_changed(before)
