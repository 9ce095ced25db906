"""By when something is to be done, as people write it. One rule for spec, API, page and command line."""

from __future__ import annotations

from datetime import date, datetime, time

DAY_END = time(23, 59, 59)


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
