"""Numbers to predict for that lie outside of what training has seen: the model answers there, too, but it guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from worker.words import counted

COLUMNS_TOLD = 5
"""Of more columns with such values only how many there are."""


def unseen_tell(preprocess: Mapping[str, Any], table: pa.Table, tell: Callable[[str], None]) -> None:
    """Tell of columns of numbers with values outside those of the training rows, as data.py notes these."""
    columns, more = {name: table.column(at) for at, name in enumerate(table.column_names)}, 0
    told: list[str] = []
    for name, low, high in _spans(preprocess):
        if name not in columns or (outside := _outside(columns[name], low, high)) is None:
            continue
        if len(told) == COLUMNS_TOLD:
            more += 1
            continue
        count, row, value = outside
        lie = "1 value lies" if count == 1 else f"{count:,} values lie"
        told.append(
            f"Column {name!r}: {lie} outside of {low:,.10g} to {high:,.10g}, all that training has seen, such as "
            f"{value:,.10g} in row {row + 1:,}; the model can only guess there."
        )
    for sentence in told:
        tell(sentence)
    if more:
        tell(f"So do values of {counted(more, 'other column')}.")


def _outside(column: pa.ChunkedArray, low: float, high: float) -> tuple[int, int, float] | None:
    """(how many values lie outside, 0-based row of the first one, the first one); None where none does."""
    try:
        values = column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the program refuses it by its row
        return None
    outside = pc.fill_null(pc.or_(pc.less(values, low), pc.greater(values, high)), False)
    if not (count := pc.sum(outside).as_py()):
        return None
    row = pc.index(outside, True).as_py()
    return count, row, values[row].as_py()


def _spans(preprocess: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    """(column, least, largest) of the training rows; a person's own data.py may note anything, an older one neither."""
    noted = preprocess.get("numeric")
    for entry in noted if isinstance(noted, list) else ():
        if isinstance(entry, dict) and entry.get("kind") == "numeric":
            low, high = entry.get("low"), entry.get("high")
            if isinstance(low, int | float) and isinstance(high, int | float):
                yield str(entry.get("column")), low, high
