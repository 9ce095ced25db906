"""Queued jobs without an estimate: each has its turn, whatever is wrong with those before it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from django.conf import settings

from harness.estimates import renewing, services
from harness.estimates.models import Inspection, JobEstimate
from harness.estimates.services import estimates_renew, inspection_answer, job_estimate, jobs_estimate
from harness.jobs.models import Job
from harness.rates.submitting import job_submit
from tests.harness.estimates.factories import answer


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the jobs in the order in which they were tried; none of them can be estimated."""
    ids: list[str] = []
    monkeypatch.setattr(services, "job_estimate", ids.append)
    return ids


def submitted(job_make: Any, count: int) -> list[Job]:
    """So many jobs that wait, each of another program."""
    jobs = [job_make(training={"epochs": epochs}) for epochs in range(2, 2 + count)]
    return [job_submit(user=job.owner, job=job) for job in jobs]


def test_jobs_that_cannot_be_estimated_do_not_keep_the_next_ones_waiting(
    job_make: Any, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "JOBS_AT_ONCE", 2)
    jobs = [job.pk for job in submitted(job_make, 5)]
    for _ in range(3):
        jobs_estimate()
    assert tried[:5] == jobs, "each once before any has a second turn, the oldest first"
    (late,) = submitted(job_make, 1)
    jobs_estimate()
    assert late.pk in tried[6:], "one that comes later has its turn at once"
    jobs_estimate()
    jobs_estimate()
    assert all(tried.count(job) >= 2 for job in jobs), "and keeps the others from none"


def test_a_job_whose_program_is_gone_keeps_no_other_from_its_estimate(job_make: Any, node_make: Any) -> None:
    gone, other = submitted(job_make, 2)
    shutil.rmtree(settings.STORE.job(gone.pk).program)
    node_make("node-1", cpus=2)
    assert job_estimate(gone.pk) is None
    assert jobs_estimate() == 0
    inspection_answer(answer(Inspection.objects.get()))
    assert [row.job_id for row in JobEstimate.objects.all()] == [other.pk]


def test_a_fault_of_ours_with_one_job_keeps_no_other_from_its_estimate(
    job_make: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1", cpus=2)
    bad, other = (job_submit(user=job.owner, job=job) for job in (job_make(), job_make()))
    assert job_estimate(bad.pk) is None
    fixed = services.estimate_fixed

    def breaks(job: Any, *args: Any) -> Any:
        return {}["estimate"] if job.pk == bad.pk else fixed(job, *args)

    monkeypatch.setattr(services, "estimate_fixed", breaks)
    inspection_answer(answer(Inspection.objects.get()))
    assert [row.job_id for row in JobEstimate.objects.all()] == [other.pk]


def test_a_job_whose_program_is_gone_keeps_no_other_from_its_new_estimate(job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=2)
    jobs = submitted(job_make, 2)
    for job in jobs:
        job_estimate(job.pk)
    for inspection in Inspection.objects.all():
        inspection_answer(answer(inspection))
    assert JobEstimate.objects.count() == 2
    for job in jobs:
        assert estimates_renew() == 2 - jobs.index(job)
        shutil.rmtree(settings.STORE.job(job.pk).program)


def test_no_program_is_read_of_jobs_whose_devices_are_there(
    job_make: Any, node_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_make("node-1", cpus=2)
    (job,) = submitted(job_make, 1)
    job_estimate(job.pk)
    inspection_answer(answer(Inspection.objects.get()))
    read: list[str] = []
    monkeypatch.setattr(renewing, "job_key", lambda job: read.append(job.pk))
    assert estimates_renew(lost_only=True) == 0 and JobEstimate.objects.filter(job=job).exists()
    assert not read, "all waiting jobs are looked at each minute"
