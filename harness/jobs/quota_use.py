"""Quotas next to what the jobs of their projects hold now, and which of them borrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from harness.accounts.access import visible_projects
from harness.accounts.models import User
from harness.jobs.models import Allocation, Job
from harness.jobs.options import options_of
from harness.pool.models import Quota
from harness.pool.quotas import quota_list


@dataclass(frozen=True, kw_only=True)
class QuotaRow:
    """One quota and how much of it is used."""

    quota: Quota
    held: int

    @property
    def above(self) -> int:
        """Devices held above the quota: borrowed, or where that may not be from before it was set, or leaving."""
        return max(0, self.held - self.quota.devices)


def quota_rows(*, user: User, words: str = "") -> list[QuotaRow]:
    """Quotas of the projects that the person sees; `words`: of those whose name has them in it."""
    held = Counter(Allocation.objects.values_list("job__project_id", "device__kind"))
    return [
        QuotaRow(quota=quota, held=held[quota.project_id, quota.device_kind])
        for quota in quota_list().filter(project__in=visible_projects(user), project__name__icontains=words)
    ]


def borrowers(jobs: Iterable[Job]) -> set[str]:
    """Ids of those of the jobs that hold devices while their project is above its quota, or can start no other way.

    They are put back when the lender needs its devices. A promise is kept all the same: promised jobs are left out.
    """
    quotas = Quota.objects.filter(may_borrow=True)
    limits = {(quota.project_id, quota.device_kind): quota.devices for quota in quotas}
    open_jobs = [job for job in jobs if job.promised_at is None] if limits else []
    if not open_jobs:
        return set()
    rows = list(Allocation.objects.values_list("job_id", "job__project_id", "device__kind"))
    held = Counter((project, kind) for _, project, kind in rows)
    kind_of = {job_id: kind for job_id, _, kind in rows}

    def is_above(job: Job, kind: str, devices: int) -> bool:
        limit = limits.get((job.project_id, kind))
        return limit is not None and devices > limit

    return {
        job.pk
        for job in open_jobs
        if (
            is_above(job, kind, held[job.project_id, kind])
            if (kind := kind_of.get(job.pk))
            else all(is_above(job, option.kind, option.count) for option in options_of(job))
        )
    }
