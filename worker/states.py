"""States of a job: one enum, one table of legal moves, one terminal set.

Every change of state is a compare-and-set against this table (see `harness.jobs.states`).
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands. The value is what the database, the API and the pages show."""

    DRAFT = "draft"
    """Spec and program exist and can be edited; nothing has been asked of the pool."""
    QUEUED = "queued"
    """Waits for devices."""
    PLACED = "placed"
    """Holds devices; its ranks are being started."""
    RUNNING = "running"
    """The first training step has been made."""
    PAUSING = "pausing"
    """Asked to write a checkpoint and leave its devices."""
    RETURNING = "returning"
    """Its ranks have ended and its devices are free; what it made is still on its way to the store."""
    PAUSED = "paused"
    """Holds a checkpoint and no devices."""
    CANCELLING = "cancelling"
    """Asked to stop; its processes are being ended."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.DRAFT: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.PLACED, JobState.PAUSED, JobState.CANCELLED, JobState.FAILED}),
    JobState.PLACED: frozenset(
        {
            JobState.RUNNING,
            JobState.QUEUED,
            JobState.PAUSING,
            JobState.RETURNING,
            JobState.CANCELLING,
            JobState.SUCCEEDED,
            JobState.FAILED,
        }
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.QUEUED,
            JobState.PAUSING,
            JobState.RETURNING,
            JobState.CANCELLING,
            JobState.SUCCEEDED,
            JobState.FAILED,
        }
    ),
    JobState.PAUSING: frozenset(
        {JobState.PAUSED, JobState.RETURNING, JobState.CANCELLING, JobState.SUCCEEDED, JobState.FAILED}
    ),
    JobState.RETURNING: frozenset(
        {JobState.QUEUED, JobState.PAUSED, JobState.CANCELLING, JobState.SUCCEEDED, JobState.FAILED}
    ),
    JobState.PAUSED: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.CANCELLING: frozenset({JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
}
"""`FAILED` and `CANCELLED` may be queued again only by a person who resumes from a checkpoint."""

TERMINAL: frozenset[JobState] = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
"""The run has ended; nothing but a person's request moves the job again."""

HOLDS_DEVICES: frozenset[JobState] = frozenset(
    {JobState.PLACED, JobState.RUNNING, JobState.PAUSING, JobState.CANCELLING}
)
"""States in which devices are allocated to the job."""


HAS_ATTEMPT: frozenset[JobState] = HOLDS_DEVICES | {JobState.RETURNING}
"""States in which an attempt of the job is open: a node works for it."""


def can_move(old: JobState, new: JobState) -> bool:
    """Say whether the table allows `old` -> `new`."""
    return new in TRANSITIONS[old]


_SAID = {
    JobState.DRAFT: "is a draft",
    JobState.PLACED: "is being started",
    JobState.PAUSING: "is being paused",
    JobState.RETURNING: "is returning what it made",
    JobState.CANCELLING: "is being cancelled",
    JobState.SUCCEEDED: "has succeeded",
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "was cancelled",
}


def said(state: str) -> str:
    """The state as a sentence says it of a job ("has failed"). Raises `ValueError` for what is no state."""
    return _SAID.get(JobState(state), f"is {state}")
