"""What `deadline_energy` can do with each job, and in which order it serves those of each sort."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduler.policies.deadline_plan import Found, too_late
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.order import order_key
from scheduler.policies.ways import Ways
from scheduler.types import JobView


class Sorting:
    """Of the jobs of one pass."""

    def __init__(
        self, settings: Settings, sites: GangSites, ways: dict[str, Ways], turns: Mapping[str, int], now_s: float
    ) -> None:
        """`ways`: filled by `sort`, with the share of who has one. `turns`: see `DeadlinePass`."""
        self._set, self._sites, self._ways = settings, sites, ways
        self._turns, self._now_s = turns, now_s

    def sort(
        self, jobs: Sequence[JobView], found: Found
    ) -> tuple[list[JobView], list[JobView], list[JobView], list[JobView]]:
        """(cannot be changed, promised, other deadlines that can be kept, the rest), in order.

        Sets `Ways.share` of those whose deadline can be kept, and tells in `found.waits` of whom it is too late for.
        """
        fixed, promised, dated, others = [], [], [], []
        for job in jobs:
            ways = self._ways[job.job_id] = Ways(job, self._set.rescale)
            if not job.can_pause and job.is_running:
                fixed.append(job)
            elif not ways.options or job.deadline_s is None:
                others.append(job)
            elif job.promised:
                promised.append(job)
            elif self._now_s + ways.least_s > job.deadline_s:
                others.append(job)
                found.waits[job.job_id] = too_late()
            else:
                ways.share = self.share(job)
                dated.append(job)
        promised.sort(key=lambda job: (self._turns.get(job.job_id, 0), job.deadline_s, job.job_id))
        dated.sort(key=self._dated_key)
        others.sort(key=lambda job: order_key(job, self._now_s, self._set.patience_s))
        return fixed, promised, dated, others

    def latest_s(self, job: JobView) -> float:
        """When it has to begin, or to go on, by the upper end of what is fastest; unix time."""
        return (job.deadline_s or math.inf) - min(self._ways[job.job_id].seconds)

    def share(self, job: JobView) -> float:
        """See `Ways.share`; by the fastest option where none keeps the deadline."""
        option, run_s = self._ways[job.job_id].within((job.deadline_s or math.inf) - self._now_s)
        return option.count * run_s / max(1, self._sites.total(option))

    def _dated_key(self, job: JobView) -> tuple[int, int, int, float, str]:
        turn = self._turns.get(job.job_id, 0)
        return (-job.priority, job.rank, turn, self._ways[job.job_id].share, job.job_id)
