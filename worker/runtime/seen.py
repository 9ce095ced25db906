"""Values to predict for that training has not seen: the model answers there, too, but it guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from worker.words import counted

COLUMNS_TOLD = 5
"""Of more columns with such values only how many there are."""
SHOWN = 60
"""Letters of a category."""
VOCABULARY = 10_000
"""A column with so many known values may have had more: data.py keeps the most frequent."""

Where = Callable[[int], str]
"""A row of the table, from 0 on, as people find it."""


def _by_number(row: int) -> str:
    return f"row {row + 1:,}"


def unseen_tell(
    preprocess: Mapping[str, Any], table: pa.Table, tell: Callable[[str], None], where: Where = _by_number
) -> None:
    """Tell of columns of numbers with values outside those of the training rows, and of columns of categories with
    values that are not among theirs, as data.py notes these."""
    _told(_numbers_outside(preprocess, table, where), "So do values of {}.", tell)
    _told(_categories_unknown(preprocess, table, where), "So are values of {}.", tell)


def planned_tell(
    preprocess: Mapping[str, Any], inputs: pa.Table, labels: Sequence[Sequence[Any]], tell: Callable[[str], None]
) -> None:
    """`unseen_tell` of what a forecast is given for the moments to come; `labels`: series, moment, ... of each row."""
    known = preprocess["forecast"].get("known", [])

    def where(row: int) -> str:
        series, moment = labels[row][:2]
        return f"the row of {f'{series!r} of ' if series else ''}{moment}"

    unseen_tell(preprocess, inputs.select(known), tell, where)


def _told(sentences: Iterator[str], more: str, tell: Callable[[str], None]) -> None:
    every = list(sentences)
    for sentence in every[:COLUMNS_TOLD]:
        tell(sentence)
    if len(every) > COLUMNS_TOLD:
        tell(more.format(counted(len(every) - COLUMNS_TOLD, "other column")))


def _numbers_outside(preprocess: Mapping[str, Any], table: pa.Table, where: Where) -> Iterator[str]:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, low, high in _spans(preprocess):
        if name in columns and (outside := _outside(columns[name], low, high)):
            count, row, value = outside
            lie = "1 value lies" if count == 1 else f"{count:,} values lie"
            yield (
                f"Column {name!r}: {lie} outside of {low:,.10g} to {high:,.10g}, all that training has seen, such as "
                f"{value:,.10g} in {where(row)}; the model can only guess there."
            )


def _categories_unknown(preprocess: Mapping[str, Any], table: pa.Table, where: Where) -> Iterator[str]:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, values in _vocabularies(preprocess):
        if name not in columns:
            continue
        texts = columns[name].cast(pa.string())
        unknown = pc.and_(pc.is_valid(texts), pc.invert(pc.is_in(texts, value_set=pa.array(values, pa.string()))))
        if count := pc.sum(unknown).as_py():
            row = pc.index(unknown, True).as_py()
            are = "1 value is" if count == 1 else f"{count:,} values are"
            known = "those" if len(values) < VOCABULARY else f"the {len(values):,} most frequent of those"
            yield (
                f"Column {name!r}: {are} not among {known} that training has seen at least twice, such as "
                f"{texts[row].as_py()[:SHOWN]!r} in {where(row)}; the model can only guess there."
            )


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


def _vocabularies(preprocess: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """(column, values that the model knows); of a column without any nothing can be told."""
    noted = preprocess.get("categorical")
    for entry in noted if isinstance(noted, list) else ():
        if isinstance(entry, dict) and isinstance(values := entry.get("values"), list) and values:
            yield str(entry.get("column")), list(map(str, values))
