"""Events as control takes them in: made storable first, since programs write them."""

from __future__ import annotations

from dataclasses import replace

from harness.plain import plain
from worker.events import Event


def event_read(text: str) -> Event:
    """An event whose data every database can hold. Raises `ValueError`."""
    try:
        event = Event.from_json(text)
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"not an event: {type(error).__name__}") from error
    return replace(event, data=plain(event.data))
