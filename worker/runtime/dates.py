"""Dates in rows to predict for, read as the packed data to train on: formats, types, moments that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from worker.runtime.categories import with_columns
from worker.runtime.reach import reached, within_reach
from worker.runtime.row_text import DATE_FORMATS
from worker.runtime.tables import InputError

Tell = Callable[[str], None]
_SHORT_YEAR = r"\D\d\d(?:\s|$)"
"""`1.2.3` is no day of the year 2003; as in `codegen.profile.values`."""
_FULL_YEAR = r"(?:^|\D)\d{4}(?:\D|$)"
_ISO = {
    r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{1,6}$": pa.timestamp("us"),
    r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)? *([Zz]|[+-]\d\d(:?\d\d)?)$": pa.timestamp("us", "UTC"),
}
"""Moments that no format of `strptime` has, and their type."""
DATE_HINT = "Write dates like 2020-01-31."


def typed_dates(kinds: Mapping[str, str], table: pa.Table, tell: Tell) -> pa.Table:
    """Moments as training has them, whose year has four digits; numbers as texts, which are no dates: pyarrow takes
    seconds and milliseconds since 1970 for microseconds."""
    columns = table.columns
    for at, field in enumerate(table.schema):
        if kinds.get(field.name) != "dates":
            continue
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            columns[at] = columns[at].cast(pa.string())
        elif pa.types.is_timestamp(field.type):
            columns[at] = reached(columns[at], field.name, tell)
        elif pa.types.is_date(field.type):
            columns[at] = reached(columns[at].cast(pa.timestamp("ms")), field.name, tell)
    return with_columns(table, columns)


def plain_dates(texts: pa.ChunkedArray, name: str, trained_format: str, tell: Tell) -> pa.ChunkedArray:
    """Moments. The format that fits most texts comes first, then the one that fits most of those left, and so on; of
    several that fit the same texts the one of the data to train on."""
    texts = pc.replace_substring_regex(texts, r"(:\d\d\.\d{6})\d+", r"\1")  # of nanoseconds, as in training
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with suppress(pa.ArrowInvalid):
            return reached(texts.cast(kind), name, tell)
    formats = [*sorted(DATE_FORMATS, key=lambda form: form != trained_format), *_ISO]
    readings, written = [], pa.scalar(None, pa.timestamp("us"))
    for form in formats:
        moments = _read_iso(texts, form) if form in _ISO else _read_by(texts, form)
        readings.append(within_reach(moments))
        written = pc.coalesce(moments, written)
    beyond = _beyond(texts, written, pc.coalesce(*readings))
    texts = pc.if_else(pc.is_valid(beyond), pa.scalar(None, texts.type), texts)
    unread, used = pc.is_valid(texts), []
    while _count(unread):
        fits = [pc.and_(unread, pc.is_valid(reading)) for reading in readings]
        found = [_count(mask) for mask in fits]
        if not (most := max(found)):
            break
        best = found.index(most)
        alike = [at for at, mask in enumerate(fits) if found[at] == _count(pc.and_(mask, fits[best])) == most]
        used += [readings[at] for at in ([best] if formats[best] == trained_format else alike)]
        unread = pc.and_not(unread, fits[best])
    if len(used) > 1 or (used and _count(unread)):
        _refuse_doubtful(texts.to_pylist(), [reading.to_pylist() for reading in used], name)
    # What lies beyond can be read, so that it is missing, as in training, and no reason to refuse all rows.
    return reached(pc.coalesce(*used, beyond), name, tell) if used or not _count(unread) else texts


def _beyond(texts: pa.ChunkedArray, written: pa.ChunkedArray, within: pa.ChunkedArray) -> pa.ChunkedArray:
    """Moments of the texts that no format reads within the years that are read, though one does beyond them."""
    is_beyond = pc.and_(pc.and_not(pc.is_valid(written), pc.is_valid(within)), _matches(texts, _FULL_YEAR))
    return pc.if_else(is_beyond, written, pa.scalar(None, written.type))


def _matches(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def _read_by(texts: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Moments of any year, null where a text is none: `strptime` by itself takes 31 April for 1 May."""
    moments = pc.strptime(texts, format=form, unit="us", error_is_null=True)
    before = form[: form.index("%d")].count("%") - form[: form.index("%d")].count("%b")
    found = pc.extract_regex(texts, pattern=rf"^\D*(?:\d+\D+){{{before}}}(?P<day>\d{{1,2}})")
    is_there = pc.equal(pc.struct_field(found, "day").cast(pa.int64()), pc.day(moments))
    if "%y" in form:
        is_there = pc.and_(is_there, pc.match_substring_regex(texts, _SHORT_YEAR))
    return pc.if_else(pc.fill_null(is_there, False), moments, pa.scalar(None, moments.type))


def _read_iso(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    fitting = pc.if_else(_matches(texts, pattern), texts, pa.scalar(None, texts.type))
    fitting = pc.utf8_upper(pc.replace_substring_regex(fitting, r" +([Zz]|[+-][\d:]+)$", r"\1"))  # as pyarrow takes it
    with suppress(pa.ArrowInvalid):  # 2020-02-30
        return fitting.cast(_ISO[pattern]).cast(pa.int64()).cast(pa.timestamp("us"))
    return pa.chunked_array([pa.nulls(len(texts), pa.timestamp("us"))])


def _refuse_doubtful(values: list[str | None], readings: list[list[datetime | None]], name: str) -> None:
    for row, (value, *dates) in enumerate(zip(values, *readings, strict=True), start=1):
        where = f"Row {row}: column {name!r}: {value!r}"
        different = {date for date in dates if date is not None}
        if value is not None and not different:
            raise InputError(f"{where} is not a date that can be read.", DATE_HINT)
        if len(different) > 1:
            raise InputError(
                f"{where} may be {' or '.join(f'{date:%d %B %Y}' for date in sorted(different))}.", DATE_HINT
            )


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
