"""A sheet of a workbook (Excel, OpenDocument) as batches of text columns. Calamine reads it, and holds it in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from pathlib import Path

import polars as pl
from python_calamine import (
    CalamineError,
    CalamineSheet,
    CalamineWorkbook,
    PasswordError,
    SheetTypeEnum,
    SheetVisibleEnum,
)

from codegen.profile.problems import fail
from codegen.profile.sources import NumbersAsNumbers, unique_names
from codegen.profile.streams import MAX_RATIO
from codegen.profile.types import Finding, Severity
from worker.sheet_reach import NOT_UNPACKED, RowTooLong, sheets_reach
from worker.words import counted, size_words

Cell = int | float | str | bool | date | datetime | time | timedelta
_ROWS = 20_000
_MAX_UNPACKED_BYTES = 2 << 30
_MAX_CELLS = 50_000_000
"""Calamine keeps room for each cell between the first and the last one that is filled."""
_EXACT = 2**53
"""Spreadsheets hold every number as a float64; from here on not all whole numbers are different ones."""
_SMALLER = "Save the sheet as CSV (UTF-8), which is read row by row, and upload that."

_LONG_ROW = f"Look for a cell there that holds a whole file, and empty it. Otherwise: {_SMALLER}"


class SheetSource(NumbersAsNumbers):
    """A `TableSource` over the first sheet with rows in it. Raises `DataError`."""

    def __init__(self, path: Path) -> None:
        self._file = path.name
        with zipfile.ZipFile(path) as archive:
            self._refuse_bomb(path, archive)
            self._refuse_stray(archive)
        self._sheet, self._others = self._open(path)
        self._above, header = self._header()
        self._columns = self._filled(header)
        self._names, self._findings = unique_names([_text(header[place]) or "" for place in self._columns])

    @property
    def names(self) -> tuple[str, ...]:
        """The cells of the first row that is more than a title."""
        return self._names

    @property
    def description(self) -> str:
        """Which sheet."""
        return f"spreadsheet; sheet {self._sheet.name!r}"

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """Batches of text columns; an empty cell, or one with an error, is null."""
        total, done = max(1, self._sheet.height), 0
        rows = self._rows()
        while batch := list(islice(rows, _ROWS)):
            done += len(batch)
            texts = [[_text(row[place]) for row in batch] for place in self._columns]
            filled = [number for number, row in enumerate(zip(*texts, strict=True)) if any(row)]
            columns = {name: [text[at] for at in filled] for name, text in zip(self._names, texts, strict=True)}
            yield pl.DataFrame(columns, schema=dict.fromkeys(self._names, pl.String)), min(1.0, done / total)

    def findings(self) -> list[Finding]:
        """Changed names, rows above the header, other sheets."""
        found = list(self._findings)
        if self._above:
            found.append(
                Finding(
                    code="rows_above_header",
                    severity=Severity.INFO,
                    message=f"{counted(self._above, 'row')} above the names of the columns "
                    f"{'was' if self._above == 1 else 'were'} left out.",
                    meaning="Titles and remarks are no data. If they were the names, fill each cell of that row.",
                )
            )
        if self._others:
            named = ", ".join(repr(name) for name in self._others[:5])
            found.append(
                Finding(
                    code="other_sheets",
                    severity=Severity.WARNING,
                    message=f"Only the sheet {self._sheet.name!r} was read, not {named}"
                    f"{f' and {len(self._others) - 5:,} more' if len(self._others) > 5 else ''}.",
                    meaning="If the data is there, move that sheet to the front or save it to a file of its own.",
                )
            )
        return found

    def _refuse_bomb(self, path: Path, archive: zipfile.ZipFile) -> None:
        unpacked_bytes = sum(info.file_size for info in archive.infolist())
        if unpacked_bytes > min(_MAX_UNPACKED_BYTES, MAX_RATIO * max(1 << 20, path.stat().st_size)):
            fail(
                "too_large",
                f"{self._file} unpacks to {size_words(unpacked_bytes)}, more than is read of a spreadsheet.",
                _SMALLER,
                file=self._file,
            )

    def _refuse_stray(self, archive: zipfile.ZipFile) -> None:
        """By how far its sheets reach."""
        try:
            sheets = list(sheets_reach(archive))
        except NOT_UNPACKED:  # who reads it says what is wrong with it
            return
        except RowTooLong as problem:
            fail("too_large", str(problem), _LONG_ROW, file=self._file)
        for reach in sheets:
            if reach.cells > _MAX_CELLS:
                fail(
                    "too_large",
                    f"A sheet of {self._file} reaches to the cell {reach.corner}: {reach.rows:,} rows x "
                    f"{reach.columns:,} columns.",
                    f"If that cell is a stray one, delete its row and column. Otherwise: {_SMALLER}",
                    file=self._file,
                )

    def _open(self, path: Path) -> tuple[CalamineSheet, list[str]]:
        """The first visible sheet with rows, and the names of further ones."""
        try:
            book = CalamineWorkbook.from_path(path)
            found = [
                sheet
                for meta in book.sheets_metadata
                if meta.typ == SheetTypeEnum.WorkSheet and meta.visible == SheetVisibleEnum.Visible
                if (sheet := book.get_sheet_by_name(meta.name)).height > 1
            ]
        except PasswordError:
            fail("encrypted", f"{self._file} is protected by a password.", "Save it without one.", file=self._file)
        except (CalamineError, OSError) as error:
            fail(
                "broken_file",
                f"The spreadsheet cannot be read: {str(error).splitlines()[0][:200] if str(error) else 'broken'}",
                f"Open it and save it again. {_SMALLER}",
                file=self._file,
            )
        if not found:
            fail(
                "header_only",
                f"No sheet of {self._file} has a row of names and rows below it.",
                "Put the names of the columns into the first row of the first sheet, one example per row below.",
                file=self._file,
            )
        return found[0], [sheet.name for sheet in found[1:]]

    def _header(self) -> tuple[int, list[Cell]]:
        """(rows with something in them above it, the row of names): the first with more than one cell, if any has."""
        above = 0
        for row in self._sheet.iter_rows():
            filled = sum(_text(cell) is not None for cell in row)
            if filled > 1 or (filled and self._sheet.width == 1):
                return above, row
            above += bool(filled)
        fail(
            "header_only",
            f"The sheet {self._sheet.name!r} has no row of names: none has two cells that are filled.",
            "Put the names of the columns into the first row, one example per row below.",
            file=self._file,
        )

    def _filled(self, header: list[Cell]) -> list[int]:
        """Places of the columns that have a name or a value."""
        rest = {place for place, cell in enumerate(header) if _text(cell) is None}
        named = [place for place in range(len(header)) if place not in rest]
        for row in self._rows():
            if not rest:
                break
            rest -= (with_value := {place for place in rest if _text(row[place]) is not None})
            named += with_value
        return sorted(named)

    def _rows(self) -> Iterator[list[Cell]]:
        """Below the row of names."""
        rows = self._sheet.iter_rows()
        skip = self._above
        for row in rows:
            filled = sum(_text(cell) is not None for cell in row)
            if not filled:
                continue
            if not skip:
                break
            skip -= 1
        yield from rows


def _text(cell: Cell) -> str | None:
    """As a CSV would have it; None for an empty cell."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < _EXACT else repr(cell)
    if isinstance(cell, date):  # a moment at midnight comes as a day: both are written in one way
        return datetime.combine(cell, cell.time() if isinstance(cell, datetime) else time()).isoformat(sep=" ")
    if isinstance(cell, time):
        return cell.isoformat()
    return str(cell).strip().replace("\0", "\ufffd") or None  # `_x0000_` in the file; no database holds NUL
