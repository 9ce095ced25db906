"""Moments that no data to train on have: what lies outside of the years that are read counts as missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from worker.words import counted

_FIRST_MOMENT, _LAST_MOMENT = datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


def reached(moments: pa.ChunkedArray, name: str, tell: Callable[[str], None]) -> pa.ChunkedArray:
    """Moments in UTC, null for `0001-01-01` and the like, which programs write for no date; `tell` is told."""
    within = within_reach(moments.cast(pa.timestamp(moments.type.unit)))
    beyond = pc.and_(pc.is_valid(moments), pc.is_null(within))
    if count := int(pc.sum(beyond).as_py() or 0):
        told = counted(count, "date lies", "dates lie")
        row = pc.index(beyond, True).as_py() + 1
        tell(
            f"Column {name!r}: {told} outside of the years 1000 to 9999, such as in row {row:,}; "
            f"{'it counts' if count == 1 else 'they count'} as missing, as in training."
        )
    return within


def within_reach(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Null for years of less than four digits or more, as in the data to train on: `31.12.07` is not in the year 7, and
    0001-01-01 stands for no date."""
    if moments.type.unit == "ns":  # reach from 1677 to 2262
        return moments
    first, last = (pa.scalar(moment, moments.type) for moment in (_FIRST_MOMENT, _LAST_MOMENT))
    inside = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
    return pc.if_else(inside, moments, pa.scalar(None, moments.type))
