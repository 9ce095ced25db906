"""Cells of a spreadsheet (.xlsx, .ods) as texts, by the rules by which data to train on are read from one."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.sheet_reach import NOT_UNPACKED, RowTooLong, sheets_reach
from worker.words import size_words

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

SHEETS = frozenset({".xlsx", ".ods"})
"""Endings of spreadsheets that are read."""
MAX_UNPACKED_BYTES = 512 << 20
MAX_CELLS = 20_000_000
"""Room is kept for each cell between the first and the last one that is filled."""
_EXACT = 2**53
"""From here on not all whole numbers are different ones in a spreadsheet; as in `codegen.profile.sheet_source`."""
_AS_CSV = "Save the sheet as CSV (UTF-8), and give that."
_AGAIN = f"Open it and save it again. {_AS_CSV}"

Row = tuple[str | None, ...]


class SheetError(Exception):
    """The spreadsheet is at fault; `hint` says what to do."""

    def __init__(self, message: str, hint: str = _AS_CSV) -> None:
        super().__init__(message)
        self.hint = hint


def sheet_rows(path: Path) -> tuple[list[str], list[Row], list[bool]]:
    """(names, filled rows below them, which columns have a fraction that is a number to the spreadsheet) of the first
    visible sheet with rows; an empty cell is None.

    Names are the first row with more than one cell; columns without a name or a value are left out. Raises
    `SheetError`.
    """
    sheet = _opened(path)
    if sheet.height * sheet.width > MAX_CELLS:
        raise SheetError(f"{path.name} reaches over {sheet.height:,} rows x {sheet.width:,} columns.")
    rows, fractions = [], set[int]()
    for cells in sheet.iter_rows():
        fractions.update(at for at, cell in enumerate(cells) if isinstance(cell, float) and not cell.is_integer())
        if any(row := tuple(map(_text, cells))):
            rows.append(row)
    place = next((at for at, row in enumerate(rows) if sum(map(bool, row)) > 1 or sheet.width == 1), None)
    if place is None:
        raise SheetError(f"{path.name} has no row of names.", "Put the names of the columns into the first row.")
    columns = [at for at, cells in enumerate(zip(*rows[place:], strict=True)) if any(cells)]
    names, *kept = ([row[at] for at in columns] for row in rows[place:])
    return [name or "" for name in names], [tuple(row) for row in kept if any(row)], [at in fractions for at in columns]


def _opened(path: Path) -> CalamineSheet:
    try:
        from python_calamine import CalamineError, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum
    except ImportError:
        message = f"{path.name} is a spreadsheet, and python-calamine, which reads those, is not installed."
        raise SheetError(message, f"{_AS_CSV} Or: pip install python-calamine") from None
    _unpacked_check(path)
    try:
        book = CalamineWorkbook.from_path(path)
        sheets = [
            book.get_sheet_by_name(meta.name)
            for meta in book.sheets_metadata
            if meta.typ == SheetTypeEnum.WorkSheet and meta.visible == SheetVisibleEnum.Visible
        ]
    except (CalamineError, OSError) as error:
        told = (str(error).splitlines() or ["broken"])[0][:200]
        raise SheetError(f"{path.name} cannot be read: {told}.", _AGAIN) from None
    if not (filled := [sheet for sheet in sheets if sheet.height > 1]):
        raise SheetError(f"No sheet of {path.name} has a row of names and rows below it.")
    return filled[0]


def _unpacked_check(path: Path) -> None:
    """Raise `SheetError` for what is no spreadsheet of these kinds, or a small file that unpacks to a huge one."""
    try:
        with zipfile.ZipFile(path) as archive:
            size_bytes = sum(info.file_size for info in archive.infolist())
            if size_bytes > MAX_UNPACKED_BYTES:
                told = f"unpacks to {size_words(size_bytes)}, more than is read of a spreadsheet"
                raise SheetError(f"{path.name} {told}.")
            _reach_check(path, archive)
    except RowTooLong as problem:
        hint = f"Look for a cell there that holds a whole file, and empty it. Otherwise: {_AS_CSV}"
        raise SheetError(f"{path.name} cannot be read: {problem}", hint) from None
    except NOT_UNPACKED:
        raise SheetError(f"{path.name} is no spreadsheet by its content.", _AGAIN) from None


def _reach_check(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise `SheetError` for a stray cell far off, by how far the sheets reach: room for all cells before it is asked
    for at once, which ends the process."""
    for reach in sheets_reach(archive):
        if reach.cells > MAX_CELLS:
            told = f"reaches over {reach.rows:,} rows x {reach.columns:,} columns, to the cell {reach.corner}"
            hint = f"If that cell is a stray one, delete its row and column. Otherwise: {_AS_CSV}"
            raise SheetError(f"{path.name} {told}.", hint)


def _text(cell: Any) -> str | None:
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


def columns_of(names: Sequence[str], rows: Sequence[Row]) -> dict[str, list[str | None]]:
    """Column -> its cells."""
    cells = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: list(column) for name, column in zip(names, cells, strict=True)}
