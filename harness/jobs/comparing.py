"""Several jobs side by side: read at once, however many they are."""

from __future__ import annotations

from collections.abc import Sequence

from harness.accounts.access import visible_projects
from harness.accounts.models import User
from harness.jobs.columns import Column, columns_annotate
from harness.jobs.models import Job
from harness.trash import PURGE_BEGUN

COMPARE_MAX = 50
COLUMNS = (Column("energy_j"), Column("energy_basis"))
"""What the database computes for each: ask `columns_values` with the same ones."""
_UNREAD = ("suggestions", "options", "notes", "promise", "dataset__profile", "dataset__problem", "dataset__options")


def jobs_compared(*, user: User, ids: Sequence[str]) -> list[Job]:
    """The first `COMPARE_MAX` of these jobs in the order they were named, each once, in one query and the roles.

    Those that the person cannot see, or that are gone for good, are left out.
    """
    wanted = list(dict.fromkeys(ids))[:COMPARE_MAX]
    rows = (
        Job.objects.filter(pk__in=wanted, project__in=visible_projects(user))
        .exclude(deleted_at=PURGE_BEGUN)
        .select_related("project", "owner", "dataset")
        .defer(*_UNREAD)
    )
    found = {job.pk: job for job in columns_annotate(rows, COLUMNS)}
    return [found[job_id] for job_id in wanted if job_id in found]
