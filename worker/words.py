"""How numbers, sizes and times are written for people, everywhere: `harness/frontend/src/format.js` mirrors numbers,
sizes and durations for live values.

Thousands are parted by a comma, as Python does it: a sentence that counts has `f"{count:,}"`.

A leaf: it imports nothing of ours, so that all packages and the client may import it. It lies here because programs
carry it along (`codegen.render.RUNTIME`).
"""

from __future__ import annotations

import math
import re

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_KWH_J = 3.6e6
_LEAST_PART = 1e-3
_DECIMALS_MOST = 6
_DIGITS_MOST = 8


def number_words(value: float, digits: int = 4) -> str:
    """`1,258`, `0.9432`, `1.50e-07`: at most `digits` significant digits, or as many more as it takes to write what is
    below one as that: an accuracy of 0.99996 is not perfect."""
    if not math.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e9 or abs(value) < 1e-4:
        return f"{value:.2e}"
    while abs(value) < 1 <= abs(float(f"{value:.{digits}g}")) and digits < _DIGITS_MOST:
        digits += 1
    # What is rounded up to one digit more is a whole number, too: 999.7 is 1000, not 1e+03.
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= 10**digits or rounded.is_integer():
        return f"{round(value):,}"
    return f"{rounded:.{digits}g}"


def percent_words(share: float, decimals: int = 1) -> str:
    """`43.1 %` of a share of 0.431, with a space as SI has it."""
    return f"{round(100 * share, decimals) + 0.0:.{decimals}f} %"


def share_words(share: float, decimals: int = 1) -> str:
    """`percent_words` for sentences that claim something: `99.98 %` and `0.004 %` are neither all nor none."""
    return percent_words(share, _telling_decimals(share, decimals))


def share_span_words(low: float, high: float) -> str:
    """`82 to 99 %`, of two shares: whole ones, unless they would hardly differ, or be called none or all."""
    decimals = next((digits for digits, width in ((0, 0.02), (1, 0.002)) if high - low >= width), 2)
    decimals = max(_telling_decimals(low, decimals), _telling_decimals(high, decimals))
    return f"{percent_words(low, decimals).removesuffix(' %')} to {percent_words(high, decimals)}"


def _telling_decimals(share: float, decimals: int) -> int:
    """So many, or as many more as it takes to write what is neither none nor all as neither."""
    enough = (
        digits for digits in range(decimals, _DECIMALS_MOST + 1) if round(100 * share, digits) not in (0.0, 100.0)
    )
    return next(enough, decimals)


def counted(number: int, one: str, many: str = "") -> str:
    """`number` with the words for one or for many, by default those for one with an s: `1 core`, `2 cores`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def size_words(size_bytes: float) -> str:
    """`512 B`, `1.5 MiB`, `20 GiB`, `312 MiB`: binary units, a decimal below 100 where it is not zero."""
    amount, unit = float(_nearest(size_bytes)), 0
    while _tenths(amount) >= 1024 and unit + 1 < len(_SIZES):  # what is rounded up to 1024 is one of the next unit
        amount, unit = amount / 1024, unit + 1
    return f"{_tenths(amount):g} {_SIZES[unit]}"


def energy_unit(energy_j: float, beside_j: float = 0.0) -> tuple[float, str]:
    """(how many J it is, its name) of the unit in which an energy is told: J, Wh or kWh.

    That of a larger one beside it, so that both are compared by eye; its own where less than a thousandth of it would
    be told.
    """
    if beside_j > energy_j:
        size_j, unit = energy_unit(beside_j)
        if energy_j == 0 or energy_j >= _LEAST_PART * size_j:
            return size_j, unit
    if energy_j < 1000:
        return 1.0, "J"
    return (3600.0, "Wh") if energy_j < _KWH_J else (_KWH_J, "kWh")


def duration_words(seconds: float, *, up: bool = False) -> str:
    """`4.2 s`, `12 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`, to the nearest; a second part of zero is left out.

    `up`: never less than it is, and from 90 s on in whole minutes: for times that are expected or promised.
    """

    def whole(unit_s: int) -> int:
        return math.ceil((seconds - 1e-6) / unit_s) if up else _nearest(seconds / unit_s)

    seconds = max(0.0, seconds)
    if not up and seconds < 9.95:
        return f"{_tenths(seconds):g} s"
    if (count := whole(1)) < 60:
        return f"{count} s"
    if count < 3600 and not (up and count > 90):
        return _parts(count, 60, "min", "s")
    if (count := whole(60)) < 48 * 60:
        return _parts(count, 60, "h", "min") if count >= 60 else f"{count} min"
    days, hours = divmod(whole(3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _parts(count: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(count, size)
    return f"{whole} {large} {rest:02d} {small}" if rest else f"{whole} {large}"


def _nearest(value: float) -> int:
    """Halves upwards, as JavaScript does it."""
    return math.floor(value + 0.5)


def _tenths(value: float) -> float:
    """To one decimal below 100, whole above."""
    tenths = _nearest(value * 10) / 10
    return tenths if abs(tenths) < 100 else _nearest(value)


def step_words(seconds: float) -> str:
    """`4.2 ms`, `1.3 s`, `205 s`: three digits."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 99.95 else f"{seconds:,.0f} s"


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""As JSON spells it: behind an odd number of backslashes the last one begins something else."""


def without_nul(json_text: str) -> str:
    """JSON with the sign for a lost letter where a text has NUL, which no column's name and no database can hold."""
    return _NUL.sub(r"\1\\ufffd", json_text) if "\\u0000" in json_text else json_text
