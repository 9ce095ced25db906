"""The queue as people see it and its priorities; what a drain does; what devices cost."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.control.usage import SAMPLES_MOST, attempt_samples
from harness.jobs.drain import drain_consequences
from harness.jobs.models import DeviceUse, Job, ResourceSample
from harness.jobs.options import job_options_set
from harness.jobs.queue_order import job_reorder, job_shift
from harness.jobs.queueing import job_priority_set, options_words, queue_rows
from harness.jobs.quota_use import quota_rows
from harness.jobs.timelines import bucket_cells, pool_timeline
from harness.jobs.use_rows import HIDDEN, use_rows
from harness.jobs.windows import window_of
from harness.pages.use_view import use_totals
from harness.pool.models import Device, Node, PoolSetting
from harness.pool.power import device_power
from harness.pool.quotas import quota_set
from harness.pool.services import pool_setting_get
from scheduler.types import Option
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import event, place_now, queue
from tests.harness.jobs.test_queue_order import names, three

pytestmark = pytest.mark.usefixtures("tasks_sent")
NOW = timezone.now()


@pytest.mark.django_db
def test_a_priority_goes_before_the_order(job_make, people):
    _, b, _ = three(job_make)
    job_priority_set(user=people.admin, job=b, priority=3)
    assert names(people.admin) == ["b", "a", "c"]


@pytest.mark.django_db
def test_only_admins_order_the_queue_and_only_what_waits(job, job_make, people):
    waiting = queue(job_make())
    for change in (
        lambda: job_shift(user=people.owner, job=waiting, to="first"),
        lambda: job_reorder(user=people.owner, job=waiting, before=None),
        lambda: job_priority_set(user=people.owner, job=waiting, priority=1),
    ):
        with pytest.raises(Forbidden):
            change()
    with pytest.raises(Conflict):
        job_shift(user=people.admin, job=job, to="first")
    with pytest.raises(Conflict):
        job_priority_set(user=people.admin, job=job, priority=1)
    with pytest.raises(Invalid):
        job_priority_set(user=people.admin, job=waiting, priority=101)
    with pytest.raises(Invalid):
        job_shift(user=people.admin, job=waiting, to="sideways")


@pytest.mark.django_db
def test_jobs_of_other_projects_are_nameless_in_the_queue(job_make, people):
    three(job_make)
    waiting, _ = queue_rows(user=people.outsider)
    assert [(row.job, row.waiting_text, row.position) for row in waiting] == [(None, "", place) for place in (1, 2, 3)]
    assert all(row.devices for row in waiting)


def test_wanted_devices_are_told_in_words():
    options = [Option(kind="cpu", count=4), Option(kind="cpu", count=1), Option(kind="cuda", count=1)]
    assert options_words(options) == "1 to 4 CPU cores or 1 GPU"


@pytest.mark.django_db
def test_a_drain_shows_its_consequences_and_changes_nothing(job_make, people, node_make):
    node_make("node-1", cpus=1)
    node_make("node-2", cpus=1)
    jobs = [job_make(name=name) for name in "abc"]
    for job in jobs:
        job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / 3600)], slowdown=1.2)
        queue(job)
    tick()
    tick()
    held = Job.objects.get(allocations__device__node__name="node-1")
    found = drain_consequences(user=people.admin, name="node-1")
    assert [(row.job.pk, row.devices, row.finish_at) for row in found.running] == [
        (held.pk, 1, held.expected_finish_at)
    ]
    assert found.idle_at == held.expected_finish_at
    both = drain_consequences(user=people.admin, name="node-2")
    assert both.node.name == "node-2" and both.node.state == "up"
    with pytest.raises(Forbidden):
        drain_consequences(user=people.owner, name="node-1")


@pytest.mark.django_db
def test_a_drain_names_jobs_that_could_not_start_any_more(job_make, people, node_make):
    node_make("small", cpus=1)
    node_make("large", cpus=3)
    blocker, wide = job_make(name="blocker"), job_make(name="wide")
    for job, count in ((blocker, 3), (wide, 2)):
        job_options_set(job, [Option(kind="cpu", count=count, mode="sync", rate_per_s=1 / 3600)], slowdown=1.2)
    queue(blocker)
    tick()
    queue(wide)
    tick()
    (delayed,) = drain_consequences(user=people.admin, name="large").delayed
    assert delayed.job.name == "wide" and delayed.finish_after is None and "large is draining" in delayed.why


@pytest.mark.django_db
def test_a_drain_names_jobs_that_would_wait_for_nobody_knows_how_long(job_make, people, node_make):
    node_make("known", cpus=1)
    job_options_set(known := job_make(name="known"), [Option(kind="cpu", count=1, rate_per_s=1 / 3600)], slowdown=1.2)
    queue(known)
    tick()
    node_make("unknown", cpus=1)
    queue(job_make(name="unknown"))
    tick()
    job_options_set(waits := job_make(name="waits"), [Option(kind="cpu", count=1, rate_per_s=1 / 60)], slowdown=1.2)
    queue(waits)
    (delayed,) = drain_consequences(user=people.admin, name="known").delayed
    assert (delayed.job.name, delayed.finish_after) == ("waits", None)
    assert delayed.finish_before is not None and "needs 1 CPU core" in delayed.why


@pytest.mark.django_db
def test_what_devices_did_is_kept_with_energy_and_basis(job, people, node_make):
    node_make(cpus=2)
    attempt = place_now(job)
    Allocation = type(attempt.allocations.get())
    Allocation.objects.update(created_at=timezone.now() - timedelta(hours=1))
    ResourceSample.objects.create(
        job=job, token=attempt.number, time_s=1.0, data={"ranks": [{"rank": 0, "cpu_percent": 50.0}], "gpus": []}
    )
    open_rows = use_rows(user=people.owner, window=window_of("day"), by="job")
    events_apply(job.pk, [event(job, "exited", 9, token=attempt.number, outcome="succeeded", failure=None)])
    use = DeviceUse.objects.get()
    watts = device_power("cpu", "core", {}).at(0.5)
    assert use.energy_basis == "assumed"
    assert use.energy_j == pytest.approx(3600 * watts, rel=0.02)
    closed_rows = use_rows(user=people.owner, window=window_of("day"), by="job")
    for (row,) in (open_rows, closed_rows):
        assert (row.name, row.job_id, row.basis) == (job.name, job.pk, "assumed")
        assert row.device_hours == pytest.approx(1.0, rel=0.02)
        assert row.kwh == pytest.approx(watts / 1000, rel=0.02)
    Job.objects.filter(pk=job.pk).delete()
    assert use_rows(user=people.admin, window=window_of("day"), by="job")[0].name == job.name


@pytest.mark.django_db
@pytest.mark.parametrize("count", [0, 1, SAMPLES_MOST, 1001])
def test_of_many_samples_some_are_read_that_lie_evenly_over_the_attempt(job, node_make, count):
    node_make()
    attempt = place_now(job)
    ResourceSample.objects.bulk_create(
        # Written in another order than they were taken, and beside those of another attempt.
        ResourceSample(job=job, token=attempt.number + at % 2, time_s=float(-at), data={"at": at // 2})
        for at in range(2 * count)
    )
    seen = [sample["at"] for sample in attempt_samples(attempt)]
    assert len(seen) == (count if count <= SAMPLES_MOST else -(-1001 // 5))
    assert seen == sorted(seen, reverse=True)
    if count > SAMPLES_MOST:
        assert sum(seen) / len(seen) == pytest.approx(count / 2, abs=5)
        assert {first - second for first, second in pairwise(seen)} == {5}


def use_make(people, job, device, *, hours_ago, hours, energy_j=3.6e6):
    start = timezone.now() - timedelta(hours=hours_ago)
    return DeviceUse.objects.create(
        device=device, node_name=device.node.name, device_kind=device.kind, device_index=device.index, job=job,
        job_name=job.name, project=people.project, project_name="Birds", owner=people.owner, owner_name="owner",
        token=1, started_at=start, ended_at=start + timedelta(hours=hours), energy_j=energy_j, energy_basis="measured",
    )  # fmt: skip


@pytest.mark.django_db
def test_use_is_cut_at_the_window_and_hidden_from_others(job, people, node_make):
    device = node_make(cpus=1).devices.get()
    use_make(people, job, device, hours_ago=26, hours=4)
    (row,) = use_rows(user=people.owner, window=window_of("day"), by="project")
    assert (row.name, row.basis) == ("Birds", "measured")
    assert row.device_hours == pytest.approx(2.0, rel=0.01)
    assert row.kwh == pytest.approx(0.5, rel=0.01)
    for by in ("job", "person", "project"):
        (hidden,) = use_rows(user=people.outsider, window=window_of("day"), by=by)
        assert (hidden.name, hidden.job_id) == (HIDDEN, "")
    with pytest.raises(Invalid):
        use_rows(user=people.owner, window=window_of("day"), by="colour")
    with pytest.raises(Invalid):
        window_of("century")


@pytest.mark.django_db
def test_the_timeline_adds_up_to_the_use(job, people, node_make):
    node = node_make(cpus=2)
    node.created_at = timezone.now() - timedelta(days=2)
    node.save()
    use_make(people, job, node.devices.order_by("index")[0], hours_ago=10, hours=5)
    window = window_of("day")
    buckets = pool_timeline(window)
    assert sum(bucket.busy * window.bucket_s for bucket in buckets) == pytest.approx(5 * 3600)
    assert sum(bucket.busy_w * window.bucket_s for bucket in buckets) == pytest.approx(3.6e6)
    idle_s = 2 * 24 * 3600 - 5 * 3600
    assert sum(bucket.idle_w * window.bucket_s for bucket in buckets) == pytest.approx(idle_s * 1.5, rel=0.01)
    assert all(0 <= bucket.utilisation <= 0.5 + 1e-9 for bucket in buckets)
    assert {bucket.basis for bucket in buckets if bucket.busy > 0.9} == {"measured"}
    assert {bucket.basis for bucket in buckets if not bucket.busy} == {"assumed"}
    grams = [bucket_cells(bucket, window.bucket_s, 400.0)[7] for bucket in buckets]
    assert sum(grams) == pytest.approx((3.6e6 + idle_s * 1.5) / 3.6e6 * 400, rel=0.01)


@pytest.mark.django_db
def test_a_device_does_not_count_before_it_was_there(job, people, node_make):
    node = node_make(cpus=1)
    node.created_at = timezone.now() - timedelta(hours=1)
    node.save()
    use_make(people, job, node.devices.get(), hours_ago=1, hours=1)
    window = window_of("day")
    assert [bucket.devices for bucket in pool_timeline(window)][:-3] == [0] * 45
    totals = use_totals(pool_timeline(window), window, 400.0)
    assert totals["utilisation"] == pytest.approx(1.0, abs=0.01), "of the hour that it was there, not of the day"


@pytest.mark.django_db
def test_a_device_that_has_left_the_pool_was_there_beside_the_others_while_it_worked(job, people, node_make):
    node_make("stays", cpus=2)
    left = node_make("left", cpus=1)
    Node.objects.update(created_at=timezone.now() - timedelta(days=2))
    use_make(people, job, left.devices.get(), hours_ago=10, hours=5)
    before = [bucket.present for bucket in pool_timeline(window_of("day"))]
    left.delete()
    buckets = pool_timeline(window_of("day"))
    at_work = [bucket for bucket in buckets if bucket.busy > 0.9]
    assert at_work and all(bucket.devices == 3 for bucket in at_work)
    assert all(bucket.present == pytest.approx(3.0, rel=0.05) for bucket in at_work)
    assert all(bucket.utilisation == pytest.approx(1 / 3, rel=0.05) for bucket in at_work)
    assert sum(before) - sum(bucket.present for bucket in buckets) == pytest.approx(38, rel=0.01), (
        "idle time left with it"
    )


@pytest.mark.django_db
def test_a_node_that_is_off_draws_nothing_and_its_devices_are_not_unused(people, node_make):
    node = node_make(cpus=2)
    day_ago, now = timezone.now() - timedelta(hours=24), timezone.now()
    Node.objects.update(created_at=day_ago)
    node.absences.create(since=now - timedelta(hours=20), until=now - timedelta(hours=8))
    Device.objects.filter(index=1).update(away_since=now - timedelta(hours=4))
    window = window_of("day")
    buckets = pool_timeline(window)
    idle_s = (12 + 8) * 3600
    assert sum(bucket.idle_w for bucket in buckets) * window.bucket_s == pytest.approx(idle_s * 1.5, rel=0.01)
    assert sum(bucket.present for bucket in buckets) * window.bucket_s == pytest.approx(idle_s, rel=0.01)
    assert {bucket.devices for bucket in buckets if not bucket.idle_w} == {0}


@pytest.mark.django_db
def test_quotas_show_what_is_held_and_borrowed(job_make, people, node_make):
    node_make(cpus=2)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1)
    job = job_make()
    job_options_set(job, [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 600)], slowdown=1.2)
    queue(job)
    assert tick() == 1
    (row,) = quota_rows(user=people.viewer)
    assert (row.held, row.above) == (2, 1)
    assert quota_rows(user=people.outsider) == []


@pytest.mark.django_db
def test_a_drain_names_running_jobs_that_would_be_paused_for_those_it_moves(job_make, people, node_make):
    """Served by priority: who was to start on the drained node pauses a lesser job on another one."""
    pool_setting_get()
    PoolSetting.objects.update(policy="fifo")
    node_make("other", cpus=1)
    lesser, greater = job_make(name="lesser"), job_make(name="greater")
    for job in (lesser, greater):
        job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / 3600)], slowdown=1.2)
    queue(lesser)
    tick()
    Job.objects.filter(pk=lesser.pk).update(state="running", step=10)
    node_make("drained", cpus=1)
    queue(greater)
    Job.objects.filter(pk=greater.pk).update(priority=5)
    (row,) = drain_consequences(user=people.admin, name="drained").delayed
    assert row.job.name == "lesser" and "makes room" in row.why
    assert drain_consequences(user=people.admin, name="other").delayed == ()


@pytest.mark.django_db
def test_a_drain_of_devices_kept_for_a_project_names_its_jobs_that_lose_them(job_make, people, node_make):
    node = node_make("kept", cpus=1)
    later = timezone.now() + timedelta(hours=8)
    reservation_create(user=people.admin, node=node.name, ends_at=later, purpose="course", project=people.project)
    job_options_set(mine := job_make(name="mine"), [Option(kind="cpu", count=1, rate_per_s=1 / 60)], slowdown=1.2)
    queue(mine)
    (row,) = drain_consequences(user=people.admin, name="kept").delayed
    assert row.job.name == "mine" and row.why


@pytest.mark.django_db
def test_an_end_that_nobody_can_tell_of_an_estimated_job_is_not_said_to_lack_an_estimate(
    job_make, people, node_make, client
):
    node_make(cpus=1)
    job_options_set(wide := job_make(), [Option(kind="cpu", count=2, mode="sync", rate_per_s=1 / 60)], slowdown=1.2)
    queue(wide)
    tick()
    client.force_login(people.owner)
    page = client.get("/queue/").content.decode()
    assert "not known" in page and "estimated" not in page
