from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from harness.accounts.models import Membership, Role
from harness.jobs.failures import failure_of
from harness.jobs.models import Job
from harness.jobs.states import job_move, job_note
from harness.notify.models import Delivery
from worker.events import FailureCode
from worker.states import JobState

pytestmark = pytest.mark.django_db


def finish(job, **fields):
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    job_move(job.pk, JobState.RUNNING, JobState.SUCCEEDED, message="Finished", **fields)


def told_to():
    return sorted(Delivery.objects.values_list("user__username", flat=True))


def test_an_owner_is_told_that_a_job_finished_and_control_is_woken(
    job, people, told, tasks_sent, settings, django_capture_on_commit_callbacks
):
    told(people.owner)
    settings.PORTAL_URL = "https://portal.example"
    with django_capture_on_commit_callbacks(execute=True):
        finish(job, metric_name="accuracy", metric_best=0.91234, run_s=100.0)
    delivery = Delivery.objects.get()
    assert (delivery.user, delivery.kind, delivery.project) == (people.owner, "job_finished", people.project)
    body = delivery.body
    assert body["title"] == f"{job.name} finished" and "accuracy" in body["detail"] and "0.9123" in body["detail"]
    assert body["url"] == f"https://portal.example{reverse('job_page', args=[job.pk])}"
    assert body["job"] == {"id": job.pk, "name": job.name, "state": "succeeded", "owner": "owner"}
    assert ("control.notify", [], "control") in tasks_sent


def test_nobody_who_did_not_ask_is_told(job, people, told, tasks_sent):
    told(people.owner, job_finished=False)
    finish(job)
    assert told_to() == []


def test_mates_are_told_of_what_they_watch_and_outsiders_of_nothing(job, people, told):
    told(people.mate)
    told(people.viewer, projects=["birds"])
    told(people.admin, projects=["birds"])
    choice = told(people.outsider)
    choice.projects.add(people.project)  # as if they had been a member once
    finish(job)
    assert told_to() == ["admin", "viewer"]


def test_an_owner_who_has_left_the_project_or_may_not_sign_in_is_not_told(job, people, told):
    told(people.owner)
    Membership.objects.filter(user=people.owner).delete()
    finish(job)
    Membership.objects.create(user=people.owner, project=people.project, role=Role.ADMIN)
    people.owner.is_active = False
    people.owner.save()
    finish(job)
    assert told_to() == []


def test_a_failure_names_its_cause_the_next_step_and_nothing_that_the_program_said(job, people, told):
    told(people.owner)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    failure = failure_of(
        {"code": "program_error", "message": "password=hunter2", "traceback": "hunter2"},
        fallback=FailureCode.PROGRAM_ERROR,
    )
    job_move(job.pk, JobState.RUNNING, JobState.FAILED, message=failure.message, failure=failure.to_dict())
    body = Delivery.objects.get(kind="job_failed").body
    assert body["detail"] == "The program stopped with an error. See the traceback; correct the program in a clone."
    assert "hunter2" not in str(body)


def test_each_end_of_a_job_is_told_and_other_moves_are_not(job, people, told):
    told(people.owner)
    job_move(job.pk, JobState.DRAFT, JobState.QUEUED)
    job_move(job.pk, JobState.QUEUED, JobState.CANCELLED)
    assert told_to() == []
    finish(job)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    job_move(job.pk, JobState.RUNNING, JobState.FAILED)
    assert [row.kind for row in Delivery.objects.order_by("created_at")] == ["job_finished", "job_failed"]


def test_a_promise_at_risk_is_told_once_however_often_it_is_safe_again(job, people, told):
    told(people.owner)
    job.promised_at = timezone.now()
    job.save()
    for warning in ("It may be late.", "", "It may be later."):
        job_note(job, "note", warning or "Its promise is safe again.", data={"warning": warning})
    job_note(job, "note", "Something else")
    (told_once,) = Delivery.objects.all()
    assert told_once.body["title"] == f"{job.name} may miss its promised finish"
    assert told_once.body["detail"].startswith("It may be late. If that is too late, ")
    job.promised_at += timedelta(hours=1)
    job.save()
    job_note(job, "note", "It may be late.", data={"warning": "It may be late."})
    assert Delivery.objects.count() == 2


def test_a_promise_that_has_passed_is_told_once_more(job, people, told):
    told(people.owner)
    job.promised_at = timezone.now()
    job.save()
    job_note(job, "note", "It may be late.", data={"warning": "It may be late."})
    for _ in range(2):
        job_note(job, "note", "It has passed.", data={"warning": "It has passed.", "passed": True})
    titles = [row.body["title"] for row in Delivery.objects.order_by("created_at")]
    assert titles == [f"{job.name} may miss its promised finish", f"{job.name} has missed its promised finish"]


def test_who_is_told_of_the_end_is_told_how_late_it_was(job, people, told):
    told(people.owner)
    Job.objects.filter(pk=job.pk).update(promised_at=timezone.now() - timedelta(minutes=9))
    finish(job)
    assert Delivery.objects.get().body["detail"].endswith("It was done 9 min after its promised finish.")


def test_what_did_not_happen_is_not_told(job, people, told):
    told(people.owner)
    with pytest.raises(RuntimeError), transaction.atomic():
        finish(job)
        raise RuntimeError
    assert told_to() == []


def test_both_channels_get_one_message_each_and_email_needs_an_address(job, people, told, mails):
    told(people.owner, by_email=True)
    finish(job)
    assert sorted(Delivery.objects.values_list("channel", flat=True)) == ["email", "webhook"]
    people.owner.email = ""
    people.owner.save()
    finish(job)
    assert Delivery.objects.filter(channel="email").count() == 1
