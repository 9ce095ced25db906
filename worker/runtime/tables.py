"""Rows to predict for, read as the data to train on is read: delimiter, encoding, spelling of numbers and dates."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

MISSING = (
    "", "?", "-", "--", "NA", "N/A", "n/a", "na", "NaN", "nan", "-nan", "NULL", "null", "None", "nil", "<NA>", "#N/A",
)  # fmt: skip
"""Texts that mean "no value": those of `codegen.profile.values`."""
DATE_FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
    "%d-%m-%Y", "%d %b %Y", "%b %d, %Y",
)  # fmt: skip
DELIMITERS = (",", "\t", ";", "|")
_SAMPLE_ROWS = 200
_DECIMAL_COMMA = b"decimal_comma"
"""Key of the metadata of a table whose numbers may be spelled `3,14`."""
_FORMATS = "Use CSV, TSV, JSON, JSON lines or Parquet; for a file that was cut, send it again."
_HEAD_BYTES = 16
_PARQUET = b"PAR1"
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive or an Excel file", "Unpack it, or save the sheet as CSV."),
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
_THOUSANDS_SPELLED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
_COMMA_SPELLED = r"^[+-]?(\d{1,3}(\.\d{3})+|\d+),\d+$"


class InputError(Exception):
    """The input is at fault; names file, row or column."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_rows(path: Path) -> pa.Table:
    """A table from .csv, .tsv, .json, .jsonl or .parquet; texts stay texts. Raises `InputError`."""
    try:
        _refuse_foreign(path)
        if path.suffix == ".parquet":
            return pq.read_table(path)
        text = _text(path)
        if path.suffix in {".json", ".jsonl", ".ndjson"}:
            return _table(_json_rows(text, path.suffix))
        return _delimited(text)
    except (pa.ArrowInvalid, OSError, csv.Error) as error:
        said = str(error).replace(str(path), path.name).rstrip(".")
        raise InputError(f"{path.name} cannot be read: {said}.", _FORMATS) from None


def _refuse_foreign(path: Path) -> None:
    """Raise `InputError` for a file that by its first bytes is something else than rows."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_PARQUET) and path.suffix != ".parquet":
        raise InputError(f"{path.name} is a Parquet file by its content.", "Give it a name that ends in .parquet.")
    for magic, what, hint in _FOREIGN:
        if head.startswith(magic):
            raise InputError(f"{path.name} is {what}; this model takes rows of a table.", f"{hint} {_FORMATS}".strip())


def _text(path: Path) -> str:
    """UTF-8 or, by its mark, UTF-16; else Windows-1252 or Latin-1, as for data to train on. Raises `InputError`."""
    body = path.read_bytes()
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = body.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = _western(body)
    if (at := text.find("\0")) >= 0:
        line = text.count("\n", 0, at) + 1
        raise InputError(f"{path.name}, line {line}: it holds a NUL byte, so it is no plain text.", _FORMATS)
    return text


def _western(body: bytes) -> str:
    if any(byte in body for byte in range(0x80, 0xA0)):
        with suppress(UnicodeDecodeError):
            return body.decode("cp1252")
    return body.decode("latin-1")


def _delimited(text: str) -> pa.Table:
    delimiter = max(DELIMITERS, key=lambda delimiter: _score(text, delimiter))
    header = next(_records(text, delimiter), [])
    if not any(name.strip() for name in header):
        raise InputError("The input is empty.", "Give a header line and at least one row.")
    names = _unique(header)
    table = pacsv.read_csv(
        pa.BufferReader(text.encode()),
        read_options=pacsv.ReadOptions(column_names=names, use_threads=False),  # threads lose count of rows
        parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    ).slice(1)
    return table.replace_schema_metadata({_DECIMAL_COMMA: b"1"}) if delimiter == ";" else table


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    """Fields of each line that is not blank."""
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def _score(text: str, delimiter: str) -> tuple[float, int]:
    """(share of rows as wide as the header, its width): what the file is separated by has the best."""
    try:
        rows = list(islice(_records(text, delimiter), _SAMPLE_ROWS))
    except csv.Error:
        return 0.0, 0
    width = len(rows[0]) if rows else 0
    return (round(sum(len(row) == width for row in rows) / len(rows), 2), width) if width > 1 else (0.0, width)


def _unique(header: Sequence[str]) -> list[str]:
    """Names without blanks and repeats: a second `name` is `name_2`, as in the data to train on."""
    names: list[str] = []
    stripped = [name.strip() for name in header]
    for number, given in enumerate(stripped, start=1):
        name = given or f"column_{number}"
        copy = 2
        while name in names or (name != given and name in stripped):
            name = f"{given or f'column_{number}'}_{copy}"
            copy += 1
        names.append(name)
    return names


def _json_rows(text: str, suffix: str) -> list[Any]:
    if suffix != ".json":
        return _json_lines(text)
    try:
        body = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"Not JSON: {error}", "Give a list of objects, one per row.") from None
    if isinstance(body, dict) and isinstance(body.get("rows"), list):
        names = body.get("columns")
        return [dict(zip(names, row, strict=False)) for row in body["rows"]] if names else body["rows"]
    return body if isinstance(body, list) else [body]


def _json_lines(text: str) -> list[Any]:
    """The values of the lines, which only \\n ends: `str.splitlines` would cut texts at signs that JSON allows."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"Line {number} is not JSON: {error}", "Write one object per line.") from None
    return rows


def _table(rows: list[Any]) -> pa.Table:
    """Rows (objects) as a table; a column of mixed types becomes text."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"Row {number} is not an object with column names.", 'Write rows as {"column": value}.')
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(str(name) for row in rows for name in row):
        values = [None if row.get(name) in MISSING else row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.array([None if value is None else str(value) for value in values])
    return pa.table(columns)


def as_trained(preprocess: Mapping[str, Any], table: pa.Table) -> pa.Table:
    """The table as the packed data to train on is: spaces and missing markers gone, numbers and dates spelled plainly.

    Texts that are neither stay: the program's own `transform` tells them with their row. Raises `InputError` for dates
    that can be read in two ways or do not fit the others.
    """
    table = _as_spelled(preprocess, table)
    comma = (table.schema.metadata or {}).get(_DECIMAL_COMMA) == b"1"
    kinds = _kinds(preprocess)
    for at, field in enumerate(table.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        texts = _without_markers(table.column(at))
        kind = kinds.get(field.name)
        if kind == "numeric":
            texts = _plain_numbers(texts, comma)
        elif kind == "dates":
            texts = _plain_dates(texts, field.name)
        table = table.set_column(at, field.name, texts)
    return table


def _as_spelled(preprocess: Mapping[str, Any], table: pa.Table) -> pa.Table:
    """Truth values (`true`, `True`, `TRUE`) as the training data spelled them: formats and programs differ in it."""
    for column, vocabulary in _vocabularies(preprocess).items():
        spelled = {value.lower(): value for value in vocabulary}
        if not spelled or len(spelled) < len(vocabulary) or not spelled.keys() <= {"true", "false"}:
            continue
        for at in table.schema.get_all_field_indices(column):
            kind = table.schema.field(at).type
            if not (pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                continue
            texts = pc.utf8_trim_whitespace(table.column(at).cast(pa.string()))
            lowered = pc.utf8_lower(texts)
            for lower, value in spelled.items():
                texts = pc.if_else(pc.equal(lowered, lower), value, texts)
            table = table.set_column(at, column, texts)
    return table


def _without_markers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    stripped = pc.utf8_trim_whitespace(column.cast(pa.string()))
    missing = pc.is_in(stripped, value_set=pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), stripped)


def _kinds(preprocess: Mapping[str, Any]) -> dict[str, str]:
    """Kind of each column of numbers, as data.py notes it; a person's own data.py may note anything."""
    noted = preprocess.get("numeric")
    entries = [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
    return {str(entry.get("column")): str(entry.get("kind")) for entry in entries}


def _vocabularies(preprocess: Mapping[str, Any]) -> dict[str, list[str]]:
    """Known values of each column of categories, as data.py notes them."""
    noted = preprocess.get("categorical")
    entries = [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []
    return {str(entry.get("column")): [str(value) for value in entry.get("values") or ()] for entry in entries}


def _plain_numbers(texts: pa.ChunkedArray, comma: bool) -> pa.ChunkedArray:
    """`1,234.5` and, where a comma may be decimal, `1.234,5` as 1234.5; `+2` as 2."""
    texts = pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")
    if comma:
        plain = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
        spelled = pc.match_substring_regex(texts, _COMMA_SPELLED)
    else:
        plain = pc.replace_substring(texts, ",", "")
        spelled = pc.match_substring_regex(texts, _THOUSANDS_SPELLED)
    return pc.if_else(spelled, plain, texts)


def _plain_dates(texts: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with suppress(pa.ArrowInvalid):
            return texts.cast(kind)
    readings = [pc.strptime(texts, format=form, unit="us", error_is_null=True) for form in DATE_FORMATS]
    most = max(len(reading) - reading.null_count for reading in readings)
    if most == 0:
        return texts
    fitting = [reading for reading in readings if len(reading) - reading.null_count == most]
    _refuse_doubtful(texts.to_pylist(), [reading.to_pylist() for reading in fitting], name)
    return fitting[0]


def _refuse_doubtful(values: list[str | None], readings: list[list[datetime | None]], name: str) -> None:
    for row, (value, *dates) in enumerate(zip(values, *readings, strict=True), start=1):
        where, hint = f"Row {row}: column {name!r}: {value!r}", "Write dates like 2020-01-31."
        if value is not None and dates[0] is None:
            raise InputError(f"{where} is no date like the others.", hint)
        if len(different := {date for date in dates if date is not None}) > 1:
            raise InputError(f"{where} may be {' or '.join(f'{date:%d %B %Y}' for date in sorted(different))}.", hint)
