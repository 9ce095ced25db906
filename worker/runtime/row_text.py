"""Text of rows to predict for, taken as the file of the data to train on was: encoding, delimiter, names of columns,
formats of dates.

With the standard library alone: it goes with model.onnx, too.
"""

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

DELIMITERS = (",", "\t", ";", "|")
SAMPLE_ROWS = 200  # by which the delimiter is told
SAMPLE_BYTES = 64 << 10  # by which an encoding is told
WORDS_COUNTED = 2000  # at most, in such a sample
LEAD = 3  # so many more words of one encoding than of the other settle it
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
CELL_LETTERS = 2**31 - 1
LOST = "\ufffd"  # stands for a letter that was lost, as NUL is: no column's name and no database can hold it
DATE_FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y",
    "%d-%b-%Y", "%d.%m.%y", "%d.%m.%y %H:%M", "%d/%m/%y", "%m/%d/%y", "%d/%m/%y %H:%M", "%m/%d/%y %H:%M", "%d-%b-%y",
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    """How the file of the data was written, where rows to predict for may not tell it by themselves."""

    delimiter: str = ""
    encoding: str = ""
    """Set by a person; empty where it was told by the bytes."""
    unnamed: int = 0
    """Columns of a file without a line of names; 0 for one that has such."""
    dropped: int = 0
    """Fields behind them in each of its lines that are empty, and no columns."""
    target: str = ""
    """What rows may lack, where columns have no names."""
    names: tuple[str, ...] = ()
    """Columns that the model knows."""
    words: tuple[str, ...] = ()
    """Categories that it knows."""


def form_of(preprocess: Mapping[str, Any]) -> Form:
    """As data.py notes it; a person's own data.py may note anything."""
    noted, about = preprocess.get("form"), preprocess.get("forecast")
    form = noted if isinstance(noted, dict) else {}
    if isinstance(about, dict):  # the inputs of the model are not columns of the rows
        named = _texts(about.get("categorical"))
        names = _texts([about.get("time"), about.get("target")]) + _texts(about.get("numeric")) + named
        recent = about.get("recent")
        values = [recent.get(name) for name in named] if isinstance(recent, dict) else []
    else:
        numeric, categorical = entries(preprocess.get("numeric")), entries(preprocess.get("categorical"))
        names = _texts([entry.get("column") for entry in (*numeric, *categorical)])
        values = [entry.get("values") for entry in categorical]
    delimiter, encoding, target = (str(form.get(name) or "") for name in ("delimiter", "encoding", "target"))
    unnamed, dropped = (max(0, of) if isinstance(of := form.get(name), int) else 0 for name in ("unnamed", "dropped"))
    return Form(
        delimiter=delimiter if len(delimiter) == 1 and delimiter not in '"\r\n' else "",
        encoding=encoding,
        unnamed=unnamed,
        dropped=dropped,
        target=target,
        names=tuple(dict.fromkeys(names)),
        words=tuple(word for known in values for word in dict.fromkeys(_texts(known))),
    )


def entries(noted: object) -> list[dict[str, Any]]:
    """What is noted of each column, where it is."""
    return [entry for entry in noted if isinstance(entry, dict)] if isinstance(noted, list) else []


def listed(noted: object) -> list[Any]:
    """What stands in a list that is noted, where it is one."""
    return list(noted) if isinstance(noted, list | tuple | set) else []


def _texts(noted: object) -> list[str]:
    return [text for text in listed(noted) if isinstance(text, str)]


def decoded(body: bytes, form: Form, is_json: bool = False) -> tuple[str, str, bytes]:
    """(text, its codec, the mark in front): UTF-16 by its mark or zeros, the encoding that was set for the data, UTF-8,
    Windows-1252 or Latin-1, as data to train on. JSON is UTF-8 by its standard, wherever it can be."""
    mark = next((mark for mark, _ in MARKS if body.startswith(mark)), b"")
    body = body.removeprefix(mark)
    told = dict(MARKS).get(mark) or wide_encoding(body)
    read = {codec: text for codec in (told, form.encoding, "utf-8") if (text := _decoded(body, codec)) is not None}
    if told in read:
        codec = told
    elif form.encoding in read and "utf-8" in read:
        codec = "utf-8" if is_json or _is_utf8(body, form) else form.encoding
    elif read:
        codec = next(iter(read))
    else:
        codec = "cp1252" if any(byte in body for byte in range(0x80, 0xA0)) else "latin-1"
        read = {codec: text} if (text := _decoded(body, codec)) is not None else {}
    return (read[codec], codec, mark) if codec in read else (body.decode("latin-1"), "latin-1", mark)


def _decoded(body: bytes, codec: str, errors: str = "strict") -> str | None:
    if codec:
        with suppress(ValueError, LookupError):  # a name of a codec may be anything
            return body.decode(codec, errors)
    return None


def _is_utf8(body: bytes, form: Form) -> bool:
    """Whether bytes that can be read in both ways are UTF-8 rather than in the encoding of the data: by the names and
    categories that the model knows, else because other encodings rarely look like it, nor ASCII without a figure like
    rows of theirs."""
    sample = body[:SAMPLE_BYTES]
    as_utf8, as_set = (_decoded(sample, codec, "ignore") or "" for codec in ("utf-8", form.encoding))
    if as_utf8 == as_set:
        return not body.isascii()
    lead = 0
    for word in islice((*form.names, *form.words), WORDS_COUNTED):
        lead += (word in as_utf8) - (word in as_set)
        if abs(lead) == LEAD:
            break
    return lead > 0 if lead else not (body.isascii() and any(figure in as_set for figure in "0123456789"))


def wide_encoding(body: bytes) -> str:
    """UTF-16 where nearly every second byte of the beginning is 0; else nothing."""
    even, odd = body[:SAMPLE_BYTES:2], body[1:SAMPLE_BYTES:2]
    few, many = sorted((even.count(0), odd.count(0)))
    if not odd or many <= 0.9 * len(odd) or few >= 0.1 * len(odd):
        return ""
    return "utf-16-le" if odd.count(0) == many else "utf-16-be"


def delimiter_of(text: str, form: Form) -> str:
    """What the fields of its lines are separated by: with it the first line names most of the known columns, and most
    rows are as wide. A field may be of any length from then on."""
    csv.field_size_limit(CELL_LETTERS)
    known = set(form.names)

    def rank(delimiter: str) -> tuple[int, float, int, bool]:
        try:
            rows = list(islice(records_of(text, delimiter), SAMPLE_ROWS))
        except csv.Error:
            return 0, 0.0, 0, False
        first = [name.strip() for name in rows[0]] if rows else []
        share = sum(len(row) == len(first) for row in rows) / len(rows) if len(first) > 1 else 0.0
        as_data = bool(form.unnamed) and -1 <= len(first) - form.unnamed <= form.dropped
        named = len(known.intersection(first)) or int(len(first) > 1 and as_data)
        return named, round(share, 2), len(first), delimiter == form.delimiter

    return max(dict.fromkeys((*DELIMITERS, *filter(None, [form.delimiter]))), key=rank)


def records_of(text: str, delimiter: str) -> Iterator[list[str]]:
    """Fields of each line that is not blank."""
    return filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def has_names(first: Sequence[str], form: Form) -> bool:
    """Whether the first record names the columns, as it does unless it holds values as that of the data did."""
    return not form.unnamed or not set(form.names).isdisjoint(name.strip() for name in first)


def names_of(records: Sequence[Sequence[str]], form: Form) -> list[str]:
    """Names of the columns by the first of the records. Raises `EmptyError` where there is nothing to read, and
    `ValueError` where it has no names and is not surely as wide as the data, with or without the target."""
    first = records[0] if records else []
    if not first or not (form.unnamed or any(name.strip() for name in first)):
        raise EmptyError("the input is empty")
    if has_names(first, form):
        return names_apart(first)
    filled = max(len(record) - empty_tail(record) for record in records[:SAMPLE_ROWS])
    found = _names_by_place(len(first), min(len(first), filled), form)
    return found + [f"column_{form.unnamed + more}" for more in range(1, len(first) - len(found) + 1)]


def _names_by_place(width: int, filled: int, form: Form) -> list[str]:
    """Names of the columns of lines of so many fields, of which no more than the first `filled` have values."""
    whole = [f"column_{number}" for number in range(1, form.unnamed + 1)]
    without = [name for name in whole if name != form.target]
    fitting = [names for names in (whole, without) if filled <= len(names) <= width]
    as_data = [names for names in fitting if len(names) == width - form.dropped]
    if not fitting:
        raise ValueError(
            f"the first line has {counted(width, 'field')} and names no column of the model; the data has "
            f"{counted(form.unnamed, 'column')} without names"
        )
    if not as_data and any(names[:filled] != fitting[0][:filled] for names in fitting):
        raise ValueError(
            f"the first line has {counted(width, 'field')}, all empty behind number {filled:,}: it may be with or "
            f"without {form.target}, which the model predicts"
        )
    return (as_data or fitting)[0]


def counted(number: int, noun: str) -> str:
    """`1 field`, `2 fields`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def names_apart(header: Sequence[str]) -> list[str]:
    """Names without blanks and repeats: a second `name` is `name_2`, as in the data to train on."""
    names: dict[str, None] = {}
    stripped = [name.strip() for name in header]
    taken = set(stripped)
    for number, given in enumerate(stripped, start=1):
        name = given or f"column_{number}"
        copy = 2
        while name in names or (name != given and name in taken):
            name = f"{given or f'column_{number}'}_{copy}"
            copy += 1
        names[name] = None
    return list(names)


def empty_tail(fields: Sequence[str]) -> int:
    """How many fields at the end are empty."""
    count = 0
    while count < len(fields) and not fields[-1 - count].strip():
        count += 1
    return count


def evened(records: Iterable[Sequence[str]], width: int) -> Iterator[list[str]]:
    """Records as wide as so many columns, where nothing but empty fields at the end are lost.

    Raises `UnevenError` for the first other one.
    """
    for number, record in enumerate(records):
        if len(record) < width or len(record) - empty_tail(record) > width:
            raise UnevenError(number, list(record))
        yield list(record[:width])


class EmptyError(ValueError):
    """Nothing stands in the file, or in its first line."""


class UnevenError(ValueError):
    """A record has fewer fields than there are columns, or values behind the last one."""

    def __init__(self, number: int, record: list[str]) -> None:
        super().__init__(number)
        self.number = number
        """From 0 on."""
        self.record = record
