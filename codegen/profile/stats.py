"""Second reading: figures over packed values, and a fair sample of rows. Constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from codegen.profile.distinct import EXACT_UNIQUE
from codegen.profile.parts import Parts
from codegen.profile.types import EXAMPLES

SAMPLE_ROWS = 100_000
_SAMPLE_CELLS = 8_000_000
_SAMPLE_TEXT = 100
_BINS = 30
_SEARCHED = 4_000_000
"""Sorted hashes that are searched for examples of repeated rows."""
_COUNTED_VALUES = 2_000_000
"""Distinct values counted over all columns together."""


@dataclass
class ColumnStats:
    """Absolute figures of one packed column."""

    name: str
    numeric: bool
    value_limit: int
    parts: Parts
    edges: tuple[float, ...] = ()
    """Histogram edges; known from the first reading."""
    rows: int = 0
    missing: int = 0
    missing_rows: list[int] = field(default_factory=list)
    """1-based, the first few."""
    counts: dict[str, int] | None = field(default_factory=dict)
    """Value -> rows; None beyond `value_limit` distinct values."""
    histogram: list[int] = field(default_factory=list)
    present: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared distances from the mean."""
    examples: list[str] = field(default_factory=list)

    @property
    def std(self) -> float:
        """Standard deviation over present values."""
        return float(np.sqrt(self.squares / self.present)) if self.present else 0.0

    def add(self, values: pl.Series) -> None:
        """Count the next batch."""
        nulls = values.null_count()
        if nulls and len(self.missing_rows) < EXAMPLES:
            found = values.is_null().arg_true().head(EXAMPLES - len(self.missing_rows))
            self.missing_rows.extend(self.rows + int(at) + 1 for at in found)
        self.missing += nulls
        self.rows += len(values)
        present = values.drop_nulls() if nulls else values
        if not len(present):
            return
        if self.counts is not None:
            self._add_counts(present)
        self.parts.add(present)
        if self.numeric:
            self._add_moments(present.cast(pl.Float64).to_numpy())
        if len(self.examples) < EXAMPLES:
            new = [str(value)[:80] for value in present.head(200).unique(maintain_order=True).head(EXAMPLES)]
            self.examples.extend(value for value in new if value not in self.examples)
            del self.examples[EXAMPLES:]

    def top_values(self, limit: int) -> tuple[tuple[str, int], ...]:
        """Most frequent first; empty where too many to count."""
        ranked = sorted((self.counts or {}).items(), key=lambda item: (-item[1], item[0]))
        return tuple(ranked[:limit])

    def _add_counts(self, present: pl.Series) -> None:
        assert self.counts is not None  # noqa: S101 - checked by the caller
        counted = present.rename("value").value_counts(name="rows")
        if len(self.counts) + len(counted) > 2 * self.value_limit:
            self.counts = None
            return
        texts = counted["value"].cast(pl.String).to_list()
        for value, rows in zip(texts, counted["rows"].to_list(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + rows
        if len(self.counts) > self.value_limit:
            self.counts = None

    def _add_moments(self, found: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        """Merge by Chan et al. 1979, stable for large means."""
        with np.errstate(over="ignore", invalid="ignore"):
            count, mean = len(found), float(found.mean())
            squares = float(((found - mean) ** 2).sum())
        total = self.present + count
        shift = mean - self.mean
        self.squares += squares + shift * shift * self.present * count / total
        self.mean += shift * count / total
        self.present = total
        if self.edges:
            new = np.histogram(found, bins=np.asarray(self.edges))[0]
            self.histogram = [a + int(b) for a, b in zip(self.histogram or [0] * len(new), new, strict=True)]


def value_limit(columns: int) -> int:
    """Distinct values counted per column, so that wide tables stay within memory."""
    return max(1000, min(EXACT_UNIQUE, _COUNTED_VALUES // max(1, columns)))


def histogram_edges(minimum: float, maximum: float, whole: bool) -> tuple[float, ...]:
    """Edges of at most 30 equal bins; whole numbers of a small range get a bin each."""
    if not np.isfinite(minimum) or not np.isfinite(maximum) or not np.isfinite(maximum - minimum):
        return ()
    if whole and maximum - minimum < _BINS:
        return tuple(float(edge) for edge in np.arange(minimum, maximum + 2) - 0.5)
    if minimum == maximum:
        return (minimum - 0.5, maximum + 0.5)
    edges = np.linspace(minimum, maximum, _BINS + 1)
    return tuple(float(edge) for edge in edges) if (np.diff(edges) > 0).all() else ()


class RowSample:
    """Rows chosen evenly over the whole table (the smallest of random keys), the same for the same table."""

    def __init__(self, columns: int) -> None:
        self._limit = max(1000, min(SAMPLE_ROWS, _SAMPLE_CELLS // max(1, columns)))
        self._random = np.random.default_rng(0)
        self._keys = np.empty(0)
        self._pending: list[pl.DataFrame] = []
        self._pending_keys: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
        self._pending_rows = 0
        self._threshold = 1.0

    def add(self, batch: pl.DataFrame) -> None:
        """Offer the rows of a batch."""
        keys = self._random.random(batch.height)
        if self._threshold < 1.0:
            chosen = np.flatnonzero(keys < self._threshold)
            batch, keys = batch[chosen.tolist()], keys[chosen]
        shortened = batch.with_columns(pl.col(pl.String).str.slice(0, _SAMPLE_TEXT))
        self._pending.append(shortened)
        self._pending_keys.append(keys)
        self._pending_rows += batch.height
        if self._pending_rows > 2 * self._limit:
            self._shrink()

    def frame(self) -> pl.DataFrame:
        """The sample, in the order of the table."""
        self._shrink()
        return self._pending[0] if self._pending else pl.DataFrame()

    def _shrink(self) -> None:
        if not self._pending:
            return
        rows = pl.concat(self._pending)
        keys = np.concatenate(self._pending_keys)
        if len(keys) > self._limit:
            self._threshold = float(np.partition(keys, self._limit - 1)[self._limit - 1])
            chosen = np.flatnonzero(keys <= self._threshold)
            rows, keys = rows[chosen.tolist()], keys[chosen]
        self._pending, self._pending_keys, self._pending_rows = [rows.rechunk()], [keys], rows.height


class RepeatedRows:
    """Counts rows that are the same in every column, by 64-bit hashes (8 bytes a row)."""

    MAX_ROWS = 20_000_000
    """Rows beyond are not compared: the hashes, sorted, take 16 bytes a row at the end."""

    def __init__(self) -> None:
        self._hashes: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []
        self._rows = 0

    def add(self, batch: pl.DataFrame) -> None:
        """Hash the rows of a batch."""
        if batch.height and batch.width and self._rows < self.MAX_ROWS:
            self._hashes.append(batch.hash_rows(11).to_numpy())
            self._rows += batch.height

    def result(self) -> tuple[int, tuple[int, ...]]:
        """(rows that repeat an earlier one, the first few of them, 1-based)."""
        if not self._hashes:
            return 0, ()
        hashes = np.concatenate(self._hashes)
        self._hashes = []
        ordered = np.sort(hashes)
        same = ordered[1:] == ordered[:-1]
        some = np.unique(ordered[1:][:_SEARCHED][same[:_SEARCHED]][:1000])
        return int(np.count_nonzero(same)), _first_repeats(hashes, some)


def _first_repeats(
    hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], repeated: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> tuple[int, ...]:
    seen: set[int] = set()
    rows: list[int] = []
    if not len(repeated):
        return ()
    for start in range(0, len(hashes), 1_000_000):
        piece = hashes[start : start + 1_000_000]
        for at in np.flatnonzero(np.isin(piece, repeated)):
            value = int(piece[at])
            if value in seen:
                rows.append(start + int(at) + 1)
                if len(rows) >= EXAMPLES:
                    return tuple(rows)
            seen.add(value)
    return tuple(rows)
