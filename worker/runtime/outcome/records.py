"""Values of the packed data that results show beside a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from worker.runtime.columns import Columns
from worker.runtime.spec import Spec

TABLE_FILE = "table.parquet"
IMAGES_FILE = "images.parquet"
FEATURE_KINDS = ("numeric", "dates", "categorical", "texts")


def features(folder: Path, spec: Spec, rows: Tensor) -> pa.Table:
    """The feature columns of these rows, as uploaded; of pictures the column `name`. Empty where there is no file."""
    if (folder / IMAGES_FILE).exists() and str(spec.task).startswith("image"):
        return _rows(folder / IMAGES_FILE, ["name"], rows)
    if not (folder / TABLE_FILE).exists():
        return pa.table({})
    wanted: list[Any] = [name for kind in FEATURE_KINDS for name in spec.shape.get(kind, [])]
    return _rows(folder / TABLE_FILE, wanted, rows)


def _rows(path: Path, wanted: list[Any], rows: Tensor) -> pa.Table:
    table = Columns(path)
    table = table.select([name for name in wanted if name in table.column_names]).take(rows.numpy())
    return pa.table({name: table[name] for name in table.column_names})
