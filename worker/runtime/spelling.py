"""Rows to predict for, spelled as the packed data to train on: missing values, numbers, dates, truth values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from worker.runtime.categories import categories_spelled, with_columns
from worker.runtime.currencies import UNIT_GAP, without_currency
from worker.runtime.dates import plain_dates, typed_dates
from worker.runtime.row_text import entries, listed
from worker.runtime.tables import DECIMAL_COMMA, MISSING, PLAIN_POINTS

_THOUSANDS_SPELLED = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
_COMMA_SPELLED = r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d{1,3}(\.\d{3})+,\d+|\d+,\d+)$"
_ONE_POINT = r"^[^.,]*\.[^.,]*$"
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"
_COMMA_STYLE, _THOUSANDS_STYLE = "decimal comma", "thousands"
"""As the profile calls `1.234,5` and `1,234.5`."""
_CLOCK_FULL, _CLOCK_HOURS, _CLOCK_MINUTES = "h:mm:ss", "h:mm", "m:ss"
"""As the profile calls what two figures of a duration or a time of day are; of the first kind none has two."""
_CLOCKS = (_CLOCK_FULL, _CLOCK_HOURS, _CLOCK_MINUTES)
_CLOCK = (
    r"^(?:(?P<days>-?[0-9]{1,7}) days?,? )?(?P<sign>[+-]?)(?P<first>[0-9]{1,6}):(?P<second>[0-5][0-9])"
    r"(?P<third>:[0-5][0-9])?(?P<fraction>[.,][0-9]+)?$"
)
MEASURES = (
    {"mm": 1, "cm": 10, "m": 1_000, "km": 1_000_000},
    {"g": 1, "kg": 1_000, "t": 1_000_000},
    {"s": 1, "min": 60, "h": 3_600},
)
"""Kinds, and how many of the smallest of its kind each unit is: those of `codegen.profile.measures`."""
_OR_EMPTY = "or leave it empty: the median of the training rows stands in for what is missing."
_READ = {
    "numeric": (_NUMBER, "number", f"Write a plain number like 12.5 there, {_OR_EMPTY}"),
    "dates": (r"^$", "date that can be read", f"Write a date like 2020-01-31 there, {_OR_EMPTY}"),
}
"""By kind of column: what its texts are where they can be read, what they should be, what to do. A column of dates of
which any can be read is one of moments."""
_SHOWN = 60
"""Letters of a value that cannot be read."""

Tell = Callable[[str], None]


def as_trained(preprocess: Mapping[str, Any], table: pa.Table, tell: Tell = print) -> pa.Table:
    """The table as the packed data to train on is: spaces and missing markers gone, numbers and dates spelled plainly.

    Words among numbers or dates count as missing where values were missing in training, too, and `tell` is told;
    elsewhere they stay, for the program's own `transform` to refuse with their row. Raises `InputError` for dates that
    can be read in two ways, or in none where others can.
    """
    kinds = _kinds(preprocess)
    table = typed_dates(kinds, categories_spelled(_vocabularies(preprocess), _decoded(table)), tell)
    comma = (table.schema.metadata or {}).get(DECIMAL_COMMA) == b"1"
    spelling, missing = preprocess.get("spelling"), preprocess.get("missing")
    spelled = spelling if isinstance(spelling, dict) else {}
    with_missing = missing if isinstance(missing, list) else []
    columns = table.columns  # put into a table at the end: each change of one takes time for all its columns
    for at, field in enumerate(table.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        texts, name = _without_markers(columns[at]), field.name
        if kinds.get(name) == "numeric":
            style, unit = _number_spelling(spelled.get(name))
            prefer_comma = comma and style != _THOUSANDS_STYLE  # what the data to train on says weighs more
            points = PLAIN_POINTS in (field.metadata or {})
            plain = _plain_numbers(_without_unit(texts, unit, name, tell), prefer_comma, style == _COMMA_STYLE, points)
            texts = _plain_seconds(plain, style) if style in _CLOCKS else _in_unit(plain, texts, unit)
            if name in with_missing:
                texts = _without_words(texts, pc.match_substring_regex(texts, _NUMBER), name, "number", tell)
        elif kinds.get(name) == "dates":
            if name in with_missing:
                texts = _without_words(texts, pc.match_substring_regex(texts, r"\d"), name, "date", tell)
            texts = plain_dates(texts, name, str(spelled.get(name, "")), tell)
        columns[at] = texts
    return with_columns(table, columns)


def _decoded(table: pa.Table) -> pa.Table:
    """Texts that a Parquet file keeps as a dictionary (pandas' categories) as texts; lists, never trained on, empty."""
    columns = table.columns
    for at, column in enumerate(columns):
        if pa.types.is_dictionary(column.type):
            columns[at] = column.cast(column.type.value_type)
        elif pa.types.is_nested(column.type):
            columns[at] = pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
    return with_columns(table, columns)


def _without_markers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    stripped = pc.utf8_trim_whitespace(column.cast(pa.string()))
    missing = pc.is_in(stripped, value_set=pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), stripped)


def _without_words(texts: pa.ChunkedArray, fits: pa.ChunkedArray, name: str, what: str, tell: Tell) -> pa.ChunkedArray:
    """Null for what does not fit, as where the data to train on had words among the numbers or dates of a column."""
    words = pc.fill_null(pc.invert(fits), False)
    count = _count(words)
    if not count:
        return texts
    row = pc.index(words, True).as_py()
    is_none = f"value is not a {what}" if count == 1 else f"values are not {what}s"
    tell(
        f"Column {name!r}: {count:,} {is_none}, such as {texts[row].as_py()!r} in row {row + 1:,}; "
        f"{'it counts' if count == 1 else 'they count'} as missing, as in training."
    )
    return pc.if_else(words, pa.scalar(None, texts.type), texts)


def unread_value(preprocess: Mapping[str, Any], table: pa.Table) -> tuple[str, str] | None:
    """(which value a column of numbers or dates cannot have, what to do about it) of rows as `as_trained` leaves them;
    None where all can be read."""
    kinds = _kinds(preprocess)
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = kinds.get(name)
        if kind not in _READ or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        pattern, what, remedy = _READ[kind]
        unread = pc.filter(column, pc.fill_null(pc.invert(pc.match_substring_regex(column, pattern)), False))
        if len(unread):
            return f"column {name!r}: {unread[0].as_py()[:_SHOWN]!r} is not a {what}.", remedy
    return None


def columns_known(preprocess: Mapping[str, Any]) -> set[str]:
    """Names of the columns that data.py prepares, as it notes them."""
    return {*_kinds(preprocess), *_vocabularies(preprocess)}


def _kinds(preprocess: Mapping[str, Any]) -> dict[str, str]:
    """Kind of each column of numbers, as data.py notes it; a person's own data.py may note anything."""
    return {str(entry.get("column")): str(entry.get("kind")) for entry in entries(preprocess.get("numeric"))}


def _vocabularies(preprocess: Mapping[str, Any]) -> dict[str, list[str]]:
    """Known values of each column of categories, as data.py notes them."""
    return {
        str(entry.get("column")): [str(value) for value in listed(entry.get("values"))]
        for entry in entries(preprocess.get("categorical"))
    }


def _number_spelling(noted: object) -> tuple[str, str]:
    """(style, unit) of what the profile notes of a column: `thousands`, `€`, or `decimal comma, €`; `h:mm`."""
    style, _, unit = str(noted or "").partition(", ")
    return (style, unit) if style in (_COMMA_STYLE, _THOUSANDS_STYLE, *_CLOCKS) else ("", style)


def _without_unit(texts: pa.ChunkedArray, unit: str, name: str, tell: Tell) -> pa.ChunkedArray:
    """Numbers alone where the data to train on had `unit` beside them; of measures all of its kind are taken off."""
    if not unit:
        return texts
    if kind := _measures_alike(unit):
        return pc.replace_substring_regex(texts, rf"^([+-]?(?:\d[\d.,]*|\.\d+)){UNIT_GAP}(?:{'|'.join(kind)})$", r"\1")
    return without_currency(texts, unit, name, tell)


def _in_unit(plain: pa.ChunkedArray, written: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Plain numbers of what was `written` with another measure of the kind of `unit`, in `unit`; others as they are."""
    kind = _measures_alike(unit)
    for other in kind.keys() - {unit}:
        with_other = pc.match_substring_regex(written, rf"[^a-z]{other}$")
        with_other = pc.fill_null(pc.and_(with_other, pc.match_substring_regex(plain, _NUMBER)), False)
        found = pc.if_else(with_other, plain, pa.scalar(None, plain.type)).cast(pa.float64())
        converted = pc.divide(pc.multiply(found, float(kind[other])), float(kind[unit]))
        plain = pc.if_else(with_other, converted.cast(plain.type), plain)
    return plain


def _measures_alike(unit: str) -> dict[str, int]:
    """The kind of a unit, itself among it; empty for what is no measure."""
    return next((kind for kind in MEASURES if unit in kind), {})


def _plain_numbers(
    texts: pa.ChunkedArray, prefer_comma: bool, trained_comma: bool, plain_points: bool = False
) -> pa.ChunkedArray:
    """`1,234.5` and `1.234,5` as 1234.5, `+2` as 2; what comma and point mean is told by values that leave no doubt.

    With `plain_points` one point alone is that of a fraction; so it is where more such points than commas are sure.
    """
    texts = pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")
    by_thousands = pc.match_substring_regex(texts, _THOUSANDS_SPELLED)
    by_comma = pc.match_substring_regex(texts, _COMMA_SPELLED)
    one_point = pc.match_substring_regex(texts, _ONE_POINT)
    by_comma = pc.and_not(by_comma, one_point) if plain_points else by_comma
    in_full = pc.and_not(by_comma, one_point)
    sure_thousands, sure_comma = _count(pc.and_not(by_thousands, by_comma)), _count(pc.and_not(in_full, by_thousands))
    if sure_comma < sure_thousands or (sure_comma == sure_thousands and not (prefer_comma or trained_comma)):
        return pc.if_else(by_thousands, pc.replace_substring(texts, ",", ""), texts)
    sure_points = pc.and_(pc.and_not(one_point, by_comma), pc.match_substring_regex(texts, _NUMBER))
    if not plain_points and 0 < sure_comma < _count(sure_points):
        by_comma = in_full if trained_comma else pc.and_not(in_full, by_thousands)
        texts = texts if trained_comma else pc.if_else(by_thousands, pc.replace_substring(texts, ",", ""), texts)
    commas_are_decimal = _count(in_full) > 0 or (trained_comma and not _count(pc.and_not(one_point, by_comma)))
    plain = pc.replace_substring(pc.replace_substring(texts, ".", ""), ",", ".")
    return pc.if_else(by_comma if commas_are_decimal else in_full, plain, texts)


def _plain_seconds(texts: pa.ChunkedArray, style: str) -> pa.ChunkedArray:
    """`0:38:53`, `19:12` and `1 day, 2:03:04` in seconds; two figures with a fraction are minutes and seconds, and
    those that may be hours as well as minutes stay as they are."""
    found = pc.extract_regex(texts, pattern=_CLOCK)

    def figure(name: str) -> pa.ChunkedArray:
        written = pc.replace_substring(pc.utf8_ltrim(pc.struct_field(found, name), ":"), ",", ".")
        return pc.if_else(pc.equal(written, ""), "0", written).cast(pa.float64())

    third, fraction = pc.struct_field(found, "third"), pc.struct_field(found, "fraction")
    open_to_doubt = pc.and_(pc.equal(third, ""), pc.equal(fraction, ""))
    in_minutes = open_to_doubt if style == _CLOCK_MINUTES else pa.scalar(False)
    in_minutes = pc.or_(in_minutes, pc.and_(pc.equal(third, ""), pc.not_equal(fraction, "")))
    first_s = pc.multiply(figure("first"), pc.if_else(in_minutes, 60.0, 3600.0))
    second_s = pc.multiply(figure("second"), pc.if_else(in_minutes, 1.0, 60.0))
    clock_s = pc.add(pc.add(pc.add(first_s, second_s), figure("third")), figure("fraction"))
    signed_s = pc.if_else(pc.equal(pc.struct_field(found, "sign"), "-"), pc.negate(clock_s), clock_s)
    seconds = pc.add(pc.multiply(figure("days"), 86400.0), signed_s)
    read = pc.invert(open_to_doubt) if style == _CLOCK_FULL else pc.is_valid(seconds)
    return pc.if_else(pc.fill_null(read, False), seconds.cast(texts.type), texts)


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
