"""For what a job makes room that `deadline_energy` pauses, in words."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from scheduler.policies.order import is_overdue, order_key
from scheduler.types import JobView
from worker.words import duration_words


@dataclass(frozen=True, kw_only=True)
class Room:
    """The order in which one pass has served its jobs."""

    jobs: Mapping[str, JobView]
    promised: Set[str]
    shares: Mapping[str, float]
    """Jobs with another deadline that can be kept -> the share of the pool that each needs for it."""
    latest_s: Mapping[str, float]
    """Those of them that were lined up by when they have to start -> that moment."""
    limited: Set[str]
    """Projects with a quota."""
    now_s: float
    patience_s: float

    def why(self, job_id: str, taker_id: str) -> str:
        """Why the first job is paused and the second one has its devices, as a sentence."""
        job, taker = self.jobs[job_id], self.jobs[taker_id]
        goes_first = self._first_by_class(job, taker) or self._first_by_order(job, taker)
        if goes_first:
            return f"It makes room for a job {goes_first}."
        if job_id in self.promised or job_id in self.shares:
            return "Its deadline leaves time: another job has its devices first."
        if job.project in self.limited and job.project != taker.project:
            return "It makes room for a job of a project that has not used up its quota."
        return "The plan has another job use its devices first."

    def _first_by_class(self, job: JobView, taker: JobView) -> str:
        """What puts the taker into a class that is served before; empty where nothing does."""
        if taker.job_id in self.promised:
            too = ", too, and goes first" if job.job_id in self.promised else ""
            return f"whose deadline is promised{too}"
        if job.job_id in self.promised or self._is_overdue(job):
            return ""
        if self._is_overdue(taker):
            return f"that has waited for more than {duration_words(self.patience_s)}"
        if taker.job_id in self.shares and job.job_id not in self.shares:
            return f"whose deadline can still be kept: {'its own cannot' if job.deadline_s else 'it has none itself'}"
        return ""

    def _first_by_order(self, job: JobView, taker: JobView) -> str:
        """What puts the taker first among jobs of one class; empty where nothing does."""
        if (job.job_id in self.shares) != (taker.job_id in self.shares) or job.job_id in self.promised:
            return ""
        dated, overdue = job.job_id in self.shares, self._is_overdue(job)
        if overdue and not self._is_overdue(taker):
            return ""
        if not overdue and job.priority != taker.priority:
            return "of higher priority" if taker.priority > job.priority else ""
        if job.rank != taker.rank:  # a run stands with the foremost of its priority (`runs_in_front`)
            return ""
        if job.job_id in self.latest_s and taker.job_id in self.latest_s:
            sooner = self.latest_s[taker.job_id] < self.latest_s[job.job_id]
            return "whose deadline leaves it less time" if sooner else ""
        if dated:
            return "that needs less of the pool for its deadline" if self._share(taker) < self._share(job) else ""
        first = order_key(taker, self.now_s, self.patience_s) < order_key(job, self.now_s, self.patience_s)
        return "that was submitted before it" if first else ""

    def _share(self, job: JobView) -> float:
        return self.shares[job.job_id]

    def _is_overdue(self, job: JobView) -> bool:
        waits_in_turn = job.job_id not in self.promised and job.job_id not in self.shares
        return waits_in_turn and is_overdue(job, self.now_s, self.patience_s)
