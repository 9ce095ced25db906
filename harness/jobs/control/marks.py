"""High-water marks: which events of an attempt are new."""

from __future__ import annotations

from collections.abc import Iterable

from harness.jobs.control.parts import is_spread, left_voices
from harness.jobs.models import JobAttempt
from worker.events import Event, EventKind


def fresh_events(attempt: JobAttempt, events: Iterable[Event]) -> list[Event]:
    """Events above the high-water mark of their rank, but for those of nodes that were left behind; moves the marks.

    The end has a mark of its own: a node that tells of it, or a record on disk, may be heard before what the supervisor
    said earlier.
    """
    fresh, unheard = [], left_voices(attempt)
    for event in events:
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
