"""What became of a requested finish, as `Job.promise` keeps it: a state that code asks for, a sentence for people."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from harness.jobs.models import Job
from worker.states import JobState


class PromiseState(StrEnum):
    """What is said of a job's requested finish."""

    NONE = "none"
    """Nothing: no finish is wished, it is not submitted yet, or a person paused it."""
    NOT_WANTED = "not_wanted"
    """A draft that is to be submitted later without a promise."""
    NO_ESTIMATE = "no_estimate"
    TO_BE_MEASURED = "to_be_measured"
    BEING_MEASURED = "being_measured"
    NOT_MEASURED = "not_measured"
    STARTED_UNMEASURED = "started_unmeasured"
    NOT_PROMISED = "not_promised"
    """It cannot be kept as things were when it was asked for."""
    AFTER_RESERVED = "after_reserved"
    """What keeps its devices now has no known end: it is asked for again when that is over."""
    PROMISED = "promised"


IS_MEASURED = frozenset({PromiseState.TO_BE_MEASURED, PromiseState.BEING_MEASURED})
"""A measurement will tell how long it takes."""
AWAITS_ESTIMATE = IS_MEASURED | {PromiseState.NO_ESTIMATE, PromiseState.NOT_MEASURED}
"""The finish is asked for again as soon as there is an estimate."""

_SENTENCES = {
    PromiseState.NO_ESTIMATE: (
        "There is no estimate of how long it takes, so its finish cannot be promised; it will run as soon as possible."
    ),
    PromiseState.TO_BE_MEASURED: (
        "Its program cannot be read without running it, so a few of its steps will run on the first idle device. "
        "Then its finish will be promised, or you will be told here why not."
    ),
    PromiseState.BEING_MEASURED: (
        "Its run time is being measured: an idle device is running a few of its steps. "
        "Then its finish will be promised, or you will be told here why not."
    ),
    PromiseState.NOT_MEASURED: (
        "Its run time could not be measured, so its finish cannot be promised; it will run as soon as possible."
    ),
    PromiseState.STARTED_UNMEASURED: (
        "It started before its run time was measured. Once its own pace shows how long it takes, its finish will be "
        "promised if it can be kept."
    ),
}


ASKED_AGAIN = "As soon as there is one, often within seconds, its finish will be promised, or you will be told why not."
"""Of who has no estimate when it is submitted."""


def promise_told(state: PromiseState, why: str = "") -> dict[str, Any]:
    """`Job.promise` in this state: its sentence, where it has one of its own, and `why`."""
    return {"state": state.value, "text": f"{_SENTENCES.get(state, '')} {why}".strip()}


def promise_state(job: Job) -> PromiseState:
    """What is said of its requested finish."""
    return PromiseState(job.promise.get("state", PromiseState.NONE))


def admitted_at(job: Job) -> datetime | None:
    """When its finish was promised; None: it never was."""
    told = job.promise.get("admitted_at")
    return datetime.fromisoformat(told) if isinstance(told, str) else None


def danger_hint(job: Job) -> str:
    """What its owner can do about a promise in danger."""
    if job.state in {JobState.PLACED, JobState.RUNNING}:
        return (
            "If that is too late, pause it, take a faster way on its tab Cost and resume it, or use a checkpoint that "
            "it has saved."
        )
    return "If that is too late, take a faster way on its tab Cost, or ask an admin to give it a higher priority."
