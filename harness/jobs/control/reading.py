"""Events as control takes them in: made storable first, since programs write them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from harness.plain import plain
from worker.events import Event, Outcome

TIME_MAX_S = 4e9
"""The year 2096: no clock of a node that works says more, milliseconds and what is not a number do."""


def event_read(text: str) -> Event:
    """An event whose data every database can hold, of now where its time is none. Raises `ValueError`."""
    try:
        event = _event(text)
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"not an event: {type(error).__name__}") from error
    is_a_time = 0 <= event.time_s <= TIME_MAX_S
    return replace(event, data=plain(event.data), time_s=event.time_s if is_a_time else time.time())


def _event(text: str) -> Event:
    """Without a time that can be read it is of now: no end is lost for that."""
    try:
        return Event.from_json(text)
    except (ValueError, OverflowError):
        body = json.loads(text)
        if not isinstance(body, dict):
            raise
        return Event.from_json(json.dumps(body | {"time_s": time.time()}))


def end_told(event: Event) -> tuple[Outcome, dict[str, Any] | None]:
    """(outcome, failure) of an EXITED or RETURNING event; who names no outcome that there is was lost."""
    failure = event.data.get("failure")
    try:
        outcome = Outcome(str(event.data.get("outcome")))
    except ValueError:
        outcome = Outcome.LOST
    return outcome, failure if isinstance(failure, dict) else None
