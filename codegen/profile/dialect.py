"""How a delimited file is written: encoding, delimiter, header; guessed from its beginning or given."""

from __future__ import annotations

import csv
import operator
import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Literal

from codegen.profile.encodings import decoded, encoding_named, guess_encoding
from codegen.profile.problems import fail
from codegen.profile.streams import ByteSource
from codegen.profile.types import ProfileOptions
from codegen.profile.values import MISSING

SAMPLE_BYTES = 256 << 10
DELIMITERS = (",", "\t", ";", "|")
MAX_RECORD_BYTES = 16 << 20
_SAMPLE_ROWS = 200
_SAMPLE_LINES = 5
_MAX_SAMPLE_BYTES = 8 << 20
_COUNTED_NAMES = 5
"""So many whole numbers in a row that count up are names."""
_NAMES = {",": "','", "\t": "tab", ";": "';'", "|": "'|'"}
_NUMBER = re.compile(r"^[+-]?(\d+([.,]\d*)*|\.\d+)([eE][+-]?\d+)?%?$")
Newline = Literal["\n", "\r"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How to read a delimited file."""

    encoding: str
    encoding_given: bool
    delimiter: str
    header: bool
    names: tuple[str, ...]
    """As in the header, or empty strings where there is none; as many as most rows have fields, where the header
    has more or fewer delimiters at its end."""
    first_width: int
    """Fields of the first row."""
    newline: Newline

    @property
    def description(self) -> str:
        """For `DatasetProfile.source_format`."""
        name = _NAMES.get(self.delimiter, repr(self.delimiter))
        return f"delimiter {name}; {self.encoding}" + ("" if self.header else "; no header")


def dialect_of(source: ByteSource, options: ProfileOptions, encoding: str | None = None) -> Dialect:
    """The dialect of a file. `encoding` wins over the guess where a first reading found the guess wrong.

    Raises `DataError` for a wrong option, a file of one column, NUL bytes.
    """
    with source.open() as stream:
        head = more = stream.read(SAMPLE_BYTES)
        while more and head.count(b"\n") < _SAMPLE_LINES and len(head) < _MAX_SAMPLE_BYTES:
            more = stream.read(SAMPLE_BYTES)
            head += more
        whole = not more or not stream.read(1)
    given = encoding_named(options.encoding, head)
    encoding = encoding or given or guess_encoding(head)
    text = decoded(head, encoding, whole, source.path.name)
    _refuse_nul(text, source.path.name)
    newline = _newline(text, whole)
    lines = _lines(text, newline, whole)
    delimiter = _delimiter(lines, options.delimiter, source.path.name)
    rows = _rows(lines, delimiter)
    header = options.header if options.header is not None else _has_header(rows)
    if options.header is None:
        _refuse_title(rows, source.path.name)
    names = tuple(name.strip() for name in rows[0]) if header else ("",) * len(rows[0])
    names = _as_wide_as(rows[1:], names) if header else names
    if header and len(rows) == 1 and whole:
        fail(
            "header_only",
            f"{source.path.name} has a header line and no rows.",
            "Check how the file was made: there is nothing to learn from.",
            file=source.path.name,
            row=1,
        )
    return Dialect(
        encoding=encoding,
        encoding_given=given is not None,
        delimiter=delimiter,
        header=header,
        names=names,
        first_width=len(rows[0]),
        newline=newline,
    )


def _refuse_nul(text: str, name: str) -> None:
    if (at := text.find("\0")) >= 0:
        fail_nul(text.count("\n", 0, at) + 1, name)


def fail_nul(line: int, name: str) -> None:
    """Raise the error for a NUL byte in `line`."""
    fail(
        "nul_byte",
        f"Line {line:,} holds a NUL byte: the file is damaged or not plain text.",
        "Look at that line. A UTF-16 file without byte order mark needs the encoding set; else remove the bytes, "
        "e.g. `tr -d '\\000' < data.csv > clean.csv`.",
        row=line,
        file=name,
    )


def _newline(text: str, whole: bool) -> Newline:
    """`\\r` where one that no `\\n` follows ends lines, as on old Macs, maybe beside others: none stands in quotes."""
    if not re.search(r"\r(?!\n|\Z)", text):
        return "\r" if whole and text.endswith("\r") else "\n"
    try:
        deque(csv.reader(_lines(text, "\n", whole)), maxlen=0)
    except csv.Error:
        return "\r"
    return "\n" if "\n" in text else "\r"


def _lines(text: str, newline: Newline, whole: bool) -> list[str]:
    if newline == "\r":
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not whole and len(lines) > 1:
        lines.pop()
    return [line + "\n" for line in lines]


def _rows(lines: list[str], delimiter: str) -> list[list[str]]:
    csv.field_size_limit(MAX_RECORD_BYTES)
    rows = []
    for row in csv.reader(lines, delimiter=delimiter):
        if row:
            rows.append(row)
        if len(rows) >= _SAMPLE_ROWS:
            break
    return rows


def _score(lines: list[str], delimiter: str) -> tuple[float, int]:
    try:
        widths = [len(row) for row in _rows(lines, delimiter)]
    except csv.Error:
        return 0.0, 0
    if not widths:
        return 0.0, 0
    width, count = Counter(widths).most_common(1)[0]
    consistent = count / len(widths) * (1.0 if widths[0] == width else 0.8)
    return (round(consistent, 2), width) if width > 1 else (0.0, 1)


def _delimiter(lines: list[str], given: str | None, name: str) -> str:
    scores = {delimiter: _score(lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: scores[delimiter])
    if given is None:
        if scores[best][1] < 2:
            fail(
                "one_column",
                f"{name} has a single column: none of comma, tab, semicolon and '|' separates its fields.",
                "Check the delimiter and set it in the options; a table needs a target and one feature at least.",
                file=name,
                row=1,
            )
        return best
    given = {"\\t": "\t", "tab": "\t"}.get(given, given)
    if len(given) != 1 or given in '"\r\n':
        fail("wrong_delimiter", f"{given!r} cannot be a delimiter.", "Use one character, e.g. , ; | or a tab.")
    if _score(lines, given)[1] < 2:
        hint = (
            f"Try {_NAMES[best]}: it gives {scores[best][1]} columns." if scores[best][1] > 1 else "Look at the file."
        )
        fail("wrong_delimiter", f"{given!r} does not separate any fields in {name}.", hint, file=name, row=1)
    return given


def _is_value(cell: str) -> bool:
    cell = cell.strip()
    return bool(_NUMBER.match(cell)) or (cell != "" and cell in MISSING)


def _has_header(rows: list[list[str]]) -> bool:
    """A first row of names: no numbers, no repeated entries of the rows below."""
    first, below = rows[0], rows[1:]
    if any(_is_value(cell) for cell in first):
        return _numbers_are_names(first, below)
    if any(_NUMBER.match(cell.strip()) for row in below[:20] for cell in row):
        return True
    seen = [
        sum(cell == row[at] for row in below if at < len(row)) for at, cell in enumerate(first) if cell.strip() != ""
    ]
    return not below or sum(count > 0 for count in seen) * 2 < len(seen)


def _as_wide_as(rows: list[list[str]], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with as many fields as most rows have, where nothing but empty cells at the end is added or lost."""
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else len(names)
    if any(cell.strip() for row in rows for cell in row[len(names) :]) or any(names[width:]):
        return names
    return (*names[:width], *[""] * (width - len(names)))


def _refuse_title(rows: list[list[str]], name: str) -> None:
    """A first line with one text in front, above a row of names: a title, as on a spreadsheet, or `sep=;`.

    Empty cells behind the last name are no names that lack: spreadsheets fill up every line to the widest.
    """
    title, *others = (cell.strip() for cell in rows[0])
    alone = title and not any(others) and (len(others) > 1 or title.startswith("sep="))
    at = next((at for at, row in enumerate(rows[1:], start=1) if any(cell.strip() for cell in row)), 0)
    names = [cell.strip() for cell in rows[at]]
    names = names[: len(names) - empty_tail(names)]
    named = len(rows[at]) == len(rows[0]) and len(names) > 1 and all(name and not _is_value(name) for name in names)
    if alone and at and named and _has_header(rows[at:]):
        fail(
            "title_line",
            f"The first line of {name} holds a title ('{title[:80]}'), not the names of the columns.",
            "Remove what stands above the line of names, and upload the file again.",
            file=name,
            row=1,
        )


def empty_tail(cells: Sequence[str]) -> int:
    """How many cells at the end are empty."""
    return len(list(takewhile(operator.not_, reversed(cells))))


def _numbers_are_names(first: list[str], below: list[list[str]]) -> bool:
    """Names may be numbers (years, pixels): the first row is a header if a word heads a column of numbers."""
    for at, cell in enumerate(first):
        column = [row[at] for row in below if at < len(row)]
        if cell.strip() and not _is_value(cell) and column and all(_is_value(value) for value in column):
            return True
    counted = [int(cell) for cell in first if cell.strip().isdecimal()]
    years = len(counted) > 1 and 1900 <= counted[0] <= counted[-1] <= 2100
    return (years or len(counted) >= _COUNTED_NAMES) and all(b - a == 1 for a, b in pairwise(counted))
