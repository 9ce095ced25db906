"""What a device is charged for while the files of its job are fetched, and while the job runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs.control.usage import LAST_SAMPLES, device_key, power_now_w, uses_write
from harness.jobs.models import Allocation, DeviceUse, JobAttempt, ResourceSample
from harness.jobs.timelines import job_energy
from harness.pool.models import PoolSetting
from tests.harness.jobs.helpers import place_now, run_now
from tests.harness.jobs.test_metered import TABLE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


@pytest.fixture(autouse=True)
def watts(db):
    PoolSetting.objects.update_or_create(pk=1, defaults={"power_table": {"cpu": {"idle_w": 2.0, "busy_w": 10.0}}})


def used(attempt: JobAttempt, *, held_s: float, began_s: float | None) -> DeviceUse:
    """Its devices given back `held_s` after it got them; its node began `began_s` after that."""
    since = timezone.now() - timedelta(seconds=held_s)
    Allocation.objects.filter(attempt=attempt).update(created_at=since)
    began_at = None if began_s is None else since + timedelta(seconds=began_s)
    JobAttempt.objects.filter(pk=attempt.pk).update(started_at=began_at, running_at=None)
    uses_write(JobAttempt.objects.get(pk=attempt.pk), since + timedelta(seconds=held_s))
    return DeviceUse.objects.get()


@pytest.mark.parametrize(
    ("began_s", "energy_j"),
    [(0.0, 10.0 * 100), (40.0, 2.0 * 40 + 10.0 * 60), (-5.0, 10.0 * 100), (120.0, 2.0 * 100), (None, 2.0 * 100)],
)
def test_a_device_idles_until_the_files_are_there(job_make, node_make, began_s, energy_j):
    node_make("node-1", cpus=1)
    use = used(run_now(job_make()), held_s=100.0, began_s=began_s)
    assert use.energy_j == pytest.approx(energy_j)
    assert (use.ended_at - use.started_at).total_seconds() == pytest.approx(100.0)


@pytest.mark.parametrize("began_s", [None, 1800.0])
def test_who_tells_of_its_run_has_begun_though_nobody_heard_when_or_by_a_wrong_clock(job_make, node_make, began_s):
    node = node_make("node-1", cpus=1)
    attempt = place_now(job_make())
    told = {"ranks": [{"rank": 0, "cpu_percent": 50.0}], "host": {}, "node": node.name}
    ResourceSample.objects.create(job=attempt.job, node=node, token=attempt.number, time_s=1.0, data=told)
    assert used(attempt, held_s=100.0, began_s=began_s).energy_j == pytest.approx(6.0 * 100)


def test_a_device_that_a_gang_left_out_idles_while_the_ranks_compute(job_make, node_make):
    node = node_make("node-1", cpus=1)
    attempt = place_now(job_make())
    told = {"ranks": [{"rank": 0, "cpu_percent": 100.0}], "host": {}, "node": node.name}
    ResourceSample.objects.create(job=attempt.job, node=node, token=attempt.number, time_s=1.0, data=told)
    Allocation.objects.filter(attempt=attempt).update(rank=attempt.run_plan.world_size)
    assert used(attempt, held_s=100.0, began_s=0.0).energy_j == pytest.approx(2.0 * 100)


def test_what_it_draws_now_is_told_by_its_last_samples_and_not_by_its_mean(job_make, node_make):
    node = node_make("node-1", cpus=1)
    attempt = place_now(job_make())
    assert job_energy(attempt.job).power_w == pytest.approx(2.0), "it has not begun"
    for time_s, percent in enumerate([0.0] * 20 + [50.0, 100.0, 75.0]):
        told = {"ranks": [{"rank": 0, "cpu_percent": percent}], "host": {}, "node": node.name}
        ResourceSample.objects.create(job=attempt.job, node=node, token=attempt.number, time_s=time_s, data=told)
    assert job_energy(attempt.job).power_w == pytest.approx(8.0)


def test_what_it_draws_now_is_read_from_few_samples_of_each_node_however_many_there_are(job_make, node_make):
    node = node_make("node-1", cpus=1)
    attempt = place_now(job_make())
    told = {"ranks": [{"rank": 0, "cpu_percent": 100.0}], "host": {}, "node": node.name}
    ResourceSample.objects.bulk_create(
        ResourceSample(job=attempt.job, node=node, token=attempt.number, time_s=at, data=told) for at in range(50)
    )
    held = list(Allocation.objects.filter(attempt=attempt).select_related("device__node", "job", "attempt"))
    with CaptureQueriesContext(connection) as asked:
        assert power_now_w(held, {device_key(held[0].device): TABLE}) == pytest.approx(10.0)
    (query,) = (one["sql"] for one in asked.captured_queries if ResourceSample._meta.db_table in one["sql"])
    assert f"LIMIT {LAST_SAMPLES}" in query and " OVER " not in query, "it numbers none, it stops at the newest"
