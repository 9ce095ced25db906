"""Numbers to predict for that lie outside of what training has seen: the model answers there, too, but it guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def unseen_tell(preprocess: Mapping[str, Any], table: pa.Table, tell: Callable[[str], None]) -> None:
    """Tell of each column of numbers with values outside those of the training rows, as data.py notes these."""
    for name, low, high in _spans(preprocess):
        if name not in table.column_names:
            continue
        try:
            values = table.column(name).cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the program refuses it by its row
            continue
        outside = pc.fill_null(pc.or_(pc.less(values, low), pc.greater(values, high)), False)
        if count := pc.sum(outside).as_py():
            row = pc.index(outside, True).as_py()
            lie = "1 value lies" if count == 1 else f"{count:,} values lie"
            tell(
                f"Column {name!r}: {lie} outside of {low:.6g} to {high:.6g}, all that training has seen, such as "
                f"{values[row].as_py():.6g} in row {row + 1:,}; the model can only guess there."
            )


def _spans(preprocess: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    """(column, least, largest) of the training rows; a person's own data.py may note anything, an older one neither."""
    noted = preprocess.get("numeric")
    for entry in noted if isinstance(noted, list) else ():
        if isinstance(entry, dict) and entry.get("kind") == "numeric":
            low, high = entry.get("low"), entry.get("high")
            if isinstance(low, int | float) and isinstance(high, int | float):
                yield str(entry.get("column")), low, high
