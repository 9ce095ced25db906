"""By when something is to be done, as people write it. One rule for spec, API, page and command line."""

from __future__ import annotations

from datetime import date, datetime, time

DAY_END = time(23, 59, 59)


def no_number(value: object) -> object:
    """The value. Raises `ValueError` for a number, also in a text, which would count seconds since 1970.

    Who writes 2030 means no first hour of 1970.
    """
    if _is_number(value):
        raise ValueError(f"must be a time, as in 2030-01-31T12:00:00Z{', not a number' if _has_digits(value) else ''}")
    return value


def _is_number(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, (int, float))
    try:
        float(value)
    except ValueError:
        return False
    return True


def _has_digits(value: object) -> bool:
    """Whether it looks like a number to who wrote it; true, nan and inf do not."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return any(map(str.isdigit, str(value)))


def day_as_its_end(value: object) -> object:
    """A day without a time as its last second, in no zone yet; anything else as it is.

    Who asks for the 31st means that day and not the midnight before it.
    """
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value.strip())
        except ValueError:
            return value
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, DAY_END)
    return value
