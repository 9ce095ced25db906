"""Parquet as batches: numbers, dates and texts keep their type, structs are taken apart, what training cannot use is
left out and named."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from codegen.profile.nested import NESTED_LEVELS, taken_apart
from codegen.profile.problems import fail
from codegen.profile.sources import NumbersAsNumbers, unique_names
from codegen.profile.streams import ByteSource
from codegen.profile.types import Finding, Severity
from worker.words import counted, size_words

_BATCH_CELLS = 2 << 20
MAX_CELLS = 20_000_000_000
MAX_DECODED_BYTES = 64 << 30
_THRIFT_LIMIT = 256 << 20
_INT64_DIGITS = 18
_LOST = "\ufffd"
"""Stands for a letter that was lost."""


class ParquetSource(NumbersAsNumbers):
    """A `TableSource` over one Parquet file; one inside gzip is unpacked to a temporary file below `scratch`."""

    def __init__(self, source: ByteSource, scratch: Path) -> None:
        self._source = source
        self._file = source.path.name
        path = _unpacked(source, scratch) if source.gzipped else source.path
        self._refuse_cut(path)
        try:
            self._parquet = pq.ParquetFile(
                path, thrift_string_size_limit=_THRIFT_LIMIT, thrift_container_size_limit=1_000_000
            )
            schema = self._parquet.schema_arrow
        except (pa.ArrowException, OSError) as error:
            self._broken(error)
        self._refuse_size()
        leaves = list(_leaves(schema))
        usable = [name for name, kind in leaves if _usable(kind)]
        self._left_out = [_without_nul(f"'{name}' ({kind})") for name, kind in leaves if not _usable(kind)]
        if repeated := [name for name, count in Counter(name for name, _ in leaves).items() if count > 1]:
            fail(
                "duplicate_headers",
                f"Several columns have the same name: {', '.join(map(repr, repeated[:10]))}.",
                "Rename them and save the file again.",
                column=_without_nul(repeated[0]),
                file=self._file,
            )
        if not usable:
            fail(
                "no_usable_column",
                "No column holds numbers, texts or dates.",
                "Pictures and lists are not read from Parquet: upload pictures in class folders as .zip.",
                file=self._file,
            )
        self._raw = usable
        self._names, self._findings = unique_names([_without_nul(name.strip()) for name in usable])
        plain = set(schema.names)
        self._findings += taken_apart([name for raw, name in zip(usable, self._names, strict=True) if raw not in plain])

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that can be used."""
        return self._names

    @property
    def description(self) -> str:
        """Format and compression."""
        return "parquet" + ("; gzip" if self._source.gzipped else "")

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Batches of text, Int64, UInt64, Float64 or Datetime columns."""
        total = max(1, self._parquet.metadata.num_rows)
        rows = decoded_bytes = 0
        size = max(1, min(65_536, _BATCH_CELLS // len(self._raw)))
        try:
            for batch in self._parquet.iter_batches(batch_size=size, columns=self._raw, use_threads=False):
                rows += batch.num_rows
                decoded_bytes += batch.nbytes
                if decoded_bytes > MAX_DECODED_BYTES:
                    self._too_large(f"more than {size_words(MAX_DECODED_BYTES)} of values")
                yield _frame(_apart(batch).select(self._raw), self._names), rows / total
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self._broken(error)

    def findings(self) -> list[Finding]:
        """Columns left out, changed names."""
        if not self._left_out:
            return self._findings
        return [
            *self._findings,
            Finding(
                code="unsupported_columns",
                severity=Severity.WARNING,
                message=f"{counted(len(self._left_out), 'column was', 'columns were')} left out: "
                f"{', '.join(self._left_out[:10])}.",
                meaning="Only numbers, texts, dates, booleans and structs of these are used, down to "
                f"{NESTED_LEVELS} levels. Write what matters of a list, e.g. how long it is, to a column of its own.",
            ),
        ]

    def _refuse_cut(self, path: Path) -> None:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            size_bytes = stream.tell()
            stream.seek(max(0, size_bytes - 4))
            if size_bytes < 12 or stream.read(4) != b"PAR1":
                fail(
                    "cut_file",
                    f"The Parquet file has no end mark: it was cut after {size_bytes:,} bytes.",
                    "Upload the file again, or recreate it.",
                    file=self._file,
                )

    def _refuse_size(self) -> None:
        meta = self._parquet.metadata
        if meta.num_rows == 0:
            fail("header_only", "The Parquet file has columns but no rows.", "Check how it was made.", file=self._file)
        if meta.num_rows * meta.num_columns > MAX_CELLS:
            self._too_large(f"{counted(meta.num_rows, 'row')} x {counted(meta.num_columns, 'column')}")

    def _too_large(self, what: str) -> NoReturn:
        fail(
            "too_large",
            f"The table holds {what}, more than can be read.",
            "Upload a sample of the rows, or only the columns that matter.",
            file=self._file,
        )

    def _broken(self, error: Exception) -> NoReturn:
        fail(
            "broken_file",
            f"The Parquet file is broken: {str(error).splitlines()[0][:200]}",
            "Upload the file again, or recreate it.",
            file=self._file,
        )


def _without_nul(text: str) -> str:
    return text.replace("\0", _LOST)


def _unpacked(source: ByteSource, scratch: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".parquet", delete=False) as target, source.open() as stream:
        for chunk in stream.chunks():
            target.write(chunk)
    return Path(target.name)


def _leaves(fields: Iterable[pa.Field], above: str = "", level: int = 1) -> Iterator[tuple[str, pa.DataType]]:
    """(dotted name, type) of every column, structs taken apart."""
    for field in fields:
        if pa.types.is_struct(field.type) and level < NESTED_LEVELS:
            yield from _leaves(field.type, f"{above}{field.name}.", level + 1)
        else:
            yield above + field.name, field.type


def _apart(batch: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([batch])
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _usable(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def _target_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_uint64(kind):
        return pa.uint64()
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return pa.int64() if kind.precision <= _INT64_DIGITS else pa.large_string()  # both keep every digit
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.timestamp("us")
    return pa.large_string()


def _frame(table: pa.Table, names: tuple[str, ...]) -> pl.DataFrame:
    columns = {}
    for name, column in zip(names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type) and column.type.unit in ("s", "ms"):
            column = _in_microseconds(column)
        if pa.types.is_timestamp(column.type) and column.type.tz:
            column = column.cast(pa.timestamp("us", tz="UTC"), safe=False)
        columns[name] = column.cast(_target_type(column.type), safe=False)
        columns[name].validate(full=True)  # text that is not UTF-8 passes the reader
    # As in a CSV no text holds NUL, which no database can.
    return pl.DataFrame(pa.table(columns)).with_columns(pl.col(pl.String).str.replace_all("\0", _LOST, literal=True))


def _in_microseconds(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same moments, null for those so far off that they would come round again to other years."""
    first, last = (
        pa.scalar(moment, moments.type) for moment in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
    )
    near = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
    return pc.if_else(near, moments, pa.scalar(None, moments.type)).cast(pa.timestamp("us", moments.type.tz))
