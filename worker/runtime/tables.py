"""Rows to predict for, read as the data to train on is read: format, encoding, delimiter, names of columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from worker.runtime.row_text import (
    LOST,
    SAMPLE_ROWS,
    EmptyError,
    Form,
    UnevenError,
    decoded,
    delimiter_of,
    empty_tail,
    evened,
    form_of,
    has_names,
    names_apart,
    names_of,
    records_of,
)
from worker.runtime.sheets import SHEETS, SheetError, columns_of, sheet_rows
from worker.words import counted, without_nul

MISSING = (
    "", "?", "-", "--", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "None", "nil", "<NA>", "n.a.",
    "N.A.", "NaT", "k.A.", "\\N", "#N/A", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!", "#NAME?", "#NUM!",
    "#ZAHL!", "#NULL!",
)  # fmt: skip
"""Texts that mean "no value": those of `codegen.profile.values`."""
JSON = (".json", ".jsonl", ".ndjson")
NESTED_LEVELS = 5
"""A name of a column has at most so many parts: `a.b.c.d.e`; as in `codegen.profile.nested`."""
DECIMAL_COMMA = b"decimal_comma"
"""Key of the metadata of a table where `1,234` is rather one and a bit."""
FORM = b"form"
"""Key of the metadata of a table: how the data to train on was written, by which it was read, as JSON."""
PLAIN_POINTS = b"plain_points"
"""Key of the metadata of a column of texts where the point in `1.234` is that of a fraction, whatever it was in
training."""
_FORMATS = "Use CSV, TSV, JSON, JSON lines, Parquet, .xlsx or .ods; for a file that was cut, send it again."
_QUOTES = "A delimiter inside a text needs quotes around the text; a missing value still needs its delimiter."
_ROW_SHOWN = 80
_BLOCK_BYTES_MAX = 1 << 30
_HEAD_BYTES = 16
_PARQUET = b"PAR1"
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive or a spreadsheet", "Unpack it; name a spreadsheet .xlsx or .ods."),
    (b"PK\x05\x06", "an empty zip archive", ""),
    (b"\x1f\x8b", "compressed with gzip", "Unpack it."),
    (b"BZh91AY&SY", "compressed with bzip2", "Unpack it."),
    (b"\xfd7zXZ", "compressed with xz", "Unpack it."),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it."),
    (b"\x89PNG", "a PNG picture", ""),
    (b"\xff\xd8\xff", "a JPEG picture", ""),
    (b"GIF8", "a GIF picture", ""),
    (b"%PDF-", "a PDF document", ""),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Office file", "Save the sheet as CSV."),
)
"""(first bytes, what such a file is, what to do with it)"""


class InputError(Exception):
    """The input is at fault; names file, row or column."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_rows(path: Path, preprocess: Mapping[str, Any] | None = None) -> pa.Table:
    """A table from .csv, .tsv, .json, .jsonl, .parquet, .xlsx or .ods; texts stay texts. Raises `InputError`.

    `preprocess`: what is noted of the data, which text is read like.
    """
    form = form_of(preprocess or {})
    if path.suffix in SHEETS:
        return _sheet(path)
    try:
        _refuse_foreign(path)
        if path.suffix == ".parquet":
            return _without_nul(_apart(pq.read_table(path)))
        text, _, _ = text_of(path, form)
        if path.suffix in JSON:
            return _table(partial(_json_rows, without_nul(text), path.suffix)).replace_schema_metadata(_noted(form))
        return _delimited(text, form)
    except (pa.ArrowInvalid, OSError, csv.Error) as error:
        said = str(error).replace(str(path), path.name).rstrip(".")
        raise InputError(f"{path.name} cannot be read: {said}.", _FORMATS) from None


def _sheet(path: Path) -> pa.Table:
    try:
        names, rows, fractions = sheet_rows(path)
    except SheetError as error:
        raise InputError(str(error), error.hint) from None
    columns = columns_of(names_apart(names), rows)
    marks = ({PLAIN_POINTS: b"1"} if fraction else None for fraction in fractions)
    fields = [pa.field(name, pa.string(), metadata=mark) for name, mark in zip(columns, marks, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _refuse_foreign(path: Path) -> None:
    """Raise `InputError` for a file that by its first bytes is something else than rows."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_PARQUET) and path.suffix != ".parquet":
        raise InputError(f"{path.name} is a Parquet file by its content.", "Give it a name that ends in .parquet.")
    for magic, what, hint in _FOREIGN:
        if head.startswith(magic):
            raise InputError(f"{path.name} is {what}; this model takes rows of a table.", f"{hint} {_FORMATS}".strip())


def text_of(path: Path, form: Form) -> tuple[str, str, bytes]:
    """(text, its codec, the mark in front), as data to train on. Raises `InputError`."""
    text, codec, mark = decoded(path.read_bytes(), form, is_json=path.suffix in JSON)
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        raise InputError(f"{path.name}, line {line}: it contains a NUL byte, so it is not plain text.", _FORMATS)
    return text, codec, mark


def _noted(form: Form) -> dict[bytes, bytes]:
    return {FORM: json.dumps(asdict(form)).encode()}


def form_noted(table: pa.Table) -> Form:
    """By which form `read_rows` has read the table."""
    noted = json.loads((table.schema.metadata or {}).get(FORM, b"{}"))
    fields: dict[str, Any] = {name: tuple(of) if isinstance(of, list) else of for name, of in noted.items()}
    return Form(**fields)


def _delimited(text: str, form: Form) -> pa.Table:
    delimiter = delimiter_of(text, form)
    sample = list(islice(records_of(text, delimiter), SAMPLE_ROWS))
    try:
        names = names_of(sample, form)
    except ValueError as error:
        said, hint = str(error), "Give the columns in the order of the data, or their names in the first line."
        hint = "Give a header line and at least one row." if isinstance(error, EmptyError) else hint
        raise InputError(f"{said[0].upper()}{said[1:]}.", hint) from None
    first, names_first = sample[0], has_names(sample[0], form)
    try:
        table = _plain(text, delimiter, names).slice(1 if names_first else 0)
    except pa.ArrowInvalid as error:
        table = _evened(text, delimiter, names, first, names_first)
        if table is None:
            raise error from None
    return table.replace_schema_metadata(_noted(form) | ({DECIMAL_COMMA: b"1"} if delimiter == ";" else {}))


def _plain(text: str, delimiter: str, names: list[str]) -> pa.Table:
    body = text.encode()
    options = pacsv.ReadOptions(column_names=names, use_threads=False)  # threads lose count of rows
    options.block_size = min(max(options.block_size, len(body)), _BLOCK_BYTES_MAX)  # a row fits: texts may be long
    return pacsv.read_csv(
        pa.BufferReader(body),
        read_options=options,
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _evened(text: str, delimiter: str, names: list[str], first: Sequence[str], names_first: bool) -> pa.Table | None:
    """Rows that end in other numbers of empty fields than the first line does; None where all are as wide as it.

    Raises `InputError` for one that lacks fields, or has others than empty ones more.
    """
    width = len(names) - (empty_tail(first) if names_first else 0)
    records = list(records_of(text, delimiter))[1 if names_first else 0 :]
    if all(len(record) == len(names) for record in records):
        return None
    try:
        rows = list(evened(records, width))
    except UnevenError as error:
        number, verb = error.number + 1, "names" if names_first else "has"
        told = f"Row {number} has {counted(len(error.record), 'field')} where the first line {verb} {width}"
        raise InputError(f"{told}: {delimiter.join(error.record)[:_ROW_SHOWN]}", _QUOTES) from None
    columns = list(zip(*rows, strict=True)) or [()] * width
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=False)})


def _json_rows(text: str, suffix: str, fraction: type[str] | None = None) -> list[Any]:
    """The rows; `fraction`: what numbers that are not whole become, if no floats."""
    if suffix != ".json":
        return _json_lines(text, fraction)
    try:
        body = json.loads(text, parse_float=fraction)
    except (ValueError, RecursionError) as error:  # also of a number with thousands of figures
        raise InputError(f"Not JSON: {error}", "Give a list of objects, one per row.") from None
    if isinstance(body, dict) and isinstance(body.get("rows"), list):
        return _under_names(body.get("columns"), body["rows"])
    return body if isinstance(body, list) else [body]


def _under_names(names: Any, rows: list[Any]) -> list[Any]:
    """Rows of `{columns, rows}` as objects; those that are some stay. Raises `InputError` for one of another length."""
    if not names:
        return rows
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("The columns are no list of names.", 'Write {"columns": ["a", "b"], "rows": [[1, 2]]}.')
    names = names_apart(names)
    for number, row in enumerate(rows, 1):
        if isinstance(row, list) and len(row) != len(names):
            told = f"Row {number} has {counted(len(row), 'value')} where there are {counted(len(names), 'column')}."
            raise InputError(told, "Give each row a value for each column; null where it is missing.")
    return [dict(zip(names, row, strict=True)) if isinstance(row, list) else row for row in rows]


def _json_lines(text: str, fraction: type[str] | None) -> list[Any]:
    """The values of the lines, which only \\n ends: `str.splitlines` would cut texts at signs that JSON allows."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line, parse_float=fraction))
        except (ValueError, RecursionError) as error:
            raise InputError(f"Line {number} is not JSON: {error}", "Write one object per line.") from None
    return rows


def _table(read: Callable[..., list[Any]]) -> pa.Table:
    """Rows as a table; a column of mixed types becomes text. `read`: as `_json_rows`."""
    flat, as_written = _flat_rows(read()), list[dict[str, Any]]()
    keys = list(dict.fromkeys(name for row in flat for name in row))
    columns: dict[str, Any] = {}
    for key, name in zip(keys, names_apart([_whole(key) for key in keys]), strict=True):
        values = [row.get(key) for row in flat]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            if any(isinstance(value, float) for value in values):  # as a word, `1.10` is another one than `1.1`
                as_written = as_written or _flat_rows(read(fraction=str))
                values = [row.get(key) for row in as_written]
            columns[name] = pa.array([_word(value) for value in values], pa.string())
    return pa.table(columns)


def _flat_rows(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows, the objects in them taken apart, without words for what is missing. Raises `InputError` for one that is no
    object."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"Row {number} is not an object with column names.", 'Write rows as {"column": value}.')
    return [{name: None if value in MISSING else value for name, value in _flat(row)} for row in rows]


def _flat(row: Mapping[str, Any], above: str = "", level: int = 1) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every field, objects taken apart."""
    for key, value in row.items():
        if isinstance(value, dict) and level < NESTED_LEVELS:
            yield from _flat(value, f"{above}{key}.", level + 1)
        else:
            yield f"{above}{key}", value


def _word(value: Any) -> str | None:
    """A value of a column of mixed types, spelled as in JSON; lists were left out of training."""
    if value is None or isinstance(value, list | dict):
        return None
    return str(value).lower() if isinstance(value, bool) else _whole(str(value))


def _whole(text: str) -> str:
    """Without halves of letters, such as `\\ud800`, which JSON allows and UTF-8 does not; as in training."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _apart(table: pa.Table) -> pa.Table:
    """Structs of a Parquet file as columns of dotted names."""
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table.rename_columns(names_apart(table.column_names))


def _without_nul(table: pa.Table) -> pa.Table:
    """NUL as in training: a sign for a lost letter."""
    names = [name.replace("\0", LOST) for name in table.column_names]
    columns = [_column_without_nul(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=names, metadata=table.schema.metadata)


def _column_without_nul(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    texts = column.cast(kind)
    return pc.replace_substring(texts, "\0", LOST) if pc.any(pc.match_substring(texts, "\0")).as_py() else column
