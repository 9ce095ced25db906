"""In which mode a job runs, and why."""

from __future__ import annotations

from datetime import datetime

from harness.jobs.control.width_request import width_of
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.taken import spec_named
from worker.states import JobState
from worker.words import counted

_WAITS = frozenset({JobState.QUEUED, JobState.PAUSED})


def named_mode(job: Job) -> str:
    """The mode that a person named in the spec; `auto` where it was left open, or came with an offer that was taken."""
    return str(spec_named(job.spec, job.taken).get("mode") or "auto")


def job_mode(job: Job) -> tuple[str, str]:
    """(mode, why): of its newest attempt, else the one that its spec was resolved to; empty before that.

    Of a job that waits or is paused it is that of the line of an offer that was taken since.
    """
    resolved = str((job.resolved.get("spec") or job.spec).get("mode") or "")
    guesses = job.resolved.get("guesses", ())
    why = next((str(guess["reason"]) for guess in guesses if guess.get("field") == "mode"), "the spec names it")
    attempt = job.attempts.order_by("-number").only("plan", "width", "created_at").first()
    taken, taken_at = _taken_mode(job)
    if taken_at and (attempt is None or (job.state in _WAITS and taken_at > attempt.created_at)):
        mode = taken
    else:
        mode = (attempt.run_plan.mode if attempt else "") or resolved
    if mode == resolved:
        return mode, why
    if mode == taken:
        return mode, "the line of an offer that was taken has it"
    return mode, f"the scheduler gave it {counted(len(width_of(attempt)) if attempt else 0, 'rank')}"


def _taken_mode(job: Job) -> tuple[str, datetime | None]:
    """(mode, since when) of the line that was taken last: no spec of a job that is submitted tells of it."""
    if job.state == JobState.DRAFT or not job.options:
        return "", None
    rows = job.events.filter(kind="person", data__offer_id__isnull=False)
    at = rows.order_by("-pk").values_list("at", flat=True).first()
    first = options_of(job)[0]
    return (first.mode or ("single" if first.count == 1 else ""), at) if at else ("", None)
