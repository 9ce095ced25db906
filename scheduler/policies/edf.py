"""Earliest deadline first within a priority; jobs without a deadline, and later ones, fill gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.policies.order import PATIENCE_S, is_overdue, order_key
from scheduler.policies.queueing import Queueing
from scheduler.types import Capacity, JobView, Option, Plan, Quotas

EdfKey = tuple[bool, int, int, float, float, str]


@dataclass(frozen=True, kw_only=True)
class Edf:
    """Policy `edf`."""

    patience_s: float = PATIENCE_S

    @property
    def name(self) -> str:
        """See `Policy`."""
        return "edf"

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """See `Policy` and, for the bound on waiting, `scheduler.policies.queueing`."""
        return Queueing(jobs, capacity, now_s, quotas, _Rules(jobs, now_s, self.patience_s)).plan()


class _Rules:
    """A higher priority pauses a lower one, an earlier deadline a later one, an owner what was borrowed."""

    def __init__(self, jobs: Sequence[JobView], now_s: float, patience_s: float) -> None:
        self.patience_s = patience_s
        self._jobs = jobs
        self._now_s = now_s
        running = [job for job in jobs if job.is_running and job.can_pause]
        self._running = sorted(running, key=self._key, reverse=True)

    def queue(self, now_s: float) -> list[JobView]:
        """Overdue ones first, then by priority, an admin's order and deadline."""
        return sorted((job for job in self._jobs if not job.is_running), key=self._key)

    def victims(self, job: JobView, option: Option, borrowed: set[str]) -> list[JobView]:
        """What is borrowed first, then what is served last."""
        found = [
            (victim.job_id not in borrowed, number, victim)
            for number, victim in enumerate(self._running)
            if _goes_before(job, victim) or (victim.job_id in borrowed and victim.project != job.project)
        ]
        return [victim for _, _, victim in sorted(found, key=lambda item: item[:2])]

    def moved(self, job: JobView, option: Option, sign: int) -> None:
        """Nothing depends on it."""

    def _key(self, job: JobView) -> EdfKey:
        overdue, priority, rank, submitted_s, job_id = order_key(job, self._now_s, self.patience_s)
        urgency_s = 0.0 if is_overdue(job, self._now_s, self.patience_s) else _deadline_s(job)
        return (overdue, priority, rank, urgency_s, submitted_s, job_id)


def _deadline_s(job: JobView) -> float:
    return math.inf if job.deadline_s is None else job.deadline_s


def _goes_before(job: JobView, other: JobView) -> bool:
    """By priority, then by deadline: equals do not pause each other."""
    return (-job.priority, _deadline_s(job)) < (-other.priority, _deadline_s(other))
