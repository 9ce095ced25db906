"""What single values mean: missing markers, numbers in several spellings, dates."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum

import numpy as np
import polars as pl

from codegen.profile import types
from codegen.profile.clocks import clock_seconds
from codegen.profile.measures import MEASURES, measures_alike

MISSING = (
    "",
    "?",
    "-",
    "--",
    "NA",
    "N/A",
    "n/a",
    "na",
    "NaN",
    "nan",
    "-nan",
    "NULL",
    "null",
    "None",
    "nil",
    "<NA>",
    "n.a.",
    "N.A.",
    "NaT",
    "k.A.",
    "\\N",
    "#N/A",
    "#NV",
    "#DIV/0!",
    "#VALUE!",
    "#WERT!",
    "#REF!",
    "#BEZUG!",
    "#NAME?",
    "#NUM!",
    "#ZAHL!",
    "#NULL!",
)
"""Texts that mean "no value", after spaces at both ends are taken off; `#...` are the errors of spreadsheets."""
_IS_MISSING = pl.col("text").is_null() | pl.col("text").is_in(MISSING)
DOUBTFUL_MARKERS = ("-", "NA", "na", "None", "nil")
"""Of these, what may be a value of its own in a column of words."""

DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%d-%m-%Y",
    "%d %b %Y",
    "%b %d, %Y",
    "%d-%b-%Y",
    "%d.%m.%y",
    "%d.%m.%y %H:%M",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d/%m/%y %H:%M",
    "%m/%d/%y %H:%M",
    "%d-%b-%y",
)
"""Tried in this order; the first that fits most values wins. Years of two digits are those from 1969 to 2068."""
_LAST_SHORT_YEAR = 2068
_SHORT_YEAR = r"\D\d\d(?:\s|$)"
"""`1.2.3` is a version, not a day of the year 2003."""
_FIRST_MOMENT, _LAST_MOMENT = datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
"""Beyond, a year was written with fewer digits than its format has, or no program can hold it."""

_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$"
"""`0,636` is no thousand: whoever wrote it writes decimal commas."""
_DECIMAL_COMMA = r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d{1,3}(\.\d{3})+,\d+|\d+,\d+)$"
POINTED_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
"""`1.234` beside decimal commas is a thousand and more, `1.234.567` is a million wherever it stands."""
_ONE_POINT = r"^[^.,]*\.[^.,]*$"

UNITS = (
    "%", "$", "€", "£", "¥", "₹", "₩", "₽", "₺", "₪", "₫", "฿", "zł", "kr", "US$", "AED", "AUD", "BRL", "CAD", "CHF",
    "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS", "INR", "JPY", "KRW", "MXN", "MYR", "NOK", "NZD",
    "PHP", "PLN", "RON", "RUB", "SEK", "SGD", "THB", "TRY", "UAH", "USD", "ZAR",
)  # fmt: skip
"""What may stand before or behind a number: per cent and currencies. `ABC 12` is none: it may be a name."""
_UNIT_TRIAL = 200
_UNIT_SHARE = 0.2
"""Of fewer values a measure is a slip, not what the numbers without one are in."""
_ANY_SIGN = "|".join(map(re.escape, UNITS))
_ANY_UNIT = "|".join([_ANY_SIGN, *(unit for kind in MEASURES for unit in kind)])
"""Behind a number; before one `s1` and `m2` are names."""
_UNIT_GAP = "[ \u00a0\u202f]?"
_UNSIGNED = r"(?:\d[\d.,]*|\.\d+)"


class NumberStyle(StrEnum):
    """How numbers are spelled."""

    PLAIN = "plain"
    THOUSANDS = types.THOUSANDS
    """`1,234.5`"""
    DECIMAL_COMMA = types.DECIMAL_COMMA
    """`1.234,5`"""
    MIXED = "points and commas"
    """`0.5` beside a few `2,5`: each as it is written, so that `1.234` has three decimals and `1,234` is a thousand."""
    CLOCK_FULL = types.CLOCK_FULL
    """`0:38:53`, as seconds"""
    CLOCK_HOURS = types.CLOCK_HOURS
    """`19:12` and `0:38:53`, as seconds"""
    CLOCK_MINUTES = types.CLOCK_MINUTES
    """`4:35` and `0:38:53`, as seconds"""


CLOCK_STYLES = tuple(map(NumberStyle, types.CLOCKS))


def is_missing(stripped: pl.Series) -> pl.Series:
    """True where a text (spaces taken off) is null or a missing marker."""
    return stripped.to_frame("text").select_seq(_IS_MISSING).to_series()


def numbers(texts: pl.Series, style: NumberStyle = NumberStyle.PLAIN) -> pl.Series:
    """Float64 of texts, null where a text is no number of this style (`nan` is no number)."""
    if style in CLOCK_STYLES:
        return clock_seconds(texts, minutes_first=style is NumberStyle.CLOCK_MINUTES)
    if style is NumberStyle.MIXED:
        commas = numbers(texts, NumberStyle.DECIMAL_COMMA)
        commas = commas.set(texts.str.contains(_ONE_POINT).fill_null(False), None)  # which is a plain number
        return numbers(texts, NumberStyle.THOUSANDS).fill_null(commas)
    if style is NumberStyle.THOUSANDS:
        texts = texts.set(~texts.str.contains(_THOUSANDS).fill_null(False), None).str.replace_all(",", "", literal=True)
    elif style is NumberStyle.DECIMAL_COMMA:
        texts = texts.set(~texts.str.contains(_DECIMAL_COMMA).fill_null(False), None)
        texts = texts.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return without_nan(texts.cast(pl.Float64, strict=False))


def without_nan(values: pl.Series) -> pl.Series:
    """Float64 with null for NaN. Numpy looks first: polars' own methods take long over a short column."""
    return values.fill_nan(None) if np.count_nonzero(np.isnan(values.to_numpy())) > values.null_count() else values


def finite(values: pl.Series) -> pl.Series:
    """Float64 with null for NaN and infinite values."""
    values = without_nan(values)
    return values.set(values.is_infinite().fill_null(False), None) if np.isinf(values.to_numpy()).any() else values


def unit_of(texts: pl.Series) -> str:
    """What stands beside a number in most of the first of these texts, spaces taken off; empty where nothing does.

    A measure may stand at some of the numbers only.
    """
    trial = texts.head(_UNIT_TRIAL)
    before = trial.str.extract(rf"^[+-]?({_ANY_SIGN}){_UNIT_GAP}[+-]?{_UNSIGNED}$")
    found = before.fill_null(trial.str.extract(rf"^[+-]?{_UNSIGNED}{_UNIT_GAP}({_ANY_UNIT})$")).drop_nulls()
    if not len(found) or len(found) < _UNIT_SHARE * len(trial):
        return ""
    unit = str(found.value_counts(sort=True)[found.name][0])
    bare = int(trial.str.contains(rf"^[+-]?{_UNSIGNED}$").sum()) if measures_alike(unit) else 0
    return unit if 2 * (len(found) + bare) >= len(trial) else ""


def without_unit(texts: pl.Series, unit: str) -> pl.Series:
    """Texts whose number has lost the unit before or behind it; others, and numbers without one, stay as they are.

    A measure stands behind, and another one of its kind is taken off, too.
    """
    if kind := measures_alike(unit):
        return texts.str.replace(rf"^([+-]?{_UNSIGNED}){_UNIT_GAP}(?:{'|'.join(kind)})$", "${1}")
    beside = re.escape(unit)
    pattern = rf"^([+-]?)(?:{beside}{_UNIT_GAP})?([+-]?)({_UNSIGNED})(?:{_UNIT_GAP}{beside})?$"
    return texts.str.replace(pattern, "${1}${2}${3}")


def dates(texts: pl.Series, pattern: str) -> pl.Series:
    """Datetime (microseconds, UTC without zone) of texts, null where one does not fit."""
    zone = "UTC" if pattern.endswith("%#z") else None
    if "%y" in pattern:
        texts = texts.set(~texts.str.contains(_SHORT_YEAR).fill_null(False), None)
    parsed = texts.str.to_datetime(pattern, strict=False, time_unit="us", time_zone=zone)
    if "%y" in pattern:
        late = (parsed.dt.year() == _LAST_SHORT_YEAR + 1).fill_null(False)  # polars goes on to 2069, POSIX does not
        parsed = parsed.dt.offset_by("-100y").zip_with(late, parsed)
    return within_reach(parsed.dt.replace_time_zone(None) if zone else parsed)


def dates_told(texts: pl.Series, pattern: str) -> pl.Series:
    """`dates`; those of other formats, too, where all formats that read one tell the same moment: rows to predict for
    are read like that."""
    found = dates(texts, pattern)
    left = found.is_null() & texts.is_not_null()
    if not left.any():
        return found
    others = texts.filter(left)
    readings = pl.DataFrame([dates(others, form).rename(form) for form in DATE_FORMATS])
    first, last = readings.min_horizontal(), readings.max_horizontal()
    return found.scatter(left.arg_true(), first.set((first != last).fill_null(False), None))


def within_reach(moments: pl.Series) -> pl.Series:
    """Moments whose year has four digits, null for the others: `31.12.07` is no day of the year 7."""
    return moments.set(~moments.is_between(_FIRST_MOMENT, _LAST_MOMENT).fill_null(False), None)


def leading_zeros(texts: pl.Series) -> int:
    """How many texts look like codes: `007`, but not `0`, `0.7` or `0,7`."""
    candidates = texts.filter((texts.str.starts_with("0") & (texts.str.len_bytes() > 1)).fill_null(False))
    return int(candidates.str.contains(r"^0\d+$").sum()) if len(candidates) else 0
