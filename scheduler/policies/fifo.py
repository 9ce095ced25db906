"""First come, first served within a priority; later jobs only fill gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.policies.order import PATIENCE_S, order_key
from scheduler.policies.queueing import Queueing
from scheduler.types import Capacity, JobView, Option, Plan, Quotas


@dataclass(frozen=True, kw_only=True)
class Fifo:
    """Policy `fifo`."""

    patience_s: float = PATIENCE_S

    @property
    def name(self) -> str:
        """See `Policy`."""
        return "fifo"

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """See `Policy` and, for the bound on waiting, `scheduler.policies.queueing`."""
        return Queueing(jobs, capacity, now_s, quotas, _Rules(jobs, now_s, self.patience_s)).plan()


class _Rules:
    """A higher priority pauses a lower one, an owner what was borrowed."""

    def __init__(self, jobs: Sequence[JobView], now_s: float, patience_s: float) -> None:
        self.patience_s = patience_s
        self._jobs = jobs
        running = [job for job in jobs if job.is_running and job.can_pause]
        self._running = sorted(running, key=lambda job: order_key(job, now_s, patience_s), reverse=True)

    def queue(self, now_s: float) -> list[JobView]:
        """By `order_key`."""
        waiting = (job for job in self._jobs if not job.is_running)
        return sorted(waiting, key=lambda job: order_key(job, now_s, self.patience_s))

    def victims(self, job: JobView, option: Option, borrowed: set[str]) -> list[JobView]:
        """What is borrowed first, then what is served last."""
        found = [
            (victim.job_id not in borrowed, number, victim)
            for number, victim in enumerate(self._running)
            if victim.priority < job.priority or (victim.job_id in borrowed and victim.project != job.project)
        ]
        return [victim for _, _, victim in sorted(found, key=lambda item: item[:2])]

    def moved(self, job: JobView, option: Option, sign: int) -> None:
        """Nothing depends on it."""
