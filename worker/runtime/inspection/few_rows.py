"""A few rows of a packed dataset in a folder of their own, for work that must not wait for all of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from worker.runtime.spec import Spec, as_spec

LIMIT_BYTES = 2 << 20
"""Packed data up to this size are taken whole."""
LEAST_ROWS = 128
GROUPS = 8
"""Places in a file that rows are taken from."""


@dataclass(frozen=True, kw_only=True)
class FewRows:
    """A data folder for a program's `data.load`."""

    folder: Path
    share: float
    """Rows in it over all rows."""

    @property
    def whole(self) -> bool:
        """Whether it holds all rows."""
        return self.share >= 1.0


class GivenShapeSpec(Spec):
    """A spec whose own `shape`, which the profile of all rows wrote, wins over what a few rows teach.

    But for the inputs themselves: those that are the same in all of the few rows are left out, as they are there.
    Rows are split at random: a few may be of one group or moment only, though all of them are not.
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        data = self.get("data", {})
        if "column" in (split := data.get("split", {})):
            self["data"] = as_spec({**data, "split": {**split, "by": "random"}})

    def with_shape(self, shape: dict[str, Any]) -> Spec:
        """The same spec with what is not known yet added to `spec.shape`."""
        given = dict(self.get("shape", {}))
        sizes = dict(zip(given.get("categorical", ()), given.get("cardinalities", ()), strict=False))
        if kept := [name for name in shape.get("categorical", ()) if name in sizes]:
            given["cardinalities"] = [sizes[name] for name in kept]
        inputs = {name: shape[name] for name in ("features", "categorical") if name in shape}
        return Spec({**self, "shape": as_spec({**shape, **given, **inputs})})


@contextmanager
def few_rows(data: Path, spec: Spec, limit_bytes: int = LIMIT_BYTES) -> Iterator[FewRows]:
    """The folder itself if it is small, else a temporary one with rows from several places of each file.

    Of a forecast of several series these are all rows of some: of all of them each would have too few to look back.
    """
    series = str(spec.get("data", {}).get("series", ""))
    files = sorted(data.glob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    if size <= limit_bytes or not files:
        yield FewRows(folder=data, share=1.0)
        return
    with tempfile.TemporaryDirectory(prefix="few-rows-") as name:
        folder, kept, rows = Path(name), 0, 0
        for file in files:
            cut = _cut_series if series else _cut
            found, total = cut(file, folder / file.name, limit_bytes / size, series)
            kept, rows = kept + found, rows + total
        for file in data.glob("*.json"):
            shutil.copyfile(file, folder / file.name)
        yield FewRows(folder=folder, share=min(1.0, kept / max(1, rows)))


def _cut(source: Path, target: Path, share: float, _series: str) -> tuple[int, int]:
    """Write some rows of `source`; returns (rows written, rows there are)."""
    with pq.ParquetFile(source) as file:
        total, groups = file.metadata.num_rows, file.num_row_groups
        wanted = min(total, max(LEAST_ROWS, int(total * share)))
        chosen = sorted({round(place * (groups - 1) / max(1, GROUPS - 1)) for place in range(min(GROUPS, groups))})
        pieces: list[pa.RecordBatch] = []
        for number, group in enumerate(chosen):
            left = wanted - sum(piece.num_rows for piece in pieces)
            rows = -(-left // (len(chosen) - number))
            batches = file.iter_batches(batch_size=max(1, rows), row_groups=[group], use_threads=False)
            first = next(batches, None) if rows > 0 else None
            if first is not None:
                pieces.append(first)
        table = pa.Table.from_batches(pieces, schema=file.schema_arrow)
    pq.write_table(table, target)
    return table.num_rows, total


def _cut_series(source: Path, target: Path, share: float, series: str) -> tuple[int, int]:
    """Write all rows of some series, long and short ones; returns (rows written, rows there are).

    Two at least: an input that is the same in all rows would be left out.
    """
    with pq.ParquetFile(source) as file:
        total, names = file.metadata.num_rows, file.read(columns=[series], use_threads=False)[series]
        counts = pa.Table.from_struct_array(pc.value_counts(pc.drop_null(names))).sort_by([("counts", "descending")])
        wanted = max(LEAST_ROWS, int(total * share))
        many = min(counts.num_rows, max(2, round(wanted * counts.num_rows / total)))
        places = np.unique(np.linspace(0, counts.num_rows - 1, many).astype(int))
        chosen = counts["values"].take(pa.array(places)).combine_chunks()
        pieces = [
            batch.filter(pc.is_in(batch[series], value_set=chosen)) for batch in file.iter_batches(use_threads=False)
        ]
        table = pa.Table.from_batches(pieces, schema=file.schema_arrow)
    pq.write_table(table, target)
    return table.num_rows, total
