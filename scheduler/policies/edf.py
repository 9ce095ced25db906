"""Earliest deadline first within a priority; jobs without a deadline, and later ones, fill gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.policies.order import PATIENCE_S, is_overdue, order_key
from scheduler.policies.ordered import OrderedRules
from scheduler.policies.queueing import Queueing
from scheduler.types import Capacity, JobView, Plan, Quotas

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
        rules = OrderedRules(jobs, self.patience_s, lambda job: _key(job, now_s, self.patience_s), _standing)
        return Queueing(jobs, capacity, now_s, quotas, rules).plan()


def _key(job: JobView, now_s: float, patience_s: float) -> EdfKey:
    """Overdue jobs first, then by priority, an admin's order and deadline."""
    overdue, priority, rank, submitted_s, job_id = order_key(job, now_s, patience_s)
    urgency_s = 0.0 if is_overdue(job, now_s, patience_s) else _deadline_s(job)
    return (overdue, priority, rank, urgency_s, submitted_s, job_id)


def _deadline_s(job: JobView) -> float:
    return math.inf if job.deadline_s is None else job.deadline_s


def _standing(job: JobView) -> tuple[float, float]:
    """By priority, then by deadline: equals do not pause each other."""
    return (job.priority, -_deadline_s(job))
