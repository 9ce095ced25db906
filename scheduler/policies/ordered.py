"""`Rules` of policies that serve all jobs in one order, which nothing that is placed changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.types import JobView, Option


class OrderedRules:
    """Served by `key`, smallest first; a job may pause another one whose `standing` is lower."""

    def __init__(
        self,
        jobs: Sequence[JobView],
        patience_s: float,
        key: Callable[[JobView], Any],
        standing: Callable[[JobView], tuple[float, ...]],
    ) -> None:
        self.patience_s = patience_s
        self._jobs = jobs
        self._key = key
        self._standing = standing
        self._running = sorted((job for job in jobs if job.is_running and job.can_pause), key=key, reverse=True)

    def key(self, job: JobView) -> Any:
        """What they are served by."""
        return self._key(job)

    def queue(self, now_s: float) -> list[JobView]:
        """What waits, in order."""
        return sorted((job for job in self._jobs if not job.is_running), key=self._key)

    def victims(self, job: JobView, option: Option, borrowed: set[str]) -> list[JobView]:
        """What is borrowed first, then what is served last; an owner gets back what was borrowed."""
        standing = self._standing(job)
        found = [
            (victim.job_id not in borrowed, number, victim)
            for number, victim in enumerate(self._running)
            if standing > self._standing(victim) or (victim.job_id in borrowed and victim.project != job.project)
        ]
        return [victim for _, _, victim in sorted(found, key=lambda item: item[:2])]

    def standing(self, job: JobView) -> tuple[float, ...]:
        """As the policy has it."""
        return self._standing(job)

    def moved(self, job: JobView, option: Option, sign: int) -> None:
        """Nothing depends on it."""
