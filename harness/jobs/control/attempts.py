"""How an attempt ends: devices go back, and the job moves on by the attempt's outcome. One place, exactly once."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from harness.broker import task_send_on_commit
from harness.jobs.control.clock import moment_within
from harness.jobs.control.found import Figures, Found, found_read, found_take
from harness.jobs.control.losses import faults, stops
from harness.jobs.control.reading import event_read
from harness.jobs.control.releasing import devices_release
from harness.jobs.control.returns import was_to_pause
from harness.jobs.control.saved import checkpoint_set_aside
from harness.jobs.failures import RunFailure, failure_of, given_up
from harness.jobs.models import Job, JobAttempt
from harness.jobs.sizes import job_size_due
from harness.jobs.states import job_move
from harness.pool.services import pool_setting_get
from scheduler.backoff import restart_delay_s
from worker.events import Event, EventKind, FailureCode, Outcome
from worker.plan import RunPaths
from worker.states import JobState

_log = logging.getLogger(__name__)
_STARTED = (JobState.PLACED, JobState.RUNNING)
_RUNS = (JobState.PLACED, JobState.RUNNING, JobState.PAUSING, JobState.RETURNING)
_STOPS_MOST = 20
"""So often in a row, without a new checkpoint, a job's node may be shut down until these count as faults: who wonders
why nodes are stopped under a job should hear of it."""
_GOES_AGAIN = (*_STARTED, JobState.RETURNING)


def attempt_end(
    attempt: JobAttempt,
    outcome: Outcome,
    failure: dict[str, Any] | None,
    found: Found | None = None,
    *,
    forgiven: bool = False,
    ended_s: float | None = None,
) -> bool:
    """End an attempt, give back what it still holds and move its job on. Returns False where it had ended already.

    `found`: on the disk, from whoever calls this in a transaction; else it is read here, before one begins.
    `forgiven`: that it was lost does not count towards the most restarts.
    `ended_s`: when its run ended, by its node's clock. Control may hear of it much later, and the devices did nothing
    for it in between.
    """
    if found is None:
        found = found_read(attempt.job_id, outcome)
    lost = outcome == Outcome.LOST
    fallback = FailureCode.NODE_LOST if lost else FailureCode.PROGRAM_ERROR
    told = failure_of(failure, fallback=fallback) if outcome in {Outcome.LOST, Outcome.FAILED} else None
    now = timezone.now()
    ended_at = now if ended_s is None else moment_within(ended_s, attempt.created_at, now)
    with transaction.atomic():
        # the job before its attempt, as everybody who locks both
        Job.objects.select_for_update().filter(pk=attempt.job_id).values_list("pk").first()
        rows = JobAttempt.objects.filter(pk=attempt.pk, ended_at=None)
        if not rows.update(ended_at=ended_at, outcome=str(outcome), failure=told.to_dict() if told else None):
            return False
        job_size_due(attempt.job_id)
        if JobAttempt.objects.filter(pk=attempt.pk, released_at=None).exists():
            devices_release(attempt, ended_at)
        job = Job.objects.select_related("project").get(pk=attempt.job_id)
        if job.token == attempt.number:
            found_take(job, attempt, found)
            _job_move_on(job, attempt, outcome, told, found.figures, forgiven=forgiven)
        task_send_on_commit("control.tick")
    return True


def _job_move_on(
    job: Job, attempt: JobAttempt, outcome: Outcome, told: RunFailure | None, figures: Figures, *, forgiven: bool
) -> None:
    """The table of outcomes. A job that is being cancelled is cancelled, however its attempt ended."""
    if job_move(job.pk, JobState.CANCELLING, JobState.CANCELLED, message="All its processes are gone"):
        return
    if outcome == Outcome.SUCCEEDED:
        job_move(job.pk, _RUNS, JobState.SUCCEEDED, message="Finished", **{**_at_the_end(job), **figures})
        task_send_on_commit("control.job_learn", [job.pk])
    elif outcome == Outcome.PAUSED:
        job_move(job.pk, _STARTED, JobState.PAUSING, message="The run asked to pause")
        leaves = (JobState.PAUSING, JobState.RETURNING)
        trained = JobAttempt.objects.filter(pk=attempt.pk).exclude(running_at=None).exists()
        left = "Left its devices" if trained else "Left its devices before its first step"
        job_move(job.pk, leaves, JobState.PAUSED, message=left)
        _back_in_queue(job)
    elif outcome == Outcome.CANCELLED:
        job_move(job.pk, _RUNS, JobState.CANCELLING, message="The node ended the run")
        job_move(job.pk, JobState.CANCELLING, JobState.CANCELLED, message="All its processes are gone")
    elif told is not None and (outcome == Outcome.LOST or _chosen_set_aside(job, attempt, told)):
        _lost(job, attempt, told, forgiven=forgiven)
    elif told is not None:
        data = {"code": told.code}
        job_move(job.pk, _RUNS, JobState.FAILED, message=told.message, failure=told.to_dict(), data=data)


def _back_in_queue(job: Job) -> None:
    """A job that the scheduler paused waits again at its old place; one that a person paused stays so."""
    if Job.objects.filter(pk=job.pk, preempted=True).exists():
        text = "It waits again, at its old place"
        # A promise that was in danger is so still, until that is looked at again: its history tells of it once.
        job_move(job.pk, JobState.PAUSED, JobState.QUEUED, message=text, preempted=False, warning=job.warning)


def _losses(job: Job, attempt: JobAttempt) -> int:
    """How often the job was lost without getting on: now, and back to the attempt that made its newest checkpoint.

    A run of weeks may be lost more often than one that never gets anywhere.
    """
    return 1 + min(faults([job.pk]).filter(number__lt=attempt.number).count(), job.restarts)


def _lost(job: Job, attempt: JobAttempt, told: RunFailure, *, forgiven: bool) -> None:
    """Queue it again after a pause, at its old place, from its newest checkpoint; give up after too many times.

    Where an admin shut a node down, nothing is broken: it counts for nothing, and there is nothing to wait for, unless
    that happens again and again.
    """
    pauses = (JobState.PAUSING, *([JobState.RETURNING] if was_to_pause(job) else []))
    if job_move(job.pk, pauses, JobState.PAUSED, message=f"{told.message} It had been asked to pause."):
        _back_in_queue(job)
        return
    stopped = told.code == FailureCode.NODE_STOPPED and stops([job.pk]).count() <= _STOPS_MOST
    if forgiven or stopped:
        job_move(job.pk, _GOES_AGAIN, JobState.QUEUED, message=f"{told.message} It waits again.")
        return
    limit = pool_setting_get().max_restarts
    data = {"code": told.code, "restarts": job.restarts}
    number = _losses(job, attempt)
    if number <= limit:
        delay_s = restart_delay_s(number)
        text = f"{told.message} Starting again in {delay_s:.0f} s ({number} of {limit})."
        job_move(
            job.pk,
            _GOES_AGAIN,
            JobState.QUEUED,
            message=text,
            data=data,
            restarts=job.restarts + 1,
            retry_at=timezone.now() + timedelta(seconds=delay_s),
            waiting_code="restart_delay",
            waiting_text=f"It starts again {delay_s:.0f} s after the fault, where devices are free.",
        )
        return
    final = given_up(told, number - 1)
    job_move(job.pk, _GOES_AGAIN, JobState.FAILED, message=final.message, failure=final.to_dict(), data=data)


def _chosen_set_aside(job: Job, attempt: JobAttempt, told: RunFailure) -> bool:
    """Where a checkpoint that we chose ourselves is damaged: put it aside, so that the next older one is tried."""
    name = attempt.run_plan.resume_from
    if told.code != FailureCode.CHECKPOINT_CORRUPT or not name or job.resume_from == name:
        return False
    checkpoint_set_aside(job, name)
    return True


def _at_the_end(job: Job) -> dict[str, Any]:
    return {"step": F("steps_total")} if job.steps_total else {}


def exit_record(attempt: JobAttempt, part: str = "") -> Event | None:
    """The EXITED event that the supervisor left on disk, or None. Written before it was sent: a lost broker loses it
    not."""
    paths = RunPaths(settings.STORE.job(attempt.job_id).root, part)
    try:
        event = event_read(paths.exit_file(attempt.number).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("exit record of %s/%s: %s", attempt.job_id, attempt.number, error)
        return None
    matches = event.kind == EventKind.EXITED and event.job_id == attempt.job_id and event.token == attempt.number
    return event if matches else None
