"""Unix times as moments that people are told."""

from __future__ import annotations

from datetime import UTC, datetime

LATEST_S = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""From here on calendars, and the time zones of some readers, know no day."""


def moment_of(time_s: float | None) -> datetime | None:
    """The moment of a unix time; None where there is none, or none that any calendar has.

    A run may well be foretold to take longer than there are years: somebody asked for millions of epochs.
    """
    if time_s is None or not 0 <= time_s < LATEST_S:
        return None
    return datetime.fromtimestamp(time_s, UTC)
