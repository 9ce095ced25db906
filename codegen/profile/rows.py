"""Reading packed datasets back, only as much as is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from codegen.profile.types import IMAGES_FILE, TABLE_FILE

_IMAGE = "image"


def packed_file(packed: Path) -> Path:
    """The packed file of a dataset folder. Raises `FileNotFoundError`."""
    for name in (TABLE_FILE, IMAGES_FILE):
        if (packed / name).is_file():
            return packed / name
    raise FileNotFoundError(f"no packed dataset in {packed.name}")


def rows_read(packed: Path, offset: int, limit: int) -> tuple[list[str], list[list[Any]]]:
    """See `codegen.profile.read_rows`."""
    if offset < 0 or limit < 0:
        raise ValueError("offset and limit must not be negative")
    with pq.ParquetFile(packed_file(packed)) as parquet:
        columns = [name for name in parquet.schema_arrow.names if name != _IMAGE]
        rows: list[list[Any]] = []
        for table in _slices(parquet, columns, offset, limit):
            found = [[_json_value(value) for value in column.to_pylist()] for column in table.columns]
            rows.extend(list(row) for row in zip(*found, strict=True))
    return columns, rows


def rows_with(path: Path, column: str, values: list[str], limit: int) -> tuple[int, ...]:
    """1-based rows of a packed file whose `column`, as text, is one of `values`; the first `limit`."""
    wanted = pa.array(values, pa.string())
    rows: list[int] = []
    start = 0
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(columns=[column], use_threads=False):
            texts = batch.column(0).cast(pa.string())
            found = pc.indices_nonzero(pc.is_in(texts, value_set=wanted)).to_pylist()
            rows.extend(start + int(at) + 1 for at in found[: limit - len(rows)])
            if len(rows) >= limit:
                break
            start += batch.num_rows
    return tuple(rows)


def numbers_in(path: Path, column: str) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """(1-based row of the first, numbers with NaN for missing ones) of a packed column, piece by piece."""
    first = 1
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(columns=[column], use_threads=False):
            yield first, batch.column(0).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            first += batch.num_rows


def _slices(parquet: pq.ParquetFile, columns: list[str], offset: int, limit: int) -> Iterator[pa.Table]:
    start = 0
    for number in range(parquet.num_row_groups):
        count = parquet.metadata.row_group(number).num_rows
        first, last = max(offset, start), min(offset + limit, start + count)
        if first < last:
            group = parquet.read_row_group(number, columns=columns, use_threads=False)
            yield group.slice(first - start, last - first)
        start += count
        if start >= offset + limit:
            return


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else value
