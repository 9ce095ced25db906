"""Values to predict for that training has not seen: the model answers there, too, but it guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from worker.runtime.unseen import categories_told, category_said, number_said, numbers_told, spans

Where = Callable[[int], str]
"""A row of the table, from 0 on, as people find it."""


def _by_number(row: int) -> str:
    return f"row {row + 1:,}"


def unseen_tell(
    preprocess: Mapping[str, Any], table: pa.Table, tell: Callable[[str], None], where: Where = _by_number
) -> None:
    """Tell of columns of numbers with values outside those of the training rows, and of columns of categories with
    values that are not among theirs, as data.py notes these."""
    numbers_told(_numbers_outside(preprocess, table, where), tell)
    categories_told(_categories_unknown(preprocess, table, where), tell)


def planned_tell(
    preprocess: Mapping[str, Any], inputs: pa.Table, labels: Sequence[Sequence[Any]], tell: Callable[[str], None]
) -> None:
    """`unseen_tell` of what a forecast is given for the moments to come; `labels`: series, moment, ... of each row."""
    known = preprocess["forecast"].get("known", [])

    def where(row: int) -> str:
        series, moment = labels[row][:2]
        return f"the row of {f'{series!r} of ' if series else ''}{moment}"

    unseen_tell(preprocess, inputs.select(known), tell, where)


def _numbers_outside(preprocess: Mapping[str, Any], table: pa.Table, where: Where) -> Iterator[str]:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, span in spans(preprocess):
        if name in columns and (outside := _outside(columns[name], *span)):
            count, row, value = outside
            yield number_said(name, span, count, value, where(row))


def _categories_unknown(preprocess: Mapping[str, Any], table: pa.Table, where: Where) -> Iterator[str]:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, values in _vocabularies(preprocess):
        if name not in columns:
            continue
        texts = columns[name].cast(pa.string())
        unknown = pc.and_(pc.is_valid(texts), pc.invert(pc.is_in(texts, value_set=pa.array(values, pa.string()))))
        if count := pc.sum(unknown).as_py():
            row = pc.index(unknown, True).as_py()
            yield category_said(name, len(values), count, texts[row].as_py(), where(row))


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


def _vocabularies(preprocess: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """(column, values that the model knows); of a column without any nothing can be told."""
    noted = preprocess.get("categorical")
    for entry in noted if isinstance(noted, list) else ():
        if isinstance(entry, dict) and isinstance(values := entry.get("values"), list) and values:
            yield str(entry.get("column")), list(map(str, values))
