"""How figures are written on pages: as everywhere, a dash where there are none; `frontend/src/format.js` mirrors it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeGuard

from worker.words import duration_words, number_words, percent_words, size_words

NONE = "–"  # noqa: RUF001
"""Where there is nothing to tell."""
DIGITS, _DECIMALS_MOST = 4, 6
_LONG, _SMALL = 1e15, 1e-4
"""Columns of numbers beyond these are written with powers of ten."""


def is_number(value: Any) -> TypeGuard[float]:
    """Programs write results too: what is no finite number must not break a page."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def figure(value: Any, digits: int = 4) -> str:
    """A number as `number_words` has it, by default with `digits` significant digits; anything else as text."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return number_words(value, digits)


def column_figures(values: Sequence[Any]) -> list[Any]:
    """Numbers that are read below each other, written alike: as many decimals as they have, or where these are many, as
    give the smallest `DIGITS` significant digits and write no number below one as one. What is no number stays."""
    form = _form([abs(value) for value in values if is_number(value)])
    return [format(value, form) if is_number(value) else value for value in values]


def _form(sizes: Sequence[float]) -> str:
    if all(isinstance(size, int) for size in sizes):
        return ","
    most, least = max(sizes), min(filter(None, sizes), default=1.0)
    if most >= _LONG or 0 < most < _SMALL:
        return f".{DIGITS}e"
    decimals = max(map(_decimals, sizes))
    if decimals > DIGITS:
        decimals = min(max(0, DIGITS - 1 - math.floor(math.log10(least))), _DECIMALS_MOST)
        below_one = max((size for size in sizes if size < 1), default=0.0)
        while round(below_one, decimals) >= 1 and decimals < _DECIMALS_MOST:
            decimals += 1
    return f",.{decimals}f"


def _decimals(size: float) -> int:
    """How many it takes to write a number as it is."""
    return max(0, -int(Decimal(repr(size)).normalize().as_tuple().exponent))


def short(value: Any, of: str = "") -> str:
    """A large count as 12.3 M, or of a unit as 12.3 MFLOP."""
    if not is_number(value):
        return NONE
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:  # rounded up to it
            return f"{value / size:.3g} {unit}{of}"
    return f"{value:.4g} {of}".rstrip()


def size(value: Any) -> str:
    """Bytes in binary units."""
    return size_words(value) if is_number(value) else NONE


def duration(seconds: Any) -> str:
    """Seconds as `12 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`."""
    return duration_words(seconds) if is_number(seconds) else NONE


def percent(value: Any) -> str:
    """A share 0-1 as percent."""
    return percent_words(value) if is_number(value) else NONE


def signed(value: Any) -> str:
    """A difference with its sign, to one decimal: `+3.2`, `-0.4`, `0.0`."""
    if not is_number(value):
        return NONE
    rounded = round(value, 1) + 0.0
    return f"{rounded:+.1f}" if rounded else "0.0"
