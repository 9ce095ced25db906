"""The one place where the state of a job changes: compare-and-set, an event row, the live word."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from harness.accounts.models import User
from harness.broker import publish_job
from harness.jobs.models import Job, JobEvent
from harness.jobs.told import job_event_tell
from worker.states import TERMINAL, JobState, can_move

_EXPECTED = ("expected_start_at", "expected_finish_at", "expected_low_at", "expected_high_at")
_log = logging.getLogger(__name__)


def job_move(
    job_id: str,
    old: JobState | Iterable[JobState],
    new: JobState,
    *,
    actor: User | None = None,
    message: str = "",
    data: dict[str, Any] | None = None,
    if_token: int | None = None,
    **fields: Any,
) -> JobState | None:
    """Move a job from (one of) `old` to `new`; return the state it was in, or None where it was in no such state.

    With `if_token` it moves only while that is its newest attempt. `fields` are set in the same update. Of two who move
    the same job at once exactly one gets an answer. Raises `ValueError` for a move that the table does not have.
    """
    olds = (old,) if isinstance(old, JobState) else tuple(old)
    for state in olds:
        if not can_move(state, new):
            raise ValueError(f"no job moves from {state} to {new}")
    stamps = _stamps(new)
    with transaction.atomic():
        for state in olds:
            rows = Job.objects.filter(pk=job_id, state=state.value)
            if if_token is not None:
                rows = rows.filter(token=if_token)
            if rows.update(state=new.value, **{**stamps, **fields}) == 1:
                _record(job_id, state, new, actor=actor, message=message, data=data or {})
                return state
    return None


def _stamps(new: JobState) -> dict[str, Any]:
    now = timezone.now()
    stamps: dict[str, Any] = {"retry_at": None, "queue_position": None}
    if new == JobState.QUEUED:
        stamps["expected_start_at"] = None  # of one that ran it is when that began
    else:
        stamps |= {"waiting_code": "", "waiting_text": ""}
    if new in TERMINAL or new in {JobState.PAUSED, JobState.RETURNING}:
        # Nothing is expected of it any more.
        stamps |= dict.fromkeys(_EXPECTED) | {"warning": ""}
    if new in TERMINAL:
        stamps |= {"finished_at": now, "eta_s": None}
    else:
        stamps["finished_at"] = None
    return stamps


def _record(
    job_id: str, old: JobState, new: JobState, *, actor: User | None, message: str, data: dict[str, Any]
) -> None:
    project_id, token, name = Job.objects.values_list("project_id", "token", "name").get(pk=job_id)
    _event_write(
        job_id=job_id,
        kind="state",
        old_state=old.value,
        new_state=new.value,
        token=token,
        actor=actor,
        message=message,
        data=data,
    )
    _log.info("job %s: %s -> %s %s", job_id, old, new, message)
    publish_job(
        project_id, job_id, "state", {"old": old.value, "new": new.value, "name": name, "message": message, **data}
    )


def job_note(
    job: Job, kind: str, message: str, *, actor: User | None = None, data: dict[str, Any] | None = None
) -> JobEvent:
    """Write a line of history that changes no state (kinds: see `JobEvent.kind`) and tell those who watch."""
    event = _event_write(job=job, kind=kind, message=message, actor=actor, token=job.token, data=data or {})
    publish_job(job.project_id, job.pk, kind, {"message": message, **(data or {})})
    return event


def _event_write(**fields: Any) -> JobEvent:
    """The one place where history is written that people may want to be told of."""
    with transaction.atomic():
        event = JobEvent.objects.create(**fields)
        job_event_tell(event)
    return event
