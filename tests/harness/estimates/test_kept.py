"""What waits for devices that are kept for its own project puts nobody off who could not have them anyway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.accounts.models import Project
from harness.estimates.groups import groups_read
from harness.estimates.openings import openings_read
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.pool.models import Device
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import estimated, queue

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def keep(people: Any, node_make: Any) -> Any:
    """Two GPUs; `keep(starts)` keeps one of them for `people.project`."""
    node_make("node-1", cpus=1, gpus=2)

    def make(device: str = "cuda:0", *, starts: timedelta | None = None, lasts: timedelta = 100 * HOUR) -> None:
        starts_at = timezone.now() + starts if starts else None
        reservation_create(
            user=people.admin, node="node-1", device=device, starts_at=starts_at, purpose="course",
            ends_at=(starts_at or timezone.now()) + lasts, project=people.project,
        )  # fmt: skip

    return make


@pytest.fixture
def expected(job_make: Any) -> Any:
    """A job of `people.project` that waits: `expected(start, run, count)`."""

    def make(start: timedelta, run: timedelta = 10 * HOUR, count: int = 1) -> Job:
        job = queue(estimated(job_make(), kind="cuda", counts=(count,)))
        start_at = timezone.now() + start
        Job.objects.filter(pk=job.pk).update(expected_start_at=start_at, expected_high_at=start_at + run)
        return job

    return make


def others_wait(run: timedelta = 2 * HOUR, *, count: int = 1) -> float:
    """Hours until another project has so many GPUs for so long."""
    project, _ = Project.objects.get_or_create(slug="theirs", defaults={"name": "Theirs"})
    groups = tuple(group for group in groups_read(project) if group.kind == "cuda")
    openings, now_s = openings_read(groups, project=project), timezone.now().timestamp()
    (key,) = openings.capacity
    start_s = openings.earliest_s({key: count}, run.total_seconds(), now_s)
    assert start_s is not None
    return round((start_s - now_s) / 3600, 1)


def test_a_job_that_waits_for_its_projects_own_device_puts_nobody_off(keep, expected):
    keep()
    expected(HOUR)
    assert others_wait() == 0


def test_without_a_device_of_its_own_it_does(keep, expected):
    keep("cpu:0")
    expected(HOUR)
    assert (others_wait(count=1), others_wait(count=2)) == (0, 11)


def test_one_device_is_enough_for_one_job_at_a_time(keep, expected):
    keep()
    expected(HOUR)
    expected(11 * HOUR)
    assert others_wait() == 0
    expected(2 * HOUR, run=HOUR)
    assert (others_wait(), others_wait(HOUR)) == (3, 0)


def test_what_runs_on_the_own_device_leaves_the_next_job_to_the_others(keep, expected, job_make):
    keep()
    runs = job_make()
    attempt = JobAttempt.objects.create(job=runs, number=1, plan={})
    own = Device.objects.get(kind="cuda", index=0)
    Allocation.objects.create(device=own, job=runs, attempt=attempt, rank=0)
    Job.objects.filter(pk=runs.pk).update(state="running", expected_high_at=timezone.now() + HOUR)
    expected(HOUR)
    assert others_wait() == 0
    expected(HOUR / 2)
    assert others_wait() == 10.5


def test_of_a_gang_only_what_goes_beyond_the_own_devices_counts(keep, expected):
    keep()
    expected(HOUR, count=2)
    assert others_wait() == 11


def test_a_device_that_is_kept_later_is_counted_once(keep, expected):
    keep(starts=HOUR, lasts=5 * HOUR)
    expected(HOUR)
    assert (others_wait(count=1), others_wait(HOUR / 2, count=2)) == (0, 0)
    assert others_wait(count=2) == 11, "the job goes on where the time that it is kept has ended"


def test_after_the_time_that_it_is_kept_jobs_are_expected_anywhere(keep, expected):
    keep(lasts=5 * HOUR)
    expected(6 * HOUR)
    assert (others_wait(), others_wait(7 * HOUR)) == (0, 16)
