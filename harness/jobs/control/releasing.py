"""Devices go back once all ranks of an attempt are gone: at its end, or before it where results are still returned.

On several nodes each says that its ranks have ended (a row of history, `node_return`); devices are free once all have,
be it so or by their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F
from django.utils import timezone

from harness.broker import publish_pool, task_send_on_commit
from harness.jobs.control.clock import moment_within
from harness.jobs.control.parts import is_spread, left_nodes, nodes_of
from harness.jobs.control.reading import end_told
from harness.jobs.control.returns import RETURN_KIND, nodes_returning, told_by
from harness.jobs.control.usage import uses_write
from harness.jobs.control.width_request import width_request_read
from harness.jobs.failures import failure_of
from harness.jobs.models import Allocation, Job, JobAttempt, JobEvent
from harness.jobs.node_ends import END_KIND
from harness.jobs.options import job_pace_keep, option_read
from harness.jobs.states import job_move
from worker.events import Event, FailureCode, Outcome
from worker.states import JobState

_RUNS = (JobState.PLACED, JobState.RUNNING, JobState.PAUSING)


def devices_release(attempt: JobAttempt, at: datetime) -> None:
    """Give back what an attempt holds: it did nothing for it after `at`. In a transaction that holds the job's row."""
    uses_write(attempt, at)
    if option := option_read(attempt.option):
        job_pace_keep(Job.objects.get(pk=attempt.job_id), option, _changed_at(attempt))
    Allocation.objects.filter(attempt=attempt).delete()
    held_s = max(0.0, (at - attempt.created_at).total_seconds())
    Job.objects.filter(pk=attempt.job_id).update(run_s=F("run_s") + held_s, samples_per_s=None, eta_s=None)
    publish_pool("released", {"job_id": attempt.job_id, "token": attempt.number})
    task_send_on_commit("control.tick")


def _changed_at(attempt: JobAttempt) -> datetime:
    """Since when it had the devices that it gives back."""
    request = width_request_read(attempt.width)
    return datetime.fromisoformat(request.asked_at) if request else attempt.created_at


def returning_take(job: Job, attempt: JobAttempt, events: Sequence[Event]) -> None:
    """Take in RETURNING events, in a transaction that holds the job's row. Who is cancelled is gone soon anyway."""
    for event in events if is_spread(attempt) else ():
        node = str(event.data.get("node", ""))
        if node in nodes_of(attempt) and node not in told_by(attempt, RETURN_KIND):
            data = {"node": node, "ended_s": event.time_s, "outcome": str(event.data.get("outcome") or "")}
            text = f"The ranks on {node} have ended; what they made is being returned."
            JobEvent.objects.create(job=job, kind=RETURN_KIND, token=attempt.number, message=text, data=data)
    if is_spread(attempt):
        release_due(attempt)
    else:
        outcome, failure = end_told(events[0])
        told_end = {"outcome": str(events[0].data.get("outcome") or "")}  # of an older agent it is none
        _release(attempt, nodes_of(attempt), events[0].time_s, told_end)
        if outcome is Outcome.FAILED:  # kept, should it never end
            told = failure_of(failure, fallback=FailureCode.PROGRAM_ERROR).to_dict()
            JobAttempt.objects.filter(pk=attempt.pk, ended_at=None).update(failure=told)


def release_due(attempt: JobAttempt) -> None:
    """Free the devices of an attempt on several nodes where no rank is left, and some node still returns what they
    made. As `returning_take`."""
    returning, ended = told_by(attempt, RETURN_KIND), told_by(attempt, END_KIND)
    left = {node: ended.get(node, 0.0) for node in left_nodes(attempt)}
    ended_s = {**ended, **left, **returning}
    if ended_s.keys() >= set(nodes_of(attempt)) and (waits := nodes_returning(attempt)):
        _release(attempt, waits, max(ended_s.values()))


def _release(attempt: JobAttempt, returning: Sequence[str], ended_s: float, told: dict[str, str] | None = None) -> None:
    """Once, while it is open. `ended_s`: when the last rank had ended; `told`: what its history is to know of the end,
    where no row of a node does."""
    text = f"Its ranks have ended, its devices are free; what it made is being returned from {' and '.join(returning)}"
    row = JobAttempt.objects.filter(pk=attempt.pk, ended_at=None, released_at=None).first()
    # One that goes on with other devices afterwards keeps its promise, and what has been told of the danger to it.
    kept: dict[str, Any] = {"warning": row.job.warning} if row and row.job.preempted else {}
    if row and job_move(row.job_id, _RUNS, JobState.RETURNING, if_token=row.number, message=text, data=told, **kept):
        at = moment_within(ended_s, row.created_at, timezone.now())
        devices_release(row, at)
        JobAttempt.objects.filter(pk=row.pk).update(released_at=at)
