"""`QuotaLines`: what each project may hold of each kind over time, in the plan of one decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.policies.timeline import Timeline
from scheduler.types import JobView, Option, Quotas


class QuotaLines:
    """A timeline of devices for each quota. Mutable: it lives within one decision."""

    def __init__(self, jobs: Sequence[JobView], quotas: Quotas, now_s: float) -> None:
        """Nothing is held yet; `jobs` say what runs."""
        self._quotas = quotas
        self._above = _above(jobs, quotas) if quotas else frozenset()
        self._lines = {
            (project, kind): Timeline(now_s, 0 if (project, kind) in self._above else limit)
            for project, quota in quotas.items()
            for kind, limit in quota.devices.items()
        }
        self.exist = bool(self._lines)
        """Whether anything is limited: of most pools nobody needs to ask."""

    def fit(self, job: JobView, option: Option) -> bool:
        """Whether the project could hold so many devices without borrowing."""
        if not self._quotas:
            return True
        quota = self._quotas.get(job.project)
        limit = quota.limit(option.kind) if quota else None
        return limit is None or option.count <= limit or self._keeps(job, option)

    def may_borrow(self, job: JobView, option: Option) -> bool:
        """Whether the project may go over its quota."""
        quota = self._quotas.get(job.project)
        return quota is None or quota.borrows(option.kind)

    def line(self, job: JobView, option: Option) -> Timeline | None:
        """What is left to its project over time; None: there is no limit."""
        return self._lines.get((job.project, option.kind))

    def binding(self, job: JobView, option: Option, *, borrow: bool) -> Timeline | None:
        """The same where the job has to keep to it."""
        line = self.line(job, option)
        if line is None or (borrow and self.may_borrow(job, option)) or self._keeps(job, option):
            return None
        return line

    def _keeps(self, job: JobView, option: Option) -> bool:
        """Whether it holds as much already, from before a quota that may not be exceeded became smaller."""
        if (job.project, option.kind) not in self._above or job.running is None or not job.is_running:
            return False
        return option.kind == job.running.option.kind and option.count <= job.running.option.count


def _above(jobs: Sequence[JobView], quotas: Quotas) -> frozenset[tuple[str, str]]:
    """(project, kind) of which more is held than may ever be: what runs goes on, and nothing starts beside it."""
    held: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.running is not None and job.is_running:
            held[job.project, job.running.option.kind] += job.running.option.count
    found = set()
    for (project, kind), count in held.items():
        quota = quotas.get(project)
        limit = quota.limit(kind) if quota else None
        if quota is not None and limit is not None and count > limit and not quota.borrows(kind):
            found.add((project, kind))
    return frozenset(found)
