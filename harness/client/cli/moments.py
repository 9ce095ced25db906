"""Times as people give them: `90m`, `2030-01-31`, `2030-01-31T18:00`."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from codegen.moments import day_as_its_end
from harness.client.errors import BadInput

_SPAN = re.compile(r"(?:(?:\d+(?:\.\d+)?)\s*(?:s|min|m|h|d)\s*)+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_UNITS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def budget_read(text: str) -> float:
    """`90s`, `10m`, `1.5h`, sums such as `1h30m` and `2d4h`, or plain seconds. Raises `BadInput`."""
    said = text.strip().lower()
    span_s = math.inf
    if _SECONDS.fullmatch(said):
        span_s = float(said)
    elif _SPAN.fullmatch(said):
        span_s = sum(float(count) * _UNITS_S[unit] for count, unit in _SPAN_PART.findall(said))
    if not math.isfinite(span_s):  # JSON has no word for hundreds of digits
        raise BadInput(f"{text[:20]!r} is not a valid time.", hint="Write it like 90s, 10m, 1h30m or 2d.")
    return span_s


def moment_read(text: str, option: str, *, field: str, begins: bool = False) -> str:
    """An ISO time of the reader's own zone, or a span from now like 90m; a day alone is its end, or its first moment
    where something `begins`. Raises `BadInput` that names `field`."""
    try:
        return _moment(text, begins=begins).isoformat(timespec="seconds")
    except (BadInput, ValueError, OverflowError) as error:
        raise BadInput(
            f"{option} {text!r} is not a valid time.",
            hint="Write it like 2030-01-31T18:00, as a day like 2030-01-31, or as 90m, 1h30m or 2d from now.",
            field=field,
        ) from error


def is_span(text: str) -> bool:
    """Whether a text that `moment_read` takes means another moment each time."""
    return _fixed(text, begins=False) is None


def _moment(text: str, *, begins: bool) -> datetime:
    return _fixed(text, begins=begins) or datetime.now(UTC) + timedelta(seconds=budget_read(text))


def _fixed(text: str, *, begins: bool) -> datetime | None:
    """The moment that a text names by itself; None: it is rather a span from now."""
    named = text if begins else day_as_its_end(text)
    if isinstance(named, datetime):
        return named.astimezone()
    with suppress(ValueError):
        return datetime.fromisoformat(text).astimezone()
    return None
