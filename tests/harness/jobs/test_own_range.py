"""How far the finish of a run may be off, by its own pace on the devices that it has."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.effects import events_apply
from harness.jobs.control.expectations import idle_s, left_s
from harness.jobs.control.tick import tick
from harness.jobs.models import Checkpoint, Job, JobAttempt, MetricPoint
from harness.jobs.options import options_of, options_refined
from harness.jobs.own_range import own_share, own_slowdown
from harness.jobs.queueing import queue_rows
from harness.moments import moment_words
from tests.harness.jobs.helpers import estimated, event, place_now, run_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def told(job, paces, *, began=None):
    """The job has told its loss each ten steps, made at these paces."""
    time_s, points = (began or timezone.now()).timestamp() + 1.0, []
    for number, pace in enumerate(paces, start=1):
        time_s += 10 * pace
        points.append(MetricPoint(job=job, key="train/loss", step=10 * number, epoch=0.0, value=1.0, time_s=time_s))
    MetricPoint.objects.bulk_create(points)
    left = 1000 - 10 * len(paces)
    Job.objects.filter(pk=job.pk).update(state="running", step=10 * len(paces), steps_total=1000, eta_s=float(left))
    job.refresh_from_db()


def spread(job):
    return (job.expected_high_at - job.expected_finish_at) / (job.expected_finish_at - timezone.now())


def test_a_loud_host_widens_the_range_and_a_steady_run_narrows_it(job_make, node_make):
    node_make(cpus=2)
    steady, loud = (estimated(job_make(name=name), run_s=1000, slowdown=1.5) for name in ("steady", "loud"))
    for job, paces in ((steady, [1.0] * 50), (loud, [1.0] * 13 + [2.0] * 12 + [0.8] * 12 + [1.9] * 13)):
        run_now(job)
        told(job, paces)
    tick()
    steady.refresh_from_db()
    loud.refresh_from_db()
    assert spread(steady) < 0.1 < 0.3 < spread(loud)
    assert loud.expected_low_at < loud.expected_finish_at < loud.expected_high_at


def test_what_a_run_did_before_it_was_resumed_is_no_training_on_the_devices_that_it_has(job_make, node_make):
    """The time that it takes to start there would count as such, and a pace of a few first steps as its own."""
    node_make(cpus=1)
    job = estimated(job_make(), run_s=100_000)
    run_now(job)
    began = timezone.now() - timedelta(seconds=60)
    Job.objects.filter(pk=job.pk).update(state="running", step=500, steps_total=100_000, eta_s=1e6)
    job.refresh_from_db()
    running = options_of(job)[0]
    assert options_refined(job, running, began)[1].rate_per_s < 2e-6, "50 s of a pace far off the estimate"
    resumed(job, 499, began)
    assert own_share(job, began) == pytest.approx(1e-5)
    assert options_refined(job, running, began)[1].rate_per_s == running.rate_per_s


def resumed(job, step, began):
    """The attempt of the job began from this checkpoint then."""
    name = f"step-{step}"
    Checkpoint.objects.get_or_create(job=job, name=name, defaults={"step": step, "epoch": 0.0})
    Checkpoint.objects.filter(job=job).update(created_at=began - timedelta(minutes=5))
    attempt = JobAttempt.objects.get(job=job)
    attempt.plan["resume_from"], attempt.created_at = name, began
    attempt.save()


def test_a_run_that_went_on_from_an_older_checkpoint_counts_from_there(job_make, node_make):
    """From the farthest one it had done nothing until it was past that, and a wrong estimate was kept for as long."""
    node_make(cpus=1)
    job = estimated(job_make(), run_s=100_000)
    run_now(job)
    began = timezone.now() - timedelta(seconds=200)
    Checkpoint.objects.create(job=job, name="step-1500", step=1500, epoch=0.0)
    resumed(job, 100, began)
    Job.objects.filter(pk=job.pk).update(state="running", step=600, steps_total=100_000, eta_s=4e4)
    job.refresh_from_db()
    running = replace(options_of(job)[0], rate_per_s=1e-8)
    for step in (600, 1600):
        job.step = step
        assert own_share(job, began) == pytest.approx((step - 100) / 100_000)
        assert options_refined(job, running, began)[1].rate_per_s > 1e-5
    Checkpoint.objects.create(job=job, name="step-1550", step=1550, epoch=0.0)
    asked = timezone.now() + timedelta(seconds=1)
    assert own_share(job, asked) == pytest.approx(50 / 100_000), "since it has fewer devices"


def test_what_it_did_there_is_asked_for_only_where_that_decides(job_make, node_make, django_assert_num_queries):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=100_000)
    run_now(job)
    running, now = options_of(job)[0], timezone.now()
    Job.objects.filter(pk=job.pk).update(state="running", step=500, steps_total=100_000, eta_s=1e6)
    long_ago = now - timedelta(minutes=10)
    job.refresh_from_db()
    options_refined(job, running, long_ago)  # reads its steps
    with django_assert_num_queries(0):
        options_refined(job, running, long_ago)
        job.eta_s = None
        options_refined(job, running, now)


def test_only_steps_on_the_devices_that_it_has_count(job_make, node_make):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000)
    run_now(job)
    hour_ago = timezone.now() - timedelta(hours=1)
    told(job, ([1.0] * 10 + [3.0] * 10) * 2, began=hour_ago)
    assert own_slowdown(job, timezone.now(), 1.4) == 1.4
    assert own_slowdown(job, hour_ago, 1.4) > 1.5


def test_it_reads_its_steps_anew_only_as_it_gets_on(job_make, node_make, django_assert_num_queries):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000)
    run_now(job)
    since = timezone.now()
    told(job, [1.0] * 50)
    own_slowdown(job, since, 1.4)
    with django_assert_num_queries(0):
        job.step += 1
        own_slowdown(job, since, 1.4)
    with django_assert_num_queries(1):
        job.step = 700
        own_slowdown(job, since, 1.4)


def test_a_run_without_an_estimate_has_a_finish_as_soon_as_it_tells_one(job_make, node_make):
    node_make(cpus=1)
    job = job_make()
    run_now(job)
    Job.objects.filter(pk=job.pk).update(step=5, steps_total=1000, eta_s=500.0)
    tick()
    job.refresh_from_db()
    assert left_s(job) == pytest.approx(500.0, abs=20.0)


@pytest.mark.parametrize(
    ("held_min", "shown_h", "left_h"), [(0, 20.0, 2.0), (1, 20.0, 20.0), (1, 4.0, 2.0), (6, 4.0, 4.0), (6, 20.0, 20.0)]
)
def test_a_long_run_is_told_by_its_own_pace_long_before_a_fiftieth_of_it_is_done(
    job_make, node_make, held_min, shown_h, left_h
):
    """Within five minutes only where the estimate is far off."""
    node_make(cpus=1)
    job = estimated(job_make(), run_s=2 * 3600.0)
    run_now(job)
    JobAttempt.objects.filter(job=job).update(created_at=timezone.now() - timedelta(minutes=held_min))
    Job.objects.filter(pk=job.pk).update(step=50, steps_total=10_000, eta_s=shown_h * 3600.0)
    tick()
    job.refresh_from_db()
    assert left_s(job) == pytest.approx(left_h * 3600.0, rel=0.05)


def test_the_time_left_is_that_until_the_expected_finish(job_make, node_make):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000)
    assert left_s(job) is None
    run_now(job)
    told(job, [1.0] * 50)
    tick()
    job.refresh_from_db()
    assert job.expected_finish_at - timezone.now() == pytest.approx(
        timedelta(seconds=left_s(job)), abs=timedelta(seconds=2)
    )
    job.expected_finish_at = timezone.now() - timedelta(minutes=1)
    assert left_s(job) == 0.0


def test_before_its_first_step_no_run_is_about_to_end(job_make, node_make):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=8.0)
    run_now(job)
    tick()
    Job.objects.filter(pk=job.pk).update(state="placed")
    job.refresh_from_db()
    assert left_s(job) == pytest.approx(8.0, abs=3.0)
    job.expected_finish_at = timezone.now() + timedelta(seconds=0.4)
    assert left_s(job) is None
    job.state = "running"
    assert left_s(job) == pytest.approx(0.4, abs=0.2)


@pytest.mark.parametrize(("off_s", "is_kept"), [(-3.0, False), (2.0, False), (60.0, True)])
def test_a_finish_that_the_start_has_outrun_is_not_that_of_the_run(off_s, is_kept, job_make, node_make):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=8.0)
    place_now(job)
    Job.objects.filter(pk=job.pk).update(expected_finish_at=timezone.now() + timedelta(seconds=off_s))
    events_apply(job.pk, [event(job, "running", 1, rank=0, token=job.token)])
    job.refresh_from_db()
    assert (job.state, job.expected_high_at is not None) == ("running", True), "offers count with it"
    assert (job.expected_finish_at is not None) is is_kept
    tick()
    job.refresh_from_db()
    assert left_s(job) == pytest.approx(8.0, abs=3.0)


@pytest.mark.parametrize(
    ("quiet_s", "eta_s", "phase", "idle"),
    [
        (30, 95.0, "training", False),
        (90, 95.0, "training", True),
        (90, 9500.0, "training", False),  # a step takes 100 s
        (600, 9500.0, "training", True),
        (90, None, "training", False),
        (150, None, "training", True),
        (600, 95.0, "validation", False),
        (600, 95.0, "checkpoint", False),
    ],
)
def test_a_run_without_a_step_for_many_times_what_one_takes_has_no_time_left(
    quiet_s, eta_s, phase, idle, job_make, node_make
):
    node_make(cpus=1)
    job = job_make()
    run_now(job)
    now = timezone.now()
    told_of = {"step": 5, "steps_total": 100, "eta_s": eta_s, "phase": phase, "expected_finish_at": now}
    Job.objects.filter(pk=job.pk).update(state="running", moved_at=now - timedelta(seconds=quiet_s), **told_of)
    job.refresh_from_db()
    assert (idle_s(job) is not None) is idle and (left_s(job) is None) is idle
    job.state = "paused"
    assert idle_s(job) is None


def test_the_finish_of_a_run_without_progress_is_none_until_it_gets_on(job_make, node_make, people):
    node_make(cpus=1)
    job = estimated(job_make(), run_s=1000)
    run_now(job)
    told(job, [1.0] * 50)
    soon = timezone.now() + timedelta(minutes=2)
    run = {"moved_at": timezone.now(), "phase": "training", "deadline_at": soon, "promised_at": soon}
    Job.objects.filter(pk=job.pk).update(**run)
    tick()
    job.refresh_from_db()
    assert job.expected_finish_at is not None and "is expected to miss" in job.warning
    _, by_policy = job.warning.split(" The ")
    Job.objects.filter(pk=job.pk).update(moved_at=timezone.now() - timedelta(minutes=5))
    tick()
    job.refresh_from_db()
    assert job.expected_finish_at is job.expected_low_at is job.expected_high_at is None
    promised = f"its promised finish, {moment_words(job.promised_at, exact=True)}."
    assert job.warning == f"It makes no progress, so that it may miss {promised} The {by_policy}"
    _, (row,) = queue_rows(user=people.owner)
    assert row.idle_s == pytest.approx(300.0, abs=60.0)
    Job.objects.filter(pk=job.pk).update(moved_at=timezone.now())
    tick()
    job.refresh_from_db()
    assert job.expected_finish_at is not None
