"""JSON lines as batches of text columns: one object per line, fields are columns, in two readings (names, values)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from codegen.profile.nested import NESTED_LEVELS, flat, parents, taken_apart
from codegen.profile.problems import fail
from codegen.profile.sources import MAX_COLUMNS, BadLines, NumbersAsNumbers, unique_names
from codegen.profile.streams import ByteSource
from codegen.profile.types import Finding, Severity
from worker.words import size_words, without_nul

_ROWS, _CELLS = 20_000, 2 << 20
"""Of a batch at most: each row has room for the fields of all others, of which there may be thousands."""
_MAX_LINE_BYTES = 16 << 20


def _spelled(text: str) -> str:
    return text


_DECODER = json.JSONDecoder(parse_float=_spelled, parse_int=_spelled, parse_constant=_spelled)


class JsonLinesSource(NumbersAsNumbers):
    """A `TableSource` over one JSON lines file. Raises `DataError` where too many lines are no objects."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._file = source.path.name
        self._left_out: dict[str, int] = {}
        """Fields with lists, or with objects that lie too deep, and the line of the first."""
        self._inner: dict[str, None] = {}
        """Fields of objects inside of rows."""
        self._bad = self._new_bad()
        self._keys = self._fields()
        self._names, self._findings = unique_names([_whole(key.strip()) for key in self._keys])

    def _fields(self) -> list[str]:
        """Names of all fields with values, and of those that are empty throughout; the first reading."""
        filled: dict[str, bool] = {}
        rows = 0
        for _, row, _ in self._rows():
            rows += 1
            for key, value in row.items():
                if value is not None or key not in filled:
                    filled[key] = value is not None
            if len(filled) > MAX_COLUMNS:
                self._refuse_width(filled)
        self._bad.check(rows)
        above = parents(self._inner) | self._left_out.keys()  # null there is an object or a list that is missing
        keys = [key for key, has_values in filled.items() if has_values or key not in above]
        if not keys:
            fail(
                "header_only",
                f"{self._file} holds no object with fields{' besides lists' if self._left_out else ''}.",
                "Write one object per line, with numbers, texts or dates in its fields.",
                row=1,
            )
        return keys

    def _refuse_width(self, keys: Iterable[str]) -> None:
        name, count = Counter(key.partition(".")[0] for key in keys).most_common(1)[0]
        if count > MAX_COLUMNS // 2:
            fail(
                "too_many_columns",
                f"The objects in '{_whole(name)}' have {count:,} different fields and more; at most {MAX_COLUMNS:,} "
                "columns are read.",
                "Names that differ from line to line are values: write them into a field of their own, or leave the "
                "object out.",
                column=_whole(name),
                file=self._file,
            )
        unique_names(list(keys))

    @property
    def names(self) -> tuple[str, ...]:
        """All keys, in order of appearance."""
        return self._names

    @property
    def description(self) -> str:
        """Format and compression."""
        return "json lines; utf-8" + ("; gzip" if self._source.gzipped else "")

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Batches of text columns; missing keys and null are null."""
        self._bad = self._new_bad()
        size = max(1, min(_ROWS, _CELLS // len(self._keys)))
        places = {key: place for place, key in enumerate(self._keys)}
        columns, count, share = self._blank(size), 0, 0.0
        for _, row, share in self._rows():
            for key, value in row.items():
                if key in places:  # what was left out is no column
                    columns[places[key]][count] = _text(value)
            count += 1
            if count == size:
                yield self._frame(columns), share
                columns, count = self._blank(size), 0
        yield self._frame([column[:count] for column in columns]), share

    def _blank(self, rows: int) -> list[list[str | None]]:
        return [[None] * rows for _ in self._keys]

    def findings(self) -> list[Finding]:
        """Bad lines, objects and lists, changed names."""
        named = dict(zip(self._keys, self._names, strict=True))
        apart = [named[key] for key in self._inner if key in named]
        found = [*self._findings, *self._bad.findings(), *taken_apart(apart)]
        found.extend(
            Finding(
                code="nested_values",
                severity=Severity.WARNING,
                message=f"'{_whole(key)}' holds lists, or objects more than {NESTED_LEVELS} levels deep (first in line "
                f"{line:,}): they were left out.",
                meaning="Only numbers, texts, dates and truth values are used. Write what matters of a list, such as "
                "how long it is, to a field of its own.",
                column=named.get(key),
                rows=(line,),
            )
            for key, line in self._left_out.items()
        )
        return found

    def _new_bad(self) -> BadLines:
        return BadLines(
            file=self._file,
            what="are not JSON objects",
            what_one="is not a JSON object",
            hint='Each line must be one whole object, e.g. {"age": 39, "income": "<=50K"}; `jq -c .` writes it so.',
            code="bad_json_lines",
        )

    def _frame(self, columns: list[list[str | None]]) -> pl.DataFrame:
        return pl.DataFrame(dict(zip(self._names, columns, strict=True)), schema=dict.fromkeys(self._names, pl.String))

    def _rows(self) -> Iterator[tuple[int, dict[str, Any], float]]:
        """(line, fields of the object by dotted name, share of the file read)."""
        for line, body, share in self._lines():
            try:
                row = _DECODER.decode(without_nul(body.decode("utf-8-sig")).strip())
                row = self._flat(row, line) if isinstance(row, dict) else row
            except json.JSONDecodeError as error:
                self._bad.add(line, f"{error.msg} at character {error.pos + 1}")
            except UnicodeDecodeError:
                self._bad.add(line, "not UTF-8")
            except RecursionError:
                self._bad.add(line, "nested too deeply")
            else:
                if isinstance(row, dict):
                    yield line, row, share
                else:
                    self._bad.add(line, f"a {type(row).__name__} instead of an object")

    def _flat(self, row: dict[str, Any], line: int) -> dict[str, Any]:
        if not any(isinstance(value, dict | list) for value in row.values()):
            return row
        found = dict(flat(row))
        for key, value in found.items():
            if isinstance(value, dict | list):
                self._left_out.setdefault(key, line)
                found[key] = None
            if key not in row:
                self._inner[key] = None
        return found

    def _lines(self) -> Iterator[tuple[int, bytes, float]]:
        held, line = b"", 0
        with self._source.open() as stream:
            for chunk in stream.chunks():
                *whole, held = (held + chunk).split(b"\n")
                for body in whole:
                    line += 1
                    if body.strip():
                        yield line, body, stream.share
                if len(held) > _MAX_LINE_BYTES:
                    fail(
                        "bad_json_lines",
                        f"Line {line + 1:,} is longer than {size_words(_MAX_LINE_BYTES)}.",
                        "Write one object per line (JSON lines).",
                        row=line + 1,
                        file=self._file,
                    )
        if held.strip():
            yield line + 1, held, 1.0


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _whole(value)
    return "true" if value else "false"


def _whole(text: str) -> str:
    """Without halves of letters, such as `\\ud800`, which JSON allows and UTF-8 does not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
