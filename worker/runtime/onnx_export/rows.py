"""Some real rows of the packed data, as `data.transform` of the program takes them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ROWS = 64
"""Rows that ONNX and PyTorch both answer for."""
GROUPS = 4
"""Places in the file that they are taken from: it may be ordered."""


def sample_rows(data: Path, rows: int = ROWS) -> pa.Table | list[Image.Image]:
    """Rows of a table, or decoded pictures. Raises `FileNotFoundError` where the folder holds neither."""
    table, pictures = data / "table.parquet", data / "images.parquet"
    if table.is_file():
        return _taken(table, rows, None)
    if pictures.is_file():
        blobs = _taken(pictures, rows, ["image"])["image"].to_pylist()
        return [Image.open(io.BytesIO(blob)) for blob in blobs]
    raise FileNotFoundError(f"no table.parquet and no images.parquet in {data.name}")


def _taken(path: Path, rows: int, columns: list[str] | None) -> pa.Table:
    with pq.ParquetFile(path) as file:
        batches = list(_batches(file, rows, columns))
        schema = batches[0].schema if batches else file.schema_arrow
    return pa.Table.from_batches(batches, schema=schema).slice(0, rows)


def _batches(file: Any, rows: int, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    groups = file.num_row_groups
    chosen = sorted({round(place * (groups - 1) / max(1, GROUPS - 1)) for place in range(min(GROUPS, groups))})
    for group in chosen:
        each = -(-rows // len(chosen))
        yield from _first(file.iter_batches(batch_size=each, row_groups=[group], columns=columns, use_threads=False))


def _first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        return
