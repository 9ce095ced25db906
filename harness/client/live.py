"""Server-sent events as Python values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LiveEvent:
    """One event of `/live`."""

    id: str
    name: str
    """Kind of the event, e.g. `progress`, `metric`, `state`."""
    data: Any


def events_read(lines: Iterable[str]) -> Iterator[LiveEvent]:
    """Events from the lines of a `text/event-stream` (WHATWG HTML, 9.2.6); a comment becomes an event named `ping`."""
    last_id, name, data = "", "", list[str]()
    for line in lines:
        if not line:
            if data:
                yield LiveEvent(id=last_id, name=name or "message", data=_value("\n".join(data)))
            name, data = "", []
            continue
        key, _, value = line.partition(":")
        if not key:
            yield LiveEvent(id=last_id, name="ping", data=None)
            continue
        value = value.removeprefix(" ")
        if key == "data":
            data.append(value)
        elif key == "event":
            name = value
        elif key == "id" and "\0" not in value:
            last_id = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
