"""What a job used before it was renamed, in a database of an earlier release."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from harness.jobs.models import DeviceUse, Job
from harness.jobs.use_rows import use_rows
from harness.jobs.windows import window_of

migration = import_module("harness.jobs.migrations.0014_uses_of_renamed_jobs")


def use_make(job: Job | None, name: str) -> None:
    """A use of an hour, that ended now, under this name."""
    now = timezone.now()
    DeviceUse.objects.create(
        node_name="node-1", device_kind="cpu", device_index=0, job=job, job_name=name, token=1, energy_j=5.0,
        project=job.project if job else None, project_name="Birds", owner=job.owner if job else None,
        owner_name="owner", started_at=now - timedelta(hours=1), ended_at=now, energy_basis="assumed",
    )  # fmt: skip


@pytest.mark.django_db
def test_it_stands_under_the_one_name_that_the_job_has_now(job: Job, people: SimpleNamespace) -> None:
    def shown() -> set[str]:
        return {row.name for row in use_rows(user=people.admin, window=window_of("day"), by="job")}

    use_make(job, "before")
    use_make(None, "of a job that is gone")
    assert shown() == {"before", "of a job that is gone"}
    use_make(job, job.name)
    migration.name_anew(apps, SimpleNamespace(connection=connection))
    assert shown() == {job.name, "of a job that is gone"}
    assert not DeviceUse.objects.filter(job_name="before").exists()
