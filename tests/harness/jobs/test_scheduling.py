"""Control carries out what the scheduler decides: pauses, places kept, promises, expectations, quotas, reservations."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Conflict
from harness.jobs import services
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job, JobEvent
from harness.jobs.queueing import job_priority_set
from harness.moments import moment_words
from harness.pool.models import Device, PoolSetting, Quota
from harness.pool.quotas import quota_set
from harness.pool.reservations import reservation_cancel
from harness.rates.submitting import job_submit
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import estimated, event, queue, run_now, stops

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
HOUR = timedelta(hours=1)


def running(job_make, *, counts=(2,), run_s=3600.0, name="first", kind="cpu"):
    """A job that runs on all devices and is half done."""
    job = estimated(job_make(name=name), counts=counts, run_s=run_s, kind=kind)
    attempt = run_now(job)
    Job.objects.filter(pk=job.pk).update(step=50, steps_total=100)
    job.refresh_from_db()
    return job, attempt


def left_paused(job, attempt):
    """The run has saved and gone."""
    events_apply(job.pk, [event(job, "exited", 9, token=attempt.number, outcome="paused", failure=None)])
    job.refresh_from_db()


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_a_job_of_higher_priority_pauses_a_lesser_one_which_keeps_its_place_and_goes_on(
    job_make, people, node_make, tasks_sent, django_capture_on_commit_callbacks, policy
):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make(cpus=2)
    lesser, attempt = running(job_make)
    queued_at = lesser.queued_at
    urgent = queue(estimated(job_make(name="urgent"), counts=(2,)))
    job_priority_set(user=people.admin, job=urgent, priority=50)
    with django_capture_on_commit_callbacks(execute=True):
        tick()
    lesser.refresh_from_db()
    assert (lesser.state, lesser.preempted) == ("pausing", True)
    assert stops(tasks_sent) == [([lesser.pk, attempt.number, "pause"], "node.node-1")]
    told = JobEvent.objects.filter(job=lesser, new_state="pausing").get().message
    assert told.startswith("The scheduler pauses it; it keeps its place. It makes room for a job ")
    assert told.count("place") == 1 and told.endswith("What starts instead is “urgent”.")
    assert policy == "fifo" or "a job of higher priority." in told
    left_paused(lesser, attempt)
    assert (lesser.state, lesser.preempted, lesser.queued_at) == ("queued", False, queued_at)
    again = JobEvent.objects.filter(job=lesser, old_state="paused", new_state="queued").get().message
    assert again == "It waits again, at its old place", "why it left is told where it was asked to"
    tick()
    urgent.refresh_from_db()
    lesser.refresh_from_db()
    assert (urgent.state, lesser.state) == ("placed", "queued")
    assert lesser.waiting_text and lesser.queue_position == 1
    run = urgent.attempts.get()
    events_apply(urgent.pk, [event(urgent, "exited", 9, token=run.number, outcome="succeeded", failure=None)])
    tick()
    lesser.refresh_from_db()
    assert (lesser.state, lesser.token) == ("placed", 2)


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_who_waits_is_told_jobs_by_name_but_none_of_another_project(job_make, people, node_make, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make(cpus=2)
    first, _ = running(job_make, name="petals")
    waiting = queue(estimated(job_make(name="leaves"), counts=(2,)))
    tick()
    waiting.refresh_from_db()
    assert "“petals”" in waiting.waiting_text and first.pk not in waiting.waiting_text
    Job.objects.filter(pk=waiting.pk).update(project=people.elsewhere)
    tick()
    waiting.refresh_from_db()
    assert waiting.waiting_text.endswith("Expected to end first: a job of another project.")


def test_who_waits_for_a_run_without_progress_is_told_that_the_expected_times_move(job_make, node_make):
    node_make(cpus=2)
    first, _ = running(job_make, name="petals")
    waiting = queue(estimated(job_make(name="leaves"), counts=(2,)))
    for minutes, is_told in ((0, False), (30, True), (0, False)):
        moved_at = timezone.now() - timedelta(minutes=minutes)
        Job.objects.filter(pk=first.pk).update(phase="training", eta_s=50.0, moved_at=moved_at)
        tick()
        waiting.refresh_from_db()
        told = "No progress is made by “petals”: the expected times move until it is."
        assert (told in waiting.waiting_text) is is_told


def test_who_waits_further_back_for_a_run_without_progress_is_told_it_too(job_make, node_make):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": "fifo"})
    node_make(cpus=4)
    node_make("gpus", cpus=1, gpus=1)
    first, _ = running(job_make, name="petals")
    on_gpu, _ = running(job_make, name="bark", counts=(1,), kind="cuda")
    queue(estimated(job_make(name="leaves"), counts=(4,)))
    behind = queue(estimated(job_make(name="roots"), counts=(2,), run_s=9000.0))
    elsewhere = queue(estimated(job_make(name="stems"), counts=(1,), kind="cuda"))
    Job.objects.filter(pk=first.pk).update(phase="training", eta_s=50.0, moved_at=timezone.now() - HOUR)
    Job.objects.filter(pk=on_gpu.pk).update(phase="training", eta_s=50.0, moved_at=timezone.now())
    tick()
    for job in (behind, elsewhere):
        job.refresh_from_db()
    assert behind.waiting_code == "behind"
    assert "No progress is made by “petals”: the expected times move until it is." in behind.waiting_text
    assert elsewhere.expected_start_at and "No progress" not in elsewhere.waiting_text


def test_who_is_paused_is_told_for_whom_by_name_but_not_of_another_project(job_make, people, node_make):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": "fifo"})
    node_make(cpus=4)
    first, _ = running(job_make, name="petals")
    second, _ = running(job_make, name="leaves")
    Job.objects.filter(pk=second.pk).update(project=people.elsewhere)
    urgent = queue(estimated(job_make(name="urgent"), counts=(4,)))
    job_priority_set(user=people.admin, job=urgent, priority=50)
    tick()
    told = {row.job_id: row.message for row in JobEvent.objects.filter(new_state="pausing")}
    assert "What starts instead is “urgent”." in told[first.pk]
    assert "What starts instead is a job of another project." in told[second.pk]


def test_a_person_who_pauses_what_the_scheduler_pauses_is_obeyed(job_make, people, node_make):
    node_make(cpus=2)
    job, attempt = running(job_make)
    Job.objects.filter(pk=job.pk).update(state="pausing", preempted=True)
    services.job_pause(user=people.owner, job=job)
    left_paused(job, attempt)
    assert job.state == "paused"


def test_a_run_lost_while_the_scheduler_pauses_it_waits_again(job_make, node_make):
    node_make(cpus=2)
    job, attempt = running(job_make)
    Job.objects.filter(pk=job.pk).update(state="pausing", preempted=True)
    events_apply(job.pk, [event(job, "exited", 9, token=attempt.number, outcome="lost", failure=None)])
    job.refresh_from_db()
    assert job.state == "queued"


def test_the_attempt_runs_on_the_option_the_policy_took(job_make, node_make):
    node_make(cpus=4)
    job = queue(estimated(job_make(), counts=(2,)))
    assert tick() == 1
    attempt = job.attempts.get()
    assert (attempt.option["count"], attempt.world_size, attempt.plan["mode"]) == (2, 2, "sync")
    assert Allocation.objects.filter(job=job).count() == 2


def test_expected_times_come_with_an_interval_and_follow_the_run(job_make, node_make):
    node_make(cpus=1)
    first = queue(estimated(job_make(name="a"), run_s=600, slowdown=1.5))
    second = queue(estimated(job_make(name="b"), run_s=600, slowdown=1.5))
    tick()
    tick()
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.expected_low_at < first.expected_finish_at < first.expected_high_at
    assert second.expected_start_at > timezone.now() + timedelta(seconds=500)
    assert second.expected_low_at < second.expected_finish_at < second.expected_high_at
    # The run shows that it needs much longer: its own pace counts more than the estimate.
    Job.objects.filter(pk=first.pk).update(state="running", step=50, steps_total=100, eta_s=1200.0)
    before = second.expected_start_at
    tick()
    second.refresh_from_db()
    assert second.expected_start_at > before


@pytest.mark.parametrize("eta_s", [None, 1200.0])
def test_a_job_that_began_before_its_estimate_has_a_finish_too_and_keeps_its_devices(job_make, node_make, eta_s):
    node_make(cpus=1)
    first = job_make(name="a")
    run_now(first)
    estimated(first, run_s=600, slowdown=1.5)
    second = queue(estimated(job_make(name="b"), run_s=600, slowdown=1.5))
    Job.objects.filter(pk=first.pk).update(step=50, steps_total=100, eta_s=eta_s)
    tick()
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.state == "running" and not first.preempted
    left_s = eta_s or 300.0
    assert timedelta(seconds=left_s - 60) < first.expected_finish_at - timezone.now() < timedelta(seconds=left_s + 60)
    assert second.expected_start_at > first.expected_finish_at


def test_a_quota_holds_back_what_is_above_it_and_says_so(job_make, people, node_make):
    node_make(cpus=4)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=False)
    first, second = (queue(estimated(job_make(name=name))) for name in "ab")
    assert tick() == 1
    states = {job.pk: job.state for job in Job.objects.all()}
    waiting = Job.objects.get(state="queued")
    assert sorted(states.values()) == ["placed", "queued"]
    assert waiting.waiting_code == "quota_used" and "Birds may hold 1 CPU core" in waiting.waiting_text
    Quota.objects.all().delete()
    assert tick() == 1
    assert {first.pk, second.pk} == set(states)


def test_more_than_the_quota_may_ever_give_is_refused_at_once(job_make, people, node_make):
    node_make(cpus=4)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=False)
    job = estimated(job_make(), counts=(2, 4))
    with pytest.raises(Conflict) as refused:
        job_submit(user=people.owner, job=job)
    assert (refused.value.code, refused.value.field) == ("quota_too_small", "resources.count")
    job.refresh_from_db()
    assert job.state == "draft"


def test_a_reserved_device_goes_to_nobody_else(job_make, people, node_make):
    node_make(cpus=1)
    kept = reservation_create(
        user=people.admin, node="node-1", device="cpu:0", ends_at=timezone.now() + HOUR, purpose="course"
    )
    job = queue(estimated(job_make(), run_s=60))
    assert tick() == 0
    job.refresh_from_db()
    assert job.waiting_code == "reserved"
    assert "reserved (course)" in job.waiting_text and "admin" not in job.waiting_text
    assert job.waiting_text.endswith(f"The reservation ends {moment_words(kept.plan_end)}.")
    reservation_cancel(user=people.admin, reservation_id=kept.pk)
    assert tick() == 1


def test_a_reservation_for_a_project_lets_its_jobs_run(job_make, people, node_make):
    node_make(cpus=1)
    reservation_create(
        user=people.admin, node="node-1", ends_at=timezone.now() + HOUR, purpose="course", project=people.project
    )
    queue(estimated(job_make(), run_s=60))
    assert tick() == 1
    assert tick() == 0


@pytest.mark.parametrize("jump", [timedelta(hours=-5), timedelta(hours=5)])
def test_a_clock_that_is_set_stops_nothing(job_make, node_make, jump):
    from harness.pool.models import SchedulerTurn

    node_make(cpus=2)
    first = estimated(job_make(name="a"))
    queue(first)
    assert tick() == 1
    moved = timezone.now() + jump
    Job.objects.filter(pk=first.pk).update(queued_at=moved, placed_at=moved)
    first.attempts.update(created_at=moved)
    # Somebody died in the middle of a turn that began at a time which is not now.
    SchedulerTurn.objects.filter(pk=1).update(busy=True, taken_at=moved)
    second = queue(estimated(job_make(name="b")))
    Job.objects.filter(pk=second.pk).update(queued_at=moved)
    assert tick() == 1
    assert not SchedulerTurn.objects.get(pk=1).busy


def test_a_device_that_vanishes_before_the_start_leaves_the_job_in_the_queue(job_make, node_make):
    node_make(cpus=2)
    job = queue(estimated(job_make(), counts=(2,)))
    Device.objects.filter(index=1).delete()
    assert tick() == 0
    job.refresh_from_db()
    assert job.state == "queued" and job.waiting_text
