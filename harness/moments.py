"""Unix times as moments that people are told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

YEAR_LAST = 9999
LATEST_S = datetime(YEAR_LAST, 1, 1, tzinfo=UTC).timestamp()
"""From here on calendars, and the time zones of some readers, know no day."""
_IN_WORDS = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC\b")


def moment_of(time_s: float | None) -> datetime | None:
    """The moment of a unix time; None where there is none, or none that any calendar has.

    A run may well be foretold to take longer than there are years: somebody asked for millions of epochs.
    """
    if time_s is None or not 0 <= time_s < LATEST_S:
        return None
    return datetime.fromtimestamp(time_s, UTC)


def moment_words(moment: datetime, *, exact: bool = False) -> str:
    """`2030-01-31 18:00 UTC`: in a sentence that many read, each in a zone of their own. `exact`: with its seconds,
    where it has any."""
    return f"{clock_words(moment.astimezone(UTC), exact=exact)} UTC"


def clock_words(moment: datetime, *, exact: bool = True) -> str:
    """`2030-01-31 18:00` in the zone that the moment is in, with its seconds where it has any."""
    return f"{moment:%Y-%m-%d %H:%M:%S}" if exact and moment.second else f"{moment:%Y-%m-%d %H:%M}"


def moments_split(text: str) -> list[str | datetime]:
    """A sentence with the moments in it that `moment_words` wrote as such, for who tells each in the reader's zone."""
    parts = _IN_WORDS.split(text)
    return [_moment(part) if number % 2 else part for number, part in enumerate(parts)]


def moments_told(text: str, zone: tzinfo) -> str:
    """A sentence with the moments in it as clocks in that zone show them, each with the zone's abbreviation."""
    parts = moments_split(text)
    return "".join(part if isinstance(part, str) else _zoned_words(part.astimezone(zone)) for part in parts)


def _zoned_words(moment: datetime) -> str:
    return f"{clock_words(moment)} {zone_abbreviation(moment)}"


def zone_abbreviation(moment: datetime) -> str:
    """`CET`; of zones that have no letters `UTC+05:45`."""
    name = moment.tzname() or "UTC"
    if name[0] not in "+-":
        return name
    return f"UTC{name[:3]}:{name[3:]}" if name[3:] else f"UTC{name}"


def _moment(text: str) -> str | datetime:
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:  # a 31st of February, whatever that is
        return f"{text} UTC"
    return moment if 1 < moment.year < YEAR_LAST else f"{text} UTC"
