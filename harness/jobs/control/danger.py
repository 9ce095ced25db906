"""A promise in danger: what is said of it, when it enters a job's history, and that it has passed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.jobs.control.views import Facts
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.moments import moment_of, moment_words
from scheduler.placing.obstacles import NEVER
from scheduler.types import JobView, PoolView, WaitReason
from worker.states import JobState
from worker.words import duration_words

FARTHEST_S = 3.15e9
"""A hundred years: beyond it nothing is expected at all."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """When a job is expected to start and to end, unix time; `low_s` to `high_s` holds the finish 8 times out of 10."""

    start_s: float
    finish_s: float
    low_s: float
    high_s: float


def danger_words(
    job: Job, expected: Expected | None, from_policy: str, now_s: float, *, stands_still: bool = False
) -> str:
    """What to say about the promise: how late the job may be by its times, and what the policy does about it.

    `stands_still`: it makes no progress, so that its times move with the clock and say nothing.
    """
    if job.promised_at is None:
        return ""
    if job.state == JobState.PAUSING:
        # Saving itself to go on otherwise makes a promise neither safe nor less so.
        return job.warning
    promised_s = job.promised_at.timestamp()
    if now_s > promised_s:
        return _passed_words(job.promised_at)
    if expected is None:
        return from_policy
    promised = moment_words(job.promised_at, exact=True)
    if stands_still and expected.high_s > promised_s:
        told = f"It makes no progress, so that it may miss its promised finish, {promised}."
    elif expected.finish_s > promised_s:
        late = duration_words(expected.finish_s - promised_s, up=True)
        told = f"It is expected to miss its promised finish, {promised}, by {late}."
    elif expected.high_s > promised_s:
        late = duration_words(expected.high_s - promised_s, up=True)
        told = f"Its slack is shrinking: it may miss its promised finish, {promised}, by up to {late}."
    else:
        told = f"Its slack is used up: it may miss its promised finish, {promised}." if from_policy else ""
    return f"{told} {from_policy}".strip()


def danger_note(job: Job, warning: str, expected: Expected | None) -> None:
    """A line of history where the job's promise enters danger, has left it, or has passed; `warning`: what is said now.

    `job` still has what was said before. People may be told of it (`harness.jobs.told`).
    """
    if job.promised_at is not None and warning == _passed_words(job.promised_at):
        at = moment_of(expected.finish_s) if expected else None
        when = f" It is expected to be done by {moment_words(at, exact=True)}." if at else ""
        job_note(job, "note", warning + when, data={"warning": warning, "passed": True})
    elif bool(warning) != bool(job.warning):
        job_note(job, "note", warning or "Its promise is safe again.", data={"warning": warning})


def stuck_words(view: JobView, reason: WaitReason, facts: Facts) -> str:
    """A promised job that nobody can tell a start of, as the pool is now: what becomes of its promise."""
    if reason.code not in NEVER:
        return "Its start can no longer be predicted, so its promise is at risk."
    left_s = min(view.left_high_s(option) for option in view.options) + _least_way_s(view, facts.pool)
    latest_s = view.deadline_s - left_s if view.deadline_s is not None else -math.inf
    if not facts.now_s < latest_s < facts.now_s + FARTHEST_S:
        return f"Its promised finish can no longer be kept. {reason.text}"
    latest = moment_words(datetime.fromtimestamp(latest_s, UTC))
    return f"Its promise breaks unless it can start by {latest}. {reason.text}"


def _passed_words(promised_at: datetime) -> str:
    return f"Its promised finish, {moment_words(promised_at, exact=True)}, has passed and it is not done yet."


def _least_way_s(view: JobView, pool: PoolView) -> float:
    """Upper end of the shortest way of its data to a node of the pool: none that it could have is there now, and of one
    that will be nobody knows more."""
    return min((view.data.to(node.name).high_s for node in pool.nodes), default=0.0) if view.data else 0.0
