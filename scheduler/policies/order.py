"""In what order jobs are served, and why nobody waits for ever.

Jobs are served by priority, then by an admin's own order, then first come first served. A job that has waited for
`patience_s` since it was submitted is *overdue*: overdue jobs go before all others, among themselves by an admin's
order and then by submission, whatever their priority. So from that moment on only jobs that were submitted earlier
can be before it, and these are finitely many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.types import JobView

PATIENCE_S = 24 * 3600.0
"""Until then a higher priority wins; afterwards the longer wait does."""

OrderKey = tuple[bool, int, int, float, str]


def is_overdue(job: JobView, now_s: float, patience_s: float = PATIENCE_S) -> bool:
    """Whether it has waited so long that nobody who came later may go before it."""
    return now_s - job.submitted_s >= patience_s


def order_key(job: JobView, now_s: float, patience_s: float = PATIENCE_S) -> OrderKey:
    """Sort key of the queue: who is served first has the smallest."""
    overdue = is_overdue(job, now_s, patience_s)
    return (not overdue, 0 if overdue else -job.priority, job.rank, job.submitted_s, job.job_id)


def runs_in_front(jobs: Sequence[JobView], now_s: float, patience_s: float = PATIENCE_S) -> Sequence[JobView]:
    """The jobs, each run with the rank of the foremost job that it is ordered among: an admin's order arranges what
    waits, so a move pauses no run of its priority. What else puts a job before a run (submission, say) still does."""
    if not any(job.rank for job in jobs):
        return jobs
    foremost: dict[int | None, int] = {}
    for job in jobs:
        for group in _groups(job, now_s, patience_s):
            foremost[group] = min(job.rank, foremost.get(group, job.rank))
    return [
        replace(job, rank=min(foremost[group] for group in _groups(job, now_s, patience_s))) if job.is_running else job
        for job in jobs
    ]


def _groups(job: JobView, now_s: float, patience_s: float) -> tuple[int | None, ...]:
    """Its priority; None as well once it is overdue: among such jobs the priority does not count."""
    return (job.priority, None) if is_overdue(job, now_s, patience_s) else (job.priority,)


def is_settled(job: JobView, patience_s: float = PATIENCE_S) -> bool:
    """Whether a running job is never paused for others: it is promised, or has waited long enough for its devices."""
    if job.running is None or not job.can_pause or job.promised:
        return True
    return is_overdue(job, job.running.started_s, patience_s)


def kept_places(queue: Iterable[JobView]) -> list[JobView]:
    """The queue, with whoever came after a promise, or was promised later, behind the promised job: it counted on
    nobody else. All others keep their order."""
    kept: list[JobView] = []
    for job in queue:
        kept.append(job)
        if job.promised:
            later = [other for other in kept[:-1] if _came_after(other, job)]
            if later:
                kept = [other for other in kept if other not in later] + later
    return kept


def _came_after(other: JobView, job: JobView) -> bool:
    """Whether the promise to `job` was given without a thought of the other one, or before its promise."""
    came_s = other.counts_from_s if other.promised else other.submitted_s
    return came_s > job.counts_from_s
