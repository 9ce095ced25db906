"""In which mode a job runs, and why."""

from __future__ import annotations

from harness.jobs.control.width_request import width_of
from harness.jobs.models import Job
from harness.jobs.taken import spec_named
from worker.words import counted


def named_mode(job: Job) -> str:
    """The mode that a person named in the spec; `auto` where it was left open, or came with an offer that was taken."""
    return str(spec_named(job.spec, job.taken).get("mode") or "auto")


def job_mode(job: Job) -> tuple[str, str]:
    """(mode, why): of its newest attempt, else the one that its spec was resolved to; empty before that."""
    resolved = str((job.resolved.get("spec") or job.spec).get("mode") or "")
    guesses = job.resolved.get("guesses", ())
    why = next((str(guess["reason"]) for guess in guesses if guess.get("field") == "mode"), "the spec names it")
    attempt = job.attempts.order_by("-number").only("plan", "width").first()
    placed = attempt.run_plan.mode if attempt else ""
    if placed and placed != resolved:
        why = f"the scheduler gave it {counted(len(width_of(attempt)) if attempt else 0, 'rank')}"
    return placed or resolved, why
