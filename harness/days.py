"""From one day to another, as lists are filtered by what is in the address."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo

from django.http import QueryDict
from django.utils.dateparse import parse_date

from harness.errors import Invalid


def days_read(given: QueryDict, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    """(first moment, first moment after the end) of the days `since` to `until`; None where none is given.

    Days are those of `zone`: that of the browser the reader used last, for a view in CLI and API too. Raises `Invalid`
    for what is no day.
    """
    first, last = (_day(given.get(name, ""), name) for name in ("since", "until"))
    return _midnight(first, zone), _midnight(last + timedelta(days=1) if last else None, zone)


def _day(text: str, field: str) -> date | None:
    try:
        day = parse_date(text) if text else None
    except ValueError:
        day = None
    if text and (day is None or not 1970 <= day.year < 9999):
        raise Invalid(f"{text!r} is not a valid date.", field=field, hint="Write it like 2030-01-31.")
    return day


def _midnight(day: date | None, zone: tzinfo) -> datetime | None:
    return datetime(day.year, day.month, day.day, tzinfo=zone) if day else None
