"""What a job page says of a run that has ended while what it made is still on its way to the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from harness.jobs.control.awaited import had_succeeded
from harness.jobs.control.returns import nodes_returning, was_to_pause
from harness.jobs.models import Job, JobAttempt, JobEvent
from worker.events import Outcome
from worker.states import JobState
from worker.transfer.waits import WAITS


@dataclass(frozen=True, kw_only=True)
class Returning:
    """Where what a run made still lies, and what the job does once it has arrived."""

    nodes: tuple[str, ...]
    since: datetime | None
    """Since when its devices are free."""
    then: str
    """What the job does once all has arrived: after *The job*."""
    failure: str
    """Why the run failed, where it did."""
    told: str
    """What its history told last since then and still holds, such as why it takes long."""


def returning_of(job: Job) -> Returning | None:
    """Of a job whose results are being returned."""
    if job.state != JobState.RETURNING:
        return None
    attempt = JobAttempt.objects.filter(job=job, number=job.token).first()
    if attempt is None:
        return None
    events = JobEvent.objects.filter(job=job, token=job.token).order_by("-pk")
    begun = events.filter(kind="state", new_state=JobState.RETURNING).first()
    notes = events.filter(kind="note", pk__gt=begun.pk) if begun else events.none()
    return Returning(
        nodes=nodes_returning(attempt),
        since=attempt.released_at,
        then=_then(job, attempt, begun.data if begun else {}),
        failure=attempt.run_failure.message if attempt.run_failure else "",
        told=_told(notes),
    )


def _told(notes: QuerySet[JobEvent]) -> str:
    """The newest of them, which come the newest first, that still holds: why it waits does not once it comes again."""
    comes = False
    for message, data in notes.values_list("message", "data"):
        waits = data.get(WAITS)
        if waits is False:
            comes = True
        elif not (waits and comes):
            return str(message)
    return ""


def _then(job: Job, attempt: JobAttempt, told: Mapping[str, Any]) -> str:
    """As `attempt_end` has it, so far as the end of its ranks was `told`."""
    if attempt.run_failure:
        return "fails"
    if had_succeeded(attempt):
        return "is over"
    if was_to_pause(job):
        return "waits for devices again" if job.preempted else "is paused"
    return "starts again" if told.get("outcome") == Outcome.LOST else "is over"
