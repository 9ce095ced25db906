"""Groups of rows that have something in common: a category of an input, or a part of the range of a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from worker.runtime.outcome.chart import figure

FEATURES = 50
"""Features that are looked at."""
CATEGORIES = 10
"""Most frequent categories with a group of their own; a number with so few values is grouped by each."""
BINS, BIN_ROWS = 5, 15
"""Parts of the range of a number, and the rows for which each should be enough: few rows make fewer parts."""
LABEL_LENGTH = 80
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Group:
    """Rows of one feature."""

    feature: str
    values: str
    """What they have in common, for people."""
    inside: Mask
    """[N]: which rows."""


def groups(features: pa.Table) -> Iterator[Group]:
    """The groups of the first `FEATURES` columns; each row is in one group of a column, or a column has none."""
    for name in features.column_names[:FEATURES]:
        for values, inside in _column_groups(features[name]):
            if inside.any():
                yield Group(name, values, inside)


def _column_groups(column: pa.ChunkedArray) -> list[tuple[str, Mask]]:
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return _number_groups(_numbers(column))
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        seconds = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return _number_groups(_numbers(seconds) // 86_400, _day)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return []  # no values that a person reads
    texts = column.cast(pa.string())
    known = len(texts) - texts.null_count
    if known and pc.count_distinct(texts).as_py() > max(CATEGORIES, known / 2):  # free text: no two rows are alike
        lengths = _number_groups(_numbers(pc.utf8_length(texts)))
        return [(values if values == "missing" else f"{values} characters", inside) for values, inside in lengths]
    return _category_groups(texts)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """float64 [N], NaN where missing."""
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def _number_groups(values: NDArray[np.float64], say: Callable[[float], str] = figure) -> list[tuple[str, Mask]]:
    """By value where these are few or one has a fifth of the rows; all else in parts of the range, alike in rows."""
    known = np.isfinite(values)
    distinct, counts = np.unique(values[known], return_counts=True)
    few = len(distinct) <= CATEGORIES
    single = distinct if few else distinct[counts * BINS >= known.sum()]
    found = [(say(value), values == value) for value in single]
    rest = known & ~np.isin(values, single)
    if rest.any():
        parts = max(1, min(BINS - len(single), int(rest.sum()) // BIN_ROWS))
        edges = np.unique(np.quantile(values[rest], np.linspace(0, 1, parts + 1)))
        found += [(_range(low, high, single, say), rest & inside) for low, high, inside in _ranges(values, edges)]
    return [*found, ("missing", ~known)]


def _ranges(values: NDArray[np.float64], edges: NDArray[np.float64]) -> list[tuple[float, float, Mask]]:
    """Between each two edges, the last one included."""
    if len(edges) == 1:
        return [(edges[0], edges[0], values == edges[0])]
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return [(edges[at], edges[at + 1], bins == at) for at in range(len(edges) - 1)]


def _range(low: float, high: float, single: NDArray[np.float64], say: Callable[[float], str]) -> str:
    if low == high:
        return say(low)
    apart = ", ".join(say(value) for value in single if low < value < high)
    return f"{say(low)} to {say(high)}" + (f" without {apart}" if apart else "")


def _day(days: float) -> str:
    """A day by its number since 1970."""
    return str(np.datetime64(int(days), "D"))


def _category_groups(texts: pa.ChunkedArray) -> list[tuple[str, Mask]]:
    """The most frequent categories, all others together, and rows without one."""
    counted = pc.value_counts(pc.drop_null(texts)).to_pylist()
    named = [item["values"] for item in sorted(counted, key=lambda item: -item["counts"])[:CATEGORIES]]
    places = pc.fill_null(pc.index_in(texts, pa.array(named, pa.string())), len(named)).to_numpy()
    missing = pc.is_null(texts).to_numpy()
    found = [(_label(name), places == at) for at, name in enumerate(named)]
    others = (places == len(named)) & ~missing
    return [*found, (f"{len(counted) - len(named)} other values", others), ("missing", missing)]


def _label(text: str) -> str:
    return text if len(text) <= LABEL_LENGTH else f"{text[: LABEL_LENGTH - 1]}…"
