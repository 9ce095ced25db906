"""Nodes report how fast data came to them; the way of a job's data counts in what it is told and promised."""

from __future__ import annotations

from datetime import UTC, timedelta
from functools import partial

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Job
from harness.pool.caches import NodeCache, caches_get
from harness.pool.models import PoolSetting
from harness.pool.selectors import pool_overview
from harness.pool.services import node_drain
from harness.rates.submitting import job_submit
from harness.storage.models import ContentSize
from scheduler.data_way import HERE
from scheduler.estimation.values import Basis
from tests.harness.caches import MIB, cached_node, large_make
from tests.harness.jobs.helpers import age, estimated, place_now, queue

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
ASSUMED = 10 * MIB


@pytest.fixture
def large(dataset):
    return large_make(dataset)


@pytest.fixture
def cached_make(node_make):
    return partial(cached_node, node_make)


def view_of(job):
    facts = facts_read()
    return next(view for view in facts.views if view.job_id == job.pk)


def test_the_rate_of_a_node_is_the_median_of_its_last_fetches_and_of_one_that_fetched_nothing_assumed(
    job_make, cached_make, node_make, large
):
    cached_make("near", rates=[99, 100, 101, 0.1, 5000])
    cached_make("new")
    node_make("store")
    queue(estimated(job_make()))
    ways = facts_read().ways
    data = ways.of(large.sha256)
    assert data.size_bytes == 6000 * MIB
    assert {name: data.to_s(name) for name in ("near", "new", "store")} == pytest.approx(
        {"near": 60.0, "new": 600.0, "store": 0.0}
    )
    assert data.to("near").high_s > 1e4, "as slow as it once was"
    assert data.to("new").high_s == pytest.approx(2400.0)
    assert (ways.basis("near"), ways.basis("new")) == (Basis.MEASURED, Basis.ASSUMED)
    PoolSetting.objects.update(data_mib_per_s=100.0)
    assert facts_read().ways.of(large.sha256).to_s("new") == pytest.approx(60.0)


def test_who_has_the_data_waits_for_none_and_who_gets_them_for_the_rest(job_make, cached_make, large):
    cached_make("has", datasets=[large.sha256])
    cached_make("gets", copying={"dataset": large.sha256, "share": 0.75})
    view = view_of(queue(estimated(job_make())))
    assert view.data.to_s("has") == 0.0 and view.data.to_s("gets") == pytest.approx(150.0)
    assert view.data_on == {"has"}


def test_small_data_and_pools_that_see_the_store_count_nothing(job_make, cached_make, node_make, dataset):
    node_make("store")
    job = queue(estimated(job_make()))
    assert view_of(job).data is None
    cached_make("far")
    assert dataset.source_bytes < ASSUMED and view_of(job).data is None


def test_data_that_nobody_has_measured_yet_count_as_they_were_uploaded(job_make, cached_make, dataset):
    cached_make("far")
    type(dataset).objects.filter(pk=dataset.pk).update(source_bytes=6000 * MIB)
    ContentSize.objects.filter(sha256=dataset.sha256).delete()
    assert view_of(queue(estimated(job_make()))).data.to_s("far") == pytest.approx(600.0)


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_what_a_job_is_told_of_its_finish_holds_the_way_of_its_data(job_make, cached_make, large, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    cached_make("far", cpus=1)
    job = queue(estimated(job_make(), run_s=1000.0))
    assert tick() == 1
    waiting = queue(estimated(job_make(name="after it"), run_s=1000.0))
    tick()
    job.refresh_from_db()
    waiting.refresh_from_db()
    assert (job.state, waiting.state) == ("placed", "queued")
    assert waiting.expected_start_at >= job.expected_finish_at
    assert (job.expected_finish_at - timezone.now()).total_seconds() == pytest.approx(1600.0, abs=60.0)


def test_of_a_job_that_is_placed_what_is_left_of_the_way_counts_until_its_first_step(job_make, cached_make, large):
    cached_make("far")
    job = estimated(job_make(), run_s=1000.0)
    attempt = place_now(job)
    age(attempt, created_at=200)
    assert view_of(job).bringing == pytest.approx((400.0, 2200.0), abs=30.0)
    age(attempt, created_at=900)
    assert view_of(job).bringing == pytest.approx((0.0, 1500.0), abs=30.0), "it is slower than was told"
    age(attempt, created_at=2500)
    assert view_of(job).bringing == HERE
    age(attempt, created_at=0)
    Job.objects.filter(pk=job.pk).update(state="running")
    assert view_of(job).bringing == HERE


def test_a_finish_that_the_way_of_the_data_makes_impossible_is_not_promised(job_make, cached_make, large):
    def submitted(seconds):
        wished = {"budget": {"deadline": (timezone.now() + timedelta(seconds=seconds)).isoformat()}}
        return estimated(job_make(**wished), run_s=1000.0)

    cached_make("far", rates=[10, 10, 10, 10])
    job = submitted(1500)
    with pytest.raises(Invalid) as refused:
        job_submit(user=job.owner, job=job)
    assert "10 min of that to bring its data there" in str(refused.value)
    job = submitted(2000)
    assert job_submit(user=job.owner, job=job).promised_at is not None
    job = submitted(1500)
    cached_make("near", datasets=[large.sha256], cpus=2)
    assert job_submit(user=job.owner, job=job).promised_at is not None


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_a_promise_that_holds_the_way_of_the_data_is_not_told_to_be_at_risk(job_make, cached_make, large, policy):
    """By the upper ends of its way and of its run the promise is just kept."""
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    cached_make("far", rates=[10, 20, 10, 10])
    deadline_at = timezone.now() + timedelta(seconds=2450)
    job = estimated(job_make(budget={"deadline": deadline_at.isoformat()}), run_s=1000.0, slowdown=1.2)
    assert job_submit(user=job.owner, job=job).promised_at is not None
    for _ in ("it is placed", "it fetches"):
        tick()
    job.refresh_from_db()
    assert (job.state, job.warning) == ("placed", "")
    left_s = [(at - timezone.now()).total_seconds() for at in (job.expected_low_at, job.expected_high_at)]
    assert left_s == pytest.approx([300 + 1000 / 1.2, 1200 + 1000 * 1.2], abs=30.0)


def test_a_line_that_nobody_has_measured_is_promised_by_with_care_until_it_is(job_make, cached_make, large):
    def submitted():
        deadline_at = timezone.now() + timedelta(seconds=2000)
        return estimated(job_make(budget={"deadline": deadline_at.isoformat()}), run_s=1000.0)

    cached_make("far")
    early, late = submitted(), submitted()
    with pytest.raises(Invalid) as refused:
        job_submit(user=early.owner, job=early)
    assert "40 min of that to bring its data there" in str(refused.value)
    cached_make("far", rates=[10, 10, 10, 10])
    assert job_submit(user=late.owner, job=late).promised_at is not None


def test_the_latest_start_of_a_promise_whose_devices_have_left_leaves_time_for_its_data(
    job_make, cached_make, large, people
):
    cached_make("far", rates=[10, 10, 10, 10])
    deadline_at = timezone.now() + timedelta(hours=2)
    job = estimated(job_make(budget={"deadline": deadline_at.isoformat()}), run_s=1000.0, slowdown=1.0)
    job_submit(user=job.owner, job=job)
    node_drain(user=people.admin, name="far")
    tick()
    job.refresh_from_db()
    latest_at = deadline_at - timedelta(seconds=1600)
    assert f"breaks unless it can start by {latest_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" in job.warning


def test_the_pool_page_tells_the_rate_and_no_size(cached_make, people, client):
    cached_make("near", rates=[7, 8, 9])
    (row,) = pool_overview().nodes
    assert row.description["cache"] == {"used_bytes": 1, "limit_bytes": 9, "bytes_per_s": pytest.approx(8 * MIB)}
    client.force_login(people.outsider)
    assert "data come at 8 MiB/s (measured)" in client.get("/pool/").content.decode()


@pytest.mark.parametrize(
    "fetches",
    [7, {}, [7], [{}], [{"bytes": "x", "seconds": 1}], [{"bytes": True, "seconds": 1}], [{"bytes": 5, "seconds": 0}],
     [{"bytes": 1, "seconds": 1e9}], [{"bytes": 1e300, "seconds": 1e-300}], [{"bytes": float("inf"), "seconds": 1}]],
)  # fmt: skip
def test_figures_that_make_no_sense_are_none(node_make, fetches):
    node_make("far", description={"cache": {"fetches": fetches}})
    assert caches_get() == {"far": NodeCache()}
    assert "bytes_per_s" not in pool_overview().nodes[0].description["cache"]
