"""Quotas beside what the jobs of their projects hold now."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.accounts.access import visible_projects
from harness.accounts.models import User
from harness.jobs.models import Allocation
from harness.pool.models import Quota
from harness.pool.quotas import quota_list


@dataclass(frozen=True, kw_only=True)
class QuotaRow:
    """One quota and how much of it is used."""

    quota: Quota
    held: int

    @property
    def borrowed(self) -> int:
        """Devices held above the quota."""
        return max(0, self.held - self.quota.devices)


def quota_rows(*, user: User) -> list[QuotaRow]:
    """Quotas of the projects that the person sees."""
    held = Counter(Allocation.objects.values_list("job__project_id", "device__kind"))
    return [
        QuotaRow(quota=quota, held=held[quota.project_id, quota.device_kind])
        for quota in quota_list().filter(project__in=visible_projects(user))
    ]
