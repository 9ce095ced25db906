"""Rows of a trace, of CSV or JSON, plain or packed with gzip, and their cells; every error names row and column."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FARTHEST_S = 1e11
"""Three thousand years: a time beyond it is no number of seconds, but of milliseconds or nanoseconds since 1970."""
MOST = 1e15
"""Larger figures are no count, and no watts."""
_CELL_LETTERS_MAX = 1 << 30
"""The ways of a job, hundreds of them, are one cell."""


class TraceError(ValueError):
    """A trace or a table that cannot be used; the text names file, row and column."""


@dataclass(frozen=True)
class Row:
    """One row, read by column, with errors that say where."""

    file: str
    number: int
    cells: Mapping[str, Any]

    @property
    def where(self) -> str:
        """For errors."""
        return f"{self.file}, row {self.number:,}"

    def fail(self, column: str, problem: str) -> TraceError:
        """An error that says where."""
        return TraceError(f"{self.where}, column {column}: {problem}")

    def text(self, column: str, *, empty_ok: bool = False) -> str:
        """A text, without the spaces around it. Raises `TraceError`, as all of these."""
        value = self.cells.get(column)
        if isinstance(value, list | dict):
            raise self.fail(column, "expected a text or a number")
        if value is None or str(value).strip() == "":
            if empty_ok:
                return ""
            raise self.fail(column, "nothing is there")
        return str(value).strip()

    def seconds(self, column: str, *, least: float = 0.0) -> float:
        """A time."""
        value = self.number_of(column, least=least, most=math.inf)
        if value > FARTHEST_S:
            raise self.fail(column, f"{value:g} is more than {FARTHEST_S:g}; times are in seconds")
        return value

    def number_of(
        self, column: str, *, least: float = -math.inf, most: float = MOST, default: float | None = None
    ) -> float:
        """A figure, or the default where nothing is there."""
        text = self.text(column, empty_ok=default is not None)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.fail(column, f"{text!r} is not a number") from None
        if not math.isfinite(value):
            raise self.fail(column, f"{text} is not finite")
        if value < least:
            raise self.fail(column, f"{text} is below {least:g}")
        if value > most:
            raise self.fail(column, f"{text} is above {most:g}")
        return value

    def whole(self, column: str, *, least: int, default: int | None = None) -> int:
        """The same of a whole number."""
        value = self.number_of(column, least=least, default=None if default is None else float(default))
        if value != int(value):
            raise self.fail(column, f"{value} is not a whole number")
        return int(value)


def read_text(path: Path) -> str:
    """A text file, plain or packed with gzip. Raises `TraceError`."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path.name} is cut short or not gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path.name} is not UTF-8 text") from error


def json_of(name: str, text: str) -> Any:
    """What the text of a file of this name says. Raises `TraceError`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise TraceError(f"{name}: not JSON that can be read: it is nested too deep") from error
    except ValueError as error:  # of more than some thousands of digits
        raise TraceError(f"{name}: not JSON that can be read: a number in it is too long") from error


def read_rows(path: Path) -> tuple[list[Row], Mapping[str, Any]]:
    """(the rows of a trace, what else an object of JSON says). Raises `TraceError`."""
    text = read_text(path)
    if text.lstrip()[:1] in {"[", "{"}:
        return _json_rows(path.name, text)
    return _csv_rows(path.name, text), {}


def _csv_rows(name: str, text: str) -> list[Row]:
    csv.field_size_limit(_CELL_LETTERS_MAX)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = []
    try:
        if not reader.fieldnames:
            raise TraceError(f"{name} is empty")
        reader.fieldnames = [column.strip() for column in reader.fieldnames]
        if twice := sorted({column for column in reader.fieldnames if reader.fieldnames.count(column) > 1 and column}):
            raise TraceError(f"{name}, row 1: a column appears twice: {', '.join(twice)}")
        for cells in reader:
            # As an editor counts them: lines that hold nothing are lines, too.
            row = Row(name, reader.line_num, {str(key): value for key, value in cells.items() if key is not None})
            if None in cells:
                raise row.fail(str(reader.fieldnames[-1]), "more cells than columns")
            rows.append(row)
    except csv.Error as error:
        raise TraceError(f"{name}, row {reader.line_num + 1}: not CSV: {error}") from error
    return rows


def _json_rows(name: str, text: str) -> tuple[list[Row], Mapping[str, Any]]:
    body = json_of(name, text)
    listed = body.get("jobs") if isinstance(body, dict) else body
    if not isinstance(listed, list):
        raise TraceError(f"{name}: expected a list of jobs, or an object with `jobs`")
    rows = []
    for number, cells in enumerate(listed, start=1):
        if not isinstance(cells, dict):
            raise TraceError(f"{name}, job {number}: expected an object")
        rows.append(Row(name, number, cells))
    return rows, {} if listed is body else {name: value for name, value in body.items() if name != "jobs"}
