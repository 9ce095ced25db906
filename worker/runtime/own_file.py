"""A person's own file of rows with the answer added to each: nothing else of it changes.

Of text (CSV, TSV, JSON, JSON lines) every sign stays: encoding, delimiter, quotes, order, the spelling of every cell.
What is added is written as the file writes such: quoted, with a decimal comma, behind the last column or field.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from worker.cells import cell
from worker.events import finite
from worker.runtime.row_text import Form, delimiter_of, has_names, names_apart
from worker.runtime.sheets import SHEETS
from worker.runtime.tables import text_of

_SAMPLE_CELLS = 5000
_BEFORE, _BEHIND = r"(?:(?:[€$£¥]|[A-Z]{3})\s?)?", r"(?:\s?(?:[^\W\d_]{1,3}|[%°€$£¥]))?"
"""A currency in front of a number; a currency, a per cent sign or a measure behind it."""
_COMMA = re.compile(rf"{_BEFORE}[+-]?[\d.]*\d,\d+{_BEHIND}")
_POINT = re.compile(rf"{_BEFORE}[+-]?[\d,]*\d?\.\d+{_BEHIND}")
_JSON_GAP = re.compile(r"[\s,]*")
_UTF8_MARK = b"\xef\xbb\xbf"

Rows = Sequence[Sequence[Any]]


def answer_added(source: Path, target: Path, columns: Sequence[str], rows: Rows, form: Form | None = None) -> bool:
    """Write `source` to `target` with these columns added, a row of values for each of its rows. `form`: as which text
    its rows were read.

    False, and nothing is written, where it has no rows that could take them: another form of JSON, other rows than
    were answered, or a spreadsheet, of which only the cells are read.
    """
    if source.suffix in SHEETS:
        return False
    if source.suffix == ".parquet":
        return _parquet(source, target, columns, rows)
    form = form or Form()
    text, codec, mark = text_of(source, form)
    if (made := _text_answered(source.suffix, text, columns, rows, form)) is None:
        return False
    try:
        target.write_bytes(mark + made.encode(codec))
    except UnicodeEncodeError:  # a class has a letter that the file's encoding lacks
        target.write_bytes(_UTF8_MARK + made.encode())
    return True


def _text_answered(suffix: str, text: str, columns: Sequence[str], rows: Rows, form: Form) -> str | None:
    if suffix == ".json":
        return _objects(text, _json_spans(text), columns, rows)
    if suffix in {".jsonl", ".ndjson"}:
        return _objects(text, _line_spans(text), columns, rows)
    return _delimited(text, columns, rows, form)


def _parquet(source: Path, target: Path, columns: Sequence[str], rows: Rows) -> bool:
    with pq.ParquetFile(source) as file:
        table, groups = file.read(), file.metadata
    if table.num_rows != len(rows):
        return False
    names = names_apart([*table.column_names, *columns])[-len(columns) :]
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        table = table.append_column(name, pa.array(values))
    packing = groups.row_group(0).column(0).compression if groups.num_row_groups and groups.num_columns else "SNAPPY"
    pq.write_table(table, target, compression="NONE" if packing == "UNCOMPRESSED" else packing)
    return True


def _delimited(text: str, columns: Sequence[str], rows: Rows, form: Form) -> str | None:
    delimiter = delimiter_of(text, form)
    records = list(_records(text, delimiter))
    places = [place for place, (_, fields) in enumerate(records) if fields]
    if not rows or not places:
        return None
    named = int(has_names(records[places[0]][1], form))
    if len(places) != len(rows) + named:
        return None
    header, first = records[places[0]], records[places[named]]
    comma = delimiter != "," and _has_decimal_comma(fields for _, fields in islice(records, named, None))
    width = max(len(records[place][1]) for place in places)
    lines = [raw for raw, _ in records]
    added = [*([names_apart([*header[1], *columns])[-len(columns) :]] if named else []), *rows]
    quoting = _quoting(*header, delimiter), _quoting(*first, delimiter)
    for number, (place, values) in enumerate(zip(places, added, strict=True)):
        at = len(lines[place].rstrip("\r\n"))
        gap = delimiter * (1 + width - len(records[place][1]))  # of all lines the answer stands in the same column
        more = _line([_spelled(cell(value), comma) for value in values], delimiter, quoting[min(number, 1)])
        lines[place] = f"{lines[place][:at]}{gap}{more}{lines[place][at:]}"
    return "".join(lines)


def _records(text: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """(all signs of a record, its fields), blank lines among them without fields."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            taken.append(line)
            yield line

    for fields in csv.reader(lines(), delimiter=delimiter):
        yield "".join(taken), fields
        taken.clear()


def _has_decimal_comma(records: Iterator[list[str]]) -> bool:
    cells = islice((text.strip() for fields in records for text in fields), _SAMPLE_CELLS)
    balance = sum(bool(_COMMA.fullmatch(text)) - bool(_POINT.fullmatch(text)) for text in cells)
    return balance > 0


def _quoting(raw: str, fields: list[str], delimiter: str) -> int:
    """`csv.QUOTE_ALL` where every field of a record stands in quotes."""
    return csv.QUOTE_ALL if raw.rstrip("\r\n") == _line(fields, delimiter, csv.QUOTE_ALL) else csv.QUOTE_MINIMAL


def _line(values: Sequence[Any], delimiter: str, quoting: int) -> str:
    target = io.StringIO()
    csv.writer(target, delimiter=delimiter, quoting=quoting, lineterminator="").writerow(values)  # type: ignore[arg-type]
    return target.getvalue()


def _spelled(value: Any, comma: bool) -> Any:
    return str(value).replace(".", ",") if comma and isinstance(value, float) else value


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.split("\n"):
        if line.strip():
            yield at, at + len(line.rstrip())
        at += len(line) + 1


def _json_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the objects of a list stand, or the one object that the file is."""
    start = len(text) - len(text.lstrip())
    if not text.startswith("[", start):
        yield start, len(text.rstrip())
        return
    decoder = json.JSONDecoder()
    at = _after_gap(text, start + 1)
    while at < len(text) and text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        yield at, end
        at = _after_gap(text, end)


def _after_gap(text: str, at: int) -> int:
    gap = _JSON_GAP.match(text, at)
    return gap.end() if gap else at


def _objects(text: str, spans: Iterator[tuple[int, int]], columns: Sequence[str], rows: Rows) -> str | None:
    found = [(end, json.loads(text[start:end])) for start, end in spans]
    if len(found) != len(rows) or not all(isinstance(body, dict) and not _is_table(body) for _, body in found):
        return None
    keys = list(dict.fromkeys(key for _, body in found for key in body))
    names = names_apart([*keys, *columns])[-len(columns) :]
    pieces, done = [], 0
    for (end, body), row in zip(found, rows, strict=True):
        more = json.dumps(finite(dict(zip(names, row, strict=True))), ensure_ascii=False)[1:-1]
        inside = text[done : end - 1]
        kept = inside.rstrip()
        pieces.append(f"{kept}{', ' if body else ''}{more}{inside[len(kept) :]}}}")
        done = end
    return "".join([*pieces, text[done:]])


def _is_table(body: dict[str, Any]) -> bool:
    """Whether it is `{columns, rows}` rather than a row."""
    return isinstance(body.get("rows"), list)
