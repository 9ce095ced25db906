"""What people are promised when they submit: kept, refused with the earliest that can be, told when in danger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.estimates.offers import Asked
from harness.jobs import services
from harness.jobs.admission import is_being_measured, promise_give
from harness.jobs.control import tick as tick_module
from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.options import work_left
from harness.jobs.promises import PromiseState, promise_state, promise_told
from harness.moments import moment_words, moments_split
from harness.pool.models import Device, PoolSetting, Reservation
from harness.pool.reservations import reservation_hold
from harness.pool.services import node_drain, node_undrain
from harness.rates.submitting import job_submit
from tests.harness.jobs.helpers import estimated, event, queue, wish
from worker.events import Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
HOUR = timedelta(hours=1)


def test_a_job_without_an_estimate_is_promised_nothing_and_says_so(job_make, people, node_make):
    node_make(cpus=2)
    job = job_make(**wish(timezone.now() + HOUR))
    job_submit(user=people.owner, job=job)
    job.refresh_from_db()
    assert "no estimate" in job.promise["text"]
    assert job.promise["text"].endswith("its finish will be promised, or you will be told why not.")
    tick()
    job.refresh_from_db()
    assert (job.promised_at, promise_state(job), job.expected_finish_at) == (None, PromiseState.NO_ESTIMATE, None)


def test_a_deadline_that_can_be_kept_is_promised(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + HOUR)))
    job_submit(user=people.owner, job=job)
    assert (job.promised_at, promise_state(job)) == (job.deadline_at, PromiseState.PROMISED)
    assert job.promise["text"]


def test_a_deadline_that_cannot_be_kept_is_refused_with_the_earliest_that_can(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + timedelta(minutes=5))), run_s=3600)
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    error = refused.value
    assert (error.field, error.code) == ("budget.deadline", "deadline_refused")
    assert error.details["earliest_finish"] > timezone.now().isoformat()
    assert "earliest finish" in error.message and error.hint
    job.refresh_from_db()
    assert (job.state, job.promised_at) == ("draft", None)


def test_what_cannot_be_promised_is_queued_all_the_same_where_no_promise_is_asked_for(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + timedelta(seconds=650))), run_s=600, slowdown=1.5)
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    assert 0.5 < refused.value.details["chance"] < 0.9
    job_submit(user=people.owner, job=job, promised=False)
    assert (job.state, job.promised_at, promise_state(job)) == ("queued", None, PromiseState.NOT_PROMISED)
    assert "not promised" in job.promise["text"] and "%" in job.promise["text"]
    assert "When this was asked" in job.promise["text"], "it is read hours later, too"


def test_without_asking_for_it_what_can_be_promised_is(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + HOUR)))
    job_submit(user=people.owner, job=job, promised=False)
    assert job.promised_at == job.deadline_at


@pytest.mark.parametrize(("in_s", "run_s"), [(300, 3600), (20, 60)])
def test_the_earliest_finish_that_a_refusal_names_is_then_promised(job_make, people, node_make, in_s, run_s):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + timedelta(seconds=in_s))), run_s=run_s)
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    told = moments_split(refused.value.message)[1]
    later = Job.objects.get(pk=job.pk)
    Job.objects.filter(pk=job.pk).update(deadline_at=told)
    job_submit(user=people.owner, job=later)
    assert later.promised_at.isoformat() == refused.value.details["earliest_finish"]


def test_a_draft_that_lay_for_days_is_promised_nothing_before_those_who_wait(job_make, people, node_make):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": "fifo"})
    node_make(cpus=1)
    queue(estimated(job_make(name="runs"), run_s=1200))
    tick()
    queue(estimated(job_make(name="waits"), run_s=3600))
    draft = estimated(job_make(name="old", **wish(timezone.now() + HOUR)), run_s=1200)
    Job.objects.filter(pk=draft.pk).update(created_at=timezone.now() - 240 * HOUR)
    with pytest.raises(Invalid):
        job_submit(user=people.owner, job=Job.objects.get(pk=draft.pk))


def test_two_people_are_not_promised_the_same_hour(job_make, people, node_make):
    node_make(cpus=1)
    deadline = timezone.now() + timedelta(minutes=70)
    first, second = (estimated(job_make(name=name, **wish(deadline)), run_s=2700) for name in "ab")
    job_submit(user=people.owner, job=first)
    with pytest.raises(Invalid):
        job_submit(user=people.owner, job=second)
    assert Job.objects.filter(promised_at__isnull=False).count() == 1


def test_a_deadline_in_the_past_is_refused(job_make, people, node_make):
    node_make()
    job = job_make(**wish(timezone.now() - HOUR))
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    assert (refused.value.field, refused.value.code) == ("budget.deadline", "deadline_passed")


def test_a_deadline_that_nobody_means_is_refused(job_make, people, node_make):
    node_make()
    job = job_make(**wish(datetime(9999, 1, 1, tzinfo=UTC)))
    with pytest.raises(Invalid) as refused:
        job_submit(user=people.owner, job=job)
    error = refused.value
    assert (error.field, error.code) == ("budget.deadline", "deadline_too_far")
    assert error.message == "The finish time 9999-01-01 is more than ten years away."
    told = services.spec_check(user=people.owner, spec=job.spec, dataset=job.dataset)["problems"]
    assert told == [{"field": error.field, "message": f"{error.message} {error.hint}"}], "as while it was written"
    with pytest.raises(Invalid) as of_offer:
        Asked.of(deadline_at=job.deadline_at).row()
    assert {**of_offer.value.to_dict(), "field": error.field} == error.to_dict(), "and in an offer"


def test_who_starts_without_an_estimate_is_no_longer_told_that_one_brings_the_promise(job_make, people, node_make):
    node_make(cpus=1)
    job = job_make(**wish(timezone.now() + 3 * HOUR))
    job_submit(user=people.owner, job=job)
    job.refresh_from_db()
    assert "As soon as there is one" in job.promise["text"]
    tick()
    job.refresh_from_db()
    assert (job.state, promise_state(job)) == ("placed", PromiseState.NO_ESTIMATE)
    assert job.promise["text"].startswith("It started before its run time was measured. Once its own pace shows")


def test_an_estimate_that_comes_after_the_submission_brings_the_promise(job_make, people, node_make):
    node_make(cpus=1)
    queue(estimated(job_make(name="blocker")))
    tick()
    job = job_make(**wish(timezone.now() + 3 * HOUR))
    job_submit(user=people.owner, job=job)
    tick()
    job.refresh_from_db()
    assert (job.promised_at, promise_state(job)) == (None, PromiseState.NO_ESTIMATE)
    estimated(job)
    tick()
    job.refresh_from_db()
    assert (job.state, job.promised_at, promise_state(job)) == ("queued", job.deadline_at, PromiseState.PROMISED)


def test_an_estimate_that_comes_after_the_submission_tells_the_earliest_finish_where_none_can_be_promised(
    job_make, people, node_make
):
    node_make(cpus=1)
    queue(estimated(job_make(name="blocker")))
    tick()
    job = job_make(**wish(timezone.now() + timedelta(minutes=11)))
    job_submit(user=people.owner, job=job)
    estimated(job, run_s=600, slowdown=1.5)
    tick()
    job.refresh_from_db()
    assert (job.state, job.promised_at, promise_state(job)) == ("queued", None, PromiseState.NOT_PROMISED)
    assert job.promise["text"].startswith("Its deadline cannot be promised.")
    assert "The earliest finish that can be promised is" in job.promise["text"]


def running_late(job_make, people, node_make):
    """A run whose promised finish, an hour from now, it is expected to miss by another."""
    node_make(cpus=1)
    job = estimated(job_make(**wish(timezone.now() + HOUR)), run_s=1800)
    job_submit(user=people.owner, job=job)
    tick()
    Job.objects.filter(pk=job.pk).update(state="running", step=10, steps_total=100, eta_s=7170.0)
    tick()
    return job


def test_a_promise_in_danger_is_told_once_and_told_again_when_safe(job_make, people, node_make):
    job = running_late(job_make, people, node_make)
    tick()
    job.refresh_from_db()
    promised = moment_words(job.promised_at, exact=True)
    assert job.warning == (
        f"It is expected to miss its promised finish, {promised}, by 1 h. "
        "The scheduler gives it the devices on which it is done soonest."
    )
    Job.objects.filter(pk=job.pk).update(state="pausing", preempted=True)
    tick()
    job.refresh_from_db()
    assert job.warning, "it is saved to go on with other devices"
    Job.objects.filter(pk=job.pk).update(state="running", preempted=False, eta_s=300.0)
    tick()
    job.refresh_from_db()
    assert not job.warning
    notes = JobEvent.objects.filter(job=job, kind="note", data__has_key="warning").values_list("data", flat=True)
    assert [bool(data["warning"]) for data in notes] == [True, False]


@pytest.mark.parametrize("returns", [False, True])
def test_a_change_of_devices_in_danger_is_no_new_danger(job_make, people, node_make, broker, returns):
    job = running_late(job_make, people, node_make)
    Job.objects.filter(pk=job.pk).update(state="pausing", preempted=True)
    if returns:  # what it saved is on its way from a node that sees no store
        events_apply(job.pk, [event(job, "returning", 5, rank=-1, time_s=timezone.now().timestamp(), node="node-1")])
        assert Job.objects.get(pk=job.pk).state == "returning"
    attempt_end(JobAttempt.objects.get(job=job), Outcome.PAUSED, None)
    tick()
    job.refresh_from_db()
    assert job.state == "placed" and job.warning, "it keeps the pace that it showed"
    assert JobEvent.objects.filter(job=job, kind="note", data__has_key="warning").count() == 1


def test_a_person_s_pause_ends_the_promise(job_make, people, node_make):
    node_make(cpus=1)
    job = estimated(job_make(**wish(timezone.now() + HOUR)))
    job_submit(user=people.owner, job=job)
    services.job_pause(user=people.owner, job=job)
    assert (job.state, job.promised_at, promise_state(job)) == ("paused", None, PromiseState.NONE)
    services.job_resume(user=people.owner, job=job)
    assert job.promised_at == job.deadline_at


def test_what_a_person_paused_while_it_was_decided_is_promised_nothing(job_make, people):
    job = queue(estimated(job_make()))
    Job.objects.filter(pk=job.pk).update(deadline_at=timezone.now() + timedelta(hours=2))
    job.refresh_from_db()
    services.job_pause(user=people.owner, job=Job.objects.get(pk=job.pk))
    assert not promise_give(job)
    assert Job.objects.get(pk=job.pk).promised_at is None
    services.job_resume(user=people.owner, job=Job.objects.get(pk=job.pk))
    assert promise_give(job)


def test_a_promise_whose_devices_have_left_is_told_to_break_and_why(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + HOUR)), run_s=1800)
    job_submit(user=people.owner, job=job)
    node_drain(user=people.admin, name="node-1")
    tick()
    job.refresh_from_db()
    assert job.promised_at is not None
    assert job.warning.startswith("Its promise breaks unless it can start by ")
    assert "No node takes work. node-1 is draining." in job.warning
    node_undrain(user=people.admin, name="node-1")
    tick()
    tick()
    job.refresh_from_db()
    assert (job.state, job.warning) == ("placed", "")


def test_a_promise_that_no_device_can_keep_any_more_is_told_so_before_it_has_passed(job_make, people, node_make):
    node_make(cpus=2)
    job = estimated(job_make(**wish(timezone.now() + HOUR)), run_s=1800)
    job_submit(user=people.owner, job=job)
    soon = timezone.now() + timedelta(minutes=10)
    Job.objects.filter(pk=job.pk).update(deadline_at=soon, promised_at=soon)
    node_make(cpus=0)
    tick()
    job.refresh_from_db()
    assert job.warning.startswith("Its promised finish can no longer be kept. No node that takes work has a CPU core")


def test_what_is_left_of_a_run_that_was_lost_is_told_from_what_it_has_saved(job, node_make):
    node_make(cpus=1)
    lost = queue(estimated(job, run_s=1000.0))
    Job.objects.filter(pk=lost.pk).update(step=90, steps_total=100)
    assert work_left_now(lost) == 1.0
    for step in (20, 40):
        Checkpoint.objects.create(job=lost, name=f"step-{step:08d}", step=step, epoch=1)
    assert work_left_now(lost) == pytest.approx(0.6)
    Job.objects.filter(pk=lost.pk).update(resume_from="step-00000020")
    assert work_left_now(lost) == pytest.approx(0.8)
    Job.objects.filter(pk=lost.pk).update(state="running")
    assert work_left(Job.objects.get(pk=lost.pk)) == pytest.approx(0.1)


def work_left_now(job: Job) -> float:
    """As a decision sees it, which is what the job alone says, too."""
    (view,) = facts_read().views
    assert view.work_left == work_left(Job.objects.get(pk=job.pk))
    return view.work_left


def test_what_a_promised_job_needs_is_given_to_nobody_while_it_waits_after_a_fault(job_make, people, node_make):
    node_make(cpus=1)
    promised = estimated(job_make(name="promised", **wish(timezone.now() + HOUR)), run_s=2400)
    job_submit(user=people.owner, job=promised)
    Job.objects.filter(pk=promised.pk).update(retry_at=timezone.now() + timedelta(minutes=1))
    queue(estimated(job_make(name="other"), run_s=3600))
    assert tick() == 0
    Job.objects.filter(pk=promised.pk).update(retry_at=timezone.now())
    assert tick() == 1
    promised.refresh_from_db()
    assert promised.state == "placed"


def test_a_job_that_goes_back_to_an_older_checkpoint_is_promised_by_what_is_left_from_there(
    job_make, people, node_make
):
    node_make(cpus=1)
    job = queue(estimated(job_make(**wish(timezone.now() + HOUR)), run_s=7200))
    for step in (20, 90):
        Checkpoint.objects.create(job=job, name=f"step-{step:08d}", step=step, epoch=1)
    services.job_pause(user=people.owner, job=job)
    Job.objects.filter(pk=job.pk).update(step=90, steps_total=100)
    job = services.job_resume(user=people.owner, job=Job.objects.get(pk=job.pk), checkpoint="step-00000020")
    assert job.promised_at is None
    services.job_pause(user=people.owner, job=job)
    job = services.job_resume(user=people.owner, job=Job.objects.get(pk=job.pk))
    assert job.promised_at == job.deadline_at


def test_a_device_that_is_reserved_while_it_is_decided_is_not_given_out(job, node_make, monkeypatch):
    node_make(cpus=1)
    queue(job)
    decide = tick_module.decide

    def decide_and_reserve(facts):
        decided = decide(facts)
        if not Reservation.objects.exists():
            reservation_hold(target=Device.objects.get(), ends_at=timezone.now() + HOUR, purpose="Repair")
        return decided

    monkeypatch.setattr(tick_module, "decide", decide_and_reserve)
    assert tick() == 0
    job.refresh_from_db()
    assert (job.state, job.waiting_code) == ("queued", "reserved")


@pytest.mark.parametrize("state", [PromiseState.TO_BE_MEASURED, PromiseState.NO_ESTIMATE])
def test_a_job_whose_deadline_passed_before_it_was_measured_is_not_said_to_be_measured(job_make, state):
    job = queue(job_make(resources={"device": "cpu", "count": 2}))
    past = timezone.now() - timedelta(minutes=1)
    Job.objects.filter(pk=job.pk).update(deadline_at=past, promise=promise_told(state))
    for _ in range(2):
        tick()
    job.refresh_from_db()
    assert job.promise == {} and not is_being_measured(job)
    assert job.events.filter(message="Its deadline has passed, so it cannot be promised.").count() == 1
