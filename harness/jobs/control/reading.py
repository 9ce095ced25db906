"""Events as control takes them in: made storable first, since programs write them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from harness.plain import plain
from worker.events import Event, Outcome

TIME_MIN_S = 1.6e9
"""September 2020: only a clock that was never set says less, such as that of a board without a battery."""
TIME_MAX_S = 4e9
"""The year 2096: no clock of a node that works says more, milliseconds and what is not a number do."""


def event_read(text: str) -> Event:
    """An event whose data every database can hold, of now where its time is none. Raises `ValueError`."""
    try:
        body = json.loads(text)
        if isinstance(body, dict):
            body["time_s"] = _time_s(body.get("time_s"))
        event = Event.from_body(body)
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"not an event: {type(error).__name__}") from error
    return replace(event, data=plain(event.data))


def _time_s(told: Any) -> float:
    try:
        time_s = float(told)
    except (TypeError, ValueError, OverflowError):
        return time.time()
    return time_s if TIME_MIN_S <= time_s <= TIME_MAX_S else time.time()


def end_told(event: Event) -> tuple[Outcome, dict[str, Any] | None]:
    """(outcome, failure) of an EXITED or RETURNING event; who names no outcome that there is was lost."""
    failure = event.data.get("failure")
    try:
        outcome = Outcome(str(event.data.get("outcome")))
    except ValueError:
        outcome = Outcome.LOST
    return outcome, failure if isinstance(failure, dict) else None
