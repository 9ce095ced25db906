"""Batches between the first and the second reading, on disk (Arrow, lz4), and the packed Parquet written from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS = 100_000
_GROUP_BYTES = 32 << 20


class Spool:
    """Writes batches of one schema, then reads them back any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._sink = pa.OSFile(str(path), "wb")

    def write(self, batch: pl.DataFrame) -> None:
        """Append a batch."""
        table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writer = pa.ipc.new_file(self._sink, table.schema, options=options)
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish writing."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._sink.close()

    def read(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """(batch, share read so far), in the order written."""
        with pa.OSFile(str(self._path), "rb") as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                table = pa.Table.from_batches([reader.get_batch(number)])
                yield pl.DataFrame(table), (number + 1) / reader.num_record_batches


class PackedWriter:
    """Parquet (zstd) in row groups; small batches are gathered. A file appears only after a good end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._writer = pq.ParquetWriter(self._part, schema, compression="zstd", compression_level=3)
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def __enter__(self) -> PackedWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._flush()
                self._writer.close()
            except BaseException:
                self._abandon()
                raise
            self._part.replace(self._path)
        else:
            self._abandon()

    def write(self, table: pa.Table) -> None:
        """Append rows; columns must be those of the schema."""
        self._tables.append(table.select(self._schema.names).cast(self._schema))
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            table = pa.concat_tables(self._tables).combine_chunks()
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._tables, self._rows, self._bytes = [], 0, 0

    def _abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._part.unlink(missing_ok=True)
