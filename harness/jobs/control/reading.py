"""Events as control takes them in: made storable first, since programs write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.plain import plain
from worker.events import Event, Outcome


def event_read(text: str) -> Event:
    """An event whose data every database can hold. Raises `ValueError`."""
    try:
        event = Event.from_json(text)
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"not an event: {type(error).__name__}") from error
    return replace(event, data=plain(event.data))


def end_told(event: Event) -> tuple[Outcome, dict[str, Any] | None]:
    """(outcome, failure) of an EXITED or RETURNING event; who names no outcome that there is was lost."""
    failure = event.data.get("failure")
    try:
        outcome = Outcome(str(event.data.get("outcome")))
    except ValueError:
        outcome = Outcome.LOST
    return outcome, failure if isinstance(failure, dict) else None
