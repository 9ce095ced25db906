"""A table in a file of which a column, or some rows, are in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from worker.runtime.pulse import pulse

VALUES_AT_ONCE = 1 << 20
"""So many are read at once: of a small file several columns, of a large one a part of the rows."""
BLOCK_ROWS = 1 << 14
"""At most; of fewer than 2^15 torch works off a column without waking its threads."""
PIECE_BYTES = 1 << 29
"""Of a larger column of texts the rows come in pieces of about this: one with 2 GiB of text cannot be held."""


class Columns:
    """Rows of a Parquet file, in the words of `pyarrow.Table`, that are read when they are asked for.

    Whoever asks for the columns in their order is fastest.
    """

    def __init__(
        self, file: Path | pq.ParquetFile, names: Sequence[str] | None = None, rows: NDArray[np.int64] | None = None
    ) -> None:
        """`names` and `rows` (numbers in the file): those and no other, in their order."""
        self._file = pq.ParquetFile(file) if isinstance(file, Path) else file
        self._file_rows = int(self._file.metadata.num_rows)
        self._rows = np.arange(self._file_rows) if rows is None else rows
        self._here: dict[str, pa.ChunkedArray] = {}
        self.column_names = list(self._file.schema_arrow.names if names is None else names)

    @property
    def num_rows(self) -> int:
        """Rows of each column."""
        return len(self._rows)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A column, read with some that follow it if the file is small. Raises `KeyError`."""
        if name not in self.column_names:
            raise KeyError(name)
        if name not in self._here:
            self._here = {}
            first, count = self.column_names.index(name), max(1, VALUES_AT_ONCE // max(1, self._file_rows))
            names = self.column_names[first : first + count]
            here = self._file.read(columns=names, use_threads=count > 1)
            self._here = {each: here[each] for each in names}
            pulse.beat()
        return _taken(self._here[name], self._rows)

    def select(self, names: Sequence[str]) -> Columns:
        """Those columns alone."""
        return Columns(self._file, names, self._rows)

    def take(self, rows: NDArray[np.int64]) -> Columns:
        """Those rows alone, in that order."""
        return Columns(self._file, self.column_names, self._rows[rows])

    def blocks(self) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """(places among the rows, the rows there), all of them once, as they come in the file."""
        place, start = np.full(self._file_rows, -1), 0
        place[self._rows] = np.arange(len(self._rows))
        rows_at_once = max(1, min(BLOCK_ROWS, VALUES_AT_ONCE // max(1, len(self.column_names))))
        for group in range(self._file.num_row_groups):
            records = self._file.read_row_group(group, columns=self.column_names)
            here = place[start : start + records.num_rows]
            start += records.num_rows
            wanted = np.flatnonzero(here >= 0)
            for first in range(0, len(wanted), rows_at_once):
                some = wanted[first : first + rows_at_once]
                yield here[some], records.take(pa.array(some))
                pulse.beat()


def any_length(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, its texts of a type of which different ones may have more than 2 GiB together, where they may."""
    large = pa.types.is_string(column.type) and column.nbytes > PIECE_BYTES
    return column.cast(pa.large_string()) if large else column


def _taken(column: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """The values of these rows, in that order."""
    if (large := any_length(column)) is column:
        return column.take(pa.array(rows))
    whole = large.combine_chunks()
    step = max(1, len(whole) * PIECE_BYTES // column.nbytes)
    pieces = [whole.take(pa.array(rows[start : start + step])).cast(pa.string()) for start in range(0, len(rows), step)]
    return pa.chunked_array(pieces, pa.string())
