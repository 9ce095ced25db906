"""First come, first served within a priority; later jobs only fill gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.policies.order import PATIENCE_S, order_key
from scheduler.policies.ordered import OrderedRules
from scheduler.policies.queueing import Queueing
from scheduler.types import Capacity, JobView, Plan, Quotas


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
        rules = OrderedRules(jobs, self.patience_s, lambda job: order_key(job, now_s, self.patience_s), _standing)
        return Queueing(jobs, capacity, now_s, quotas, rules).plan()


def _standing(job: JobView) -> tuple[float]:
    return (job.priority,)
