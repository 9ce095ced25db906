"""What the pages of a job say whose run has ended while what it made is not in the store yet."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse

from harness.jobs.models import Job, JobAttempt, JobEvent
from harness.pages.returning_view import returning_of

WAITS = "What it made waits on node-1"

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(world: SimpleNamespace) -> Job:
    found: Job = world.jobs["returning"]
    return found


def tab(owner: Client, job: Job, name: str) -> str:
    """The text of a tab of its page, its white space as one blank."""
    return re.sub(r"\s+", " ", owner.get(reverse("job_tab", args=[job.pk, name])).content.decode())


def test_it_says_where_they_lie_why_they_wait_and_what_comes_then(owner: Client, job: Job) -> None:
    page = tab(owner, job, "live")
    assert "What the run made is on its way from node-1." in page and WAITS in page
    assert "its devices are free since" in page and "The job is over once all has arrived." in page


def test_without_a_reason_to_wait_it_names_none(owner: Client, job: Job) -> None:
    JobEvent.objects.filter(kind="note").delete()
    page = tab(owner, job, "live")
    assert "is on its way from node-1" in page and WAITS not in page


def test_what_was_noted_before_its_end_is_no_reason(job: Job) -> None:
    JobEvent.objects.filter(job=job, kind="note").delete()
    JobEvent.objects.create(job=job, kind="note", token=1, message="Its data were fetched.")
    ended = JobEvent.objects.get(job=job, new_state="returning")
    ended.pk = None
    JobEvent.objects.filter(job=job, new_state="returning").delete()
    ended.save(force_insert=True)
    found = returning_of(job)
    assert found is not None and found.told == ""


def noted(job: Job, message: str, **data: bool) -> None:
    JobEvent.objects.create(job=job, kind="note", token=job.token, message=message, data={"rank": -1, **data})


def test_a_reason_that_is_over_is_not_shown_and_one_that_is_not_is(job: Job) -> None:
    def told() -> str:
        found = returning_of(job)
        assert found is not None
        return found.told

    noted(job, "It waits: away.", waits=True)
    assert told() == "It waits: away."
    noted(job, "It is being returned again.", waits=False)
    assert WAITS in told(), "a note of an earlier agent, which tells no end of it, stays"
    noted(job, "results.json is too large.")
    noted(job, "It is being returned again.", waits=False)
    assert told() == "results.json is too large."
    noted(job, "It waits: full.", waits=True)
    assert told() == "It waits: full."


def test_one_that_was_to_pause_is_paused_then(owner: Client, job: Job) -> None:
    JobEvent.objects.filter(job=job, new_state="returning").update(old_state="pausing")
    assert "The job is paused once all has arrived." in tab(owner, job, "live")


def test_one_that_others_asked_to_make_room_waits_again_then(owner: Client, job: Job) -> None:
    JobEvent.objects.filter(job=job, new_state="returning").update(old_state="pausing")
    Job.objects.filter(pk=job.pk).update(preempted=True)
    assert "The job waits for devices again once all has arrived." in tab(owner, job, "live")


@pytest.mark.parametrize(
    ("outcome", "before", "then"),
    [("lost", "running", "starts again"), ("succeeded", "pausing", "is over"), ("lost", "pausing", "is paused")],
)
def test_what_comes_then_goes_by_how_its_ranks_ended(
    owner: Client, job: Job, outcome: str, before: str, then: str
) -> None:
    JobEvent.objects.filter(job=job, new_state="returning").update(old_state=before, data={"outcome": outcome})
    assert f"The job {then} once all has arrived." in tab(owner, job, "live")


def test_one_that_failed_says_so_before_all_has_arrived(owner: Client, job: Job) -> None:
    JobAttempt.objects.filter(job=job).update(failure={"code": "program_error", "message": "bad shape"})
    page = tab(owner, job, "live")
    assert "It failed: bad shape" in page and "The job fails once all has arrived." in page


def test_its_results_are_said_to_be_on_their_way(owner: Client, job: Job) -> None:
    page = tab(owner, job, "results")
    assert "The results are on their way" in page and "no results yet" not in page


def test_its_attempt_is_not_called_running(owner: Client, job: Job) -> None:
    page = tab(owner, job, "events")
    attempts = page[page.index(">Attempts<") :]
    assert "Returning results" in attempts and "Running" not in attempts


def test_who_cancels_it_is_told_that_what_has_not_arrived_is_lost(owner: Client, job: Job) -> None:
    assert "What has not arrived yet is lost" in tab(owner, job, "live")


@pytest.mark.parametrize("state", ["running", "succeeded", "cancelling"])
def test_no_other_state_speaks_of_it(world: SimpleNamespace, owner: Client, state: str) -> None:
    page = tab(owner, world.jobs[state], "live")
    assert "is on its way" not in page and "What has not arrived yet is lost" not in page
