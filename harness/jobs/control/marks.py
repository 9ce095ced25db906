"""High-water marks: which events of an attempt are new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.jobs.control.parts import is_spread, left_voices
from harness.jobs.models import JobAttempt
from worker.events import Event, EventKind

_SENT = "sent"
"""Mark of the count over all that the first supervisor sends."""


def words_lost(seen: Mapping[str, int], events: Iterable[Event]) -> bool:
    """Whether something that was sent before these events of an attempt, or between them, has not arrived.

    `seen`: the marks before them.
    """
    last = seen.get(_SENT, -1)
    new = {event.sent for event in events if event.sent is not None and event.sent > last}
    return bool(new) and max(new) - last > len(new)


def fresh_events(attempt: JobAttempt, events: Iterable[Event]) -> list[Event]:
    """Events above the high-water mark of their rank, but for those of nodes that were left behind; moves the marks.

    The end has a mark of its own: a node that tells of it, or a record on disk, may be heard before what the supervisor
    said earlier.
    """
    fresh, unheard = [], left_voices(attempt)
    for event in events:
        if event.sent is not None:
            attempt.seen_seq[_SENT] = max(event.sent, attempt.seen_seq.get(_SENT, -1))
        if event.rank in unheard and event.kind != EventKind.EXITED:
            continue
        mark = _end_mark(attempt, event) if event.kind == EventKind.EXITED else str(event.rank)
        if event.seq > attempt.seen_seq.get(mark, -1):
            attempt.seen_seq[mark] = event.seq
            fresh.append(event)
    return fresh


def _end_mark(attempt: JobAttempt, event: Event) -> str:
    """Which high-water mark an EXITED event moves: each node of a spread attempt ends by itself."""
    return f"end {event.data.get('node')}" if is_spread(attempt) else "end"
