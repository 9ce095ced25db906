"""JSON lines as batches of text columns: one object per line, keys are columns, in two readings (keys, values)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from codegen.profile.problems import fail
from codegen.profile.sources import MAX_COLUMNS, BadLines, unique_names
from codegen.profile.streams import ByteSource
from codegen.profile.types import Finding, Severity

_ROWS = 20_000
_MAX_LINE_BYTES = 16 << 20


def _spelled(text: str) -> str:
    return text


_DECODER = json.JSONDecoder(parse_float=_spelled, parse_int=_spelled, parse_constant=_spelled)


class JsonLinesSource:
    """A `TableSource` over one JSON lines file. Raises `DataError` where too many lines are no objects."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._file = source.path.name
        self._nested: dict[str, int] = {}
        self._bad = self._new_bad()
        keys: dict[str, None] = {}
        rows = 0
        for _, row, _ in self._objects():
            rows += 1
            keys.update(dict.fromkeys(row))
            if len(keys) > MAX_COLUMNS:
                unique_names(list(keys))
        self._bad.check(rows)
        if not keys:
            fail("header_only", f"{self._file} holds no object with fields.", "Write one object per line.", row=1)
        self._keys = list(keys)
        self._names, self._findings = unique_names([key.strip().encode("utf-8", "replace").decode() for key in keys])

    @property
    def names(self) -> tuple[str, ...]:
        """All keys, in order of appearance."""
        return self._names

    @property
    def description(self) -> str:
        """Format and compression."""
        return "json lines; utf-8" + ("; gzip" if self._source.gzipped else "")

    @property
    def decimal_comma(self) -> bool:
        """Programs wrote it."""
        return False

    @property
    def spelled_alike(self) -> bool:
        """Numbers have a point, whatever stands in texts."""
        return False

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Batches of text columns; missing keys and null are null."""
        self._bad = self._new_bad()
        columns: list[list[str | None]] = [[] for _ in self._keys]
        share = 0.0
        for line, row, share in self._objects():
            for key, column in zip(self._keys, columns, strict=True):
                column.append(self._text(key, row.get(key), line))
            if len(columns[0]) >= _ROWS:
                yield self._frame(columns), share
                columns = [[] for _ in self._keys]
        yield self._frame(columns), share

    def findings(self) -> list[Finding]:
        """Bad lines, nested values, changed names."""
        found = [*self._findings, *self._bad.findings()]
        found.extend(
            Finding(
                code="nested_values",
                severity=Severity.WARNING,
                message=f"'{key}' holds lists or objects (first in line {line:,}); they were kept as JSON text.",
                meaning="Nested values carry nothing into training as they are: write each part to its own field.",
                column=key,
                rows=(line,),
            )
            for key, line in self._nested.items()
        )
        return found

    def _new_bad(self) -> BadLines:
        return BadLines(
            file=self._file,
            what="are no JSON objects",
            what_one="is no JSON object",
            hint='Each line must be one whole object, e.g. {"age": 39, "income": "<=50K"}.',
            code="bad_json_lines",
        )

    def _frame(self, columns: list[list[str | None]]) -> pl.DataFrame:
        return pl.DataFrame(dict(zip(self._names, columns, strict=True)), schema=dict.fromkeys(self._names, pl.String))

    def _text(self, key: str, value: Any, line: int) -> str | None:
        if value is None:
            return None
        if isinstance(value, str):
            return value if value.isascii() else value.encode("utf-8", "replace").decode()
        if isinstance(value, bool):
            return "true" if value else "false"
        self._nested.setdefault(key, line)
        return json.dumps(value, ensure_ascii=False)

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], float]]:
        """(line, object, share of the file read)."""
        for line, body, share in self._lines():
            try:
                row = _DECODER.decode(body.decode("utf-8-sig").strip())
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
                        f"Line {line + 1:,} is longer than {_MAX_LINE_BYTES >> 20} MiB.",
                        "Write one object per line (JSON lines).",
                        row=line + 1,
                        file=self._file,
                    )
        if held.strip():
            yield line + 1, held, 1.0
