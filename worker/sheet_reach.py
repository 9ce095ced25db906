"""How far the sheets of a spreadsheet (.xlsx, .ods) reach, told without reading them: who reads one makes room for each
cell between the first and the last that is filled, so that a stray one far off takes all memory."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from html import unescape
from typing import IO, NamedTuple

_DIMENSION = re.compile(rb"""<(?:\w+:)?dimension ref=["'](?:[A-Z]+\d+:)?([A-Z]{1,8})[A-Z]*(\d{1,12})\d*["']""")
"""Of longer ones the beginning: it is too far by itself, and numbers of thousands of digits cannot be told."""
_STEP = re.compile(
    rb"""<(?:\w{1,20}:)?(row|c)(?=[\s/>])"""
    rb"""(?>[^<>]{0,2000}?\sr=["']([A-Z]{0,8})[A-Z]*+(\d{1,12})\d*+["'])?+([^<>]{0,2000}+)>"""
)
"""A row or a cell: (which, letters and digits of where it says that it is, the rest of its tag). What was matched is
not tried in other ways where the end of a tag is missing, so that a tag of hostile length takes no time."""
_TAG_BYTES_MAX = 4096
_ROW = re.compile(rb"<table:table-row(?=[\s/>])")
_TABLE = re.compile(rb'<table:table(?=\s)[^<>]{0,2000}?\stable:name="([^"]{1,1000})"')
_ROW_END, _TABLE_END = b"</table:table-row>", b"</table:table>"
_CELL = re.compile(rb"<table:(?:covered-)?table-cell(?=[\s/>])")
_ROWS_REPEATED = re.compile(rb'table:number-rows-repeated="(\d{1,9})"')
_CELLS_REPEATED = re.compile(rb'table:number-columns-repeated="(\d{1,9})"')
_FILLED = b"office:value-type="
_CHUNK_BYTES, _ROW_BYTES_MAX = 1 << 20, 64 << 20
NOT_UNPACKED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError)
"""What a part raises that cannot be unpacked: it is broken, encrypted, or packed in an unknown way."""
_ROWS_MAX = 1 << 20
"""No sheet has more: what a file says beyond is left out by those who read it."""


class RowTooLong(Exception):
    """A row takes more than is looked through at once: nobody can tell how far the sheet reaches."""

    def __init__(self, sheet: str, row: int) -> None:
        """`row`: from 1; 0 for what stands before the first of the file."""
        size = f"more than {_ROW_BYTES_MAX >> 20} MiB"
        told = (
            f"The sheet {sheet!r} has a row of {size}: row {row:,}." if row else f"Before its first row stand {size}."
        )
        super().__init__(told)


class Reach(NamedTuple):
    """Of one sheet."""

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """Those that there is room for."""
        return self.rows * self.columns

    @property
    def corner(self) -> str:
        """The last cell, as spreadsheets name it."""
        letters, rest = "", self.columns
        while rest:
            rest, letter = divmod(rest - 1, 26)
            letters = chr(65 + letter) + letters
        return f"{letters}{self.rows}"


_PLACEHOLDER = Reach(1, 1)
"""What programs that write front to back say of any sheet."""


def sheets_reach(archive: zipfile.ZipFile) -> Iterator[Reach]:
    """Of each sheet, of OpenDocument without empty cells with a comment or a format.

    Raises `RowTooLong`, `NOT_UNPACKED`.
    """
    try:
        yield from _reaches(archive)
    except OSError as error:
        if error.errno is not None:
            raise
        raise zipfile.BadZipFile(str(error)) from None  # of damaged bz2; a fault of the disk has a number


def _reaches(archive: zipfile.ZipFile) -> Iterator[Reach]:
    for name in archive.namelist():
        if name.startswith("xl/worksheets/sheet"):
            with archive.open(name) as sheet:
                told = _DIMENSION.search(head := sheet.read(4096))
                reach = Reach(int(told[2]), _column_number(told[1])) if told else _PLACEHOLDER
                yield _cells_reach(head, sheet) if reach == _PLACEHOLDER else reach
        elif name == "content.xml":
            with archive.open(name) as content:
                yield from _tables_reach(content)


def _cells_reach(head: bytes, sheet: IO[bytes]) -> Reach:
    """By the cells that are more than a format, where a program that writes front to back could not say it before them.

    One that does not say where it is stands behind the one before, in the row that it is in."""
    rows = columns = row = column = 0
    for kind, letters, digits, rest in _steps(head, sheet):
        if kind == b"row":
            row, column = int(digits) if digits else row + 1, 0
            continue
        column = _column_number(letters) if digits else column + 1
        if not rest.endswith(b"/"):
            rows, columns = max(rows, int(digits) if digits else row), max(columns, column)
    return Reach(rows, columns)


def _steps(head: bytes, sheet: IO[bytes]) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """What `_STEP` finds."""
    kept = head
    while chunk := sheet.read(_CHUNK_BYTES):
        body = kept + chunk
        cut = max(body.rfind(b"<"), len(body) - _TAG_BYTES_MAX)  # a tag may go on in the next chunk
        kept = body[cut:]
        yield from _STEP.findall(body[:cut])
    yield from _STEP.findall(kept)


@lru_cache(maxsize=1 << 15)
def _column_number(letters: bytes) -> int:
    return sum((letter - 64) * 26**place for place, letter in enumerate(reversed(letters)))


def _tables_reach(content: IO[bytes]) -> Iterator[Reach]:
    """By rows that are filled, and by cells up to the last that is: empty ones stand in the file as so many at once."""
    rows = last = width = 0
    name = b""
    for part, is_row in _parts(content):
        if len(part) > _ROW_BYTES_MAX:
            raise RowTooLong(unescape(name.decode(errors="replace")), rows + 1 if is_row else 0)
        row, _, rest = part.partition(_ROW_END) if is_row else (b"", b"", part)
        if is_row:
            repeated = _ROWS_REPEATED.search(row.partition(b">")[0])
            rows = min(_ROWS_MAX, rows + (int(repeated[1]) if repeated else 1))
        if (at := row.rfind(_FILLED)) >= 0:
            until = row[: row.find(b">", at)]
            width = max(width, len(_CELL.findall(until)) + sum(int(one) - 1 for one in _CELLS_REPEATED.findall(until)))
            last = rows
        if _TABLE_END in rest or _TABLE_END in row:  # in the row itself where that is an empty tag
            yield Reach(last, width)
            rows = last = width = 0
        name = next(reversed(_TABLE.findall(part)), name)


def _parts(content: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """What stands before the first row, then from behind the start of each row to that of the next, or to the end, and
    whether it begins with a row; ends at a part that is longer than any row should be."""
    kept, is_row = b"", False
    while chunk := content.read(_CHUNK_BYTES):
        *whole, kept = _ROW.split(kept + chunk)
        for part in whole:
            yield part, is_row
            is_row = True
        if len(kept) > _ROW_BYTES_MAX:
            break
    yield kept, is_row
