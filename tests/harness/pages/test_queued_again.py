"""A job that waits again, since the platform ended its attempt, says why on its page."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import Job, JobAttempt
from harness.jobs.states import job_move
from worker.states import JobState

WHY = "The node far does not answer."


@pytest.mark.parametrize(("token", "said"), [(3, True), (4, False)], ids=["lost last", "paused since then"])
def test_the_page_says_why_the_last_attempt_ended_where_that_is_why_it_waits(
    world: SimpleNamespace, owner: Client, token: int, said: bool
) -> None:
    job = world.jobs["queued"]
    assert "Its last attempt" not in owner.get(reverse("job_header", args=[job.pk])).content.decode()
    lost = {"code": "node_lost", "message": WHY, "hint": "", "step": None, "traceback": None}
    JobAttempt.objects.create(job=job, number=3, plan={}, outcome="lost", failure=lost)
    JobAttempt.objects.create(job=job, number=4, plan={}, outcome="paused")
    Job.objects.filter(pk=job.pk).update(token=token, restarts=1)
    page = " ".join(owner.get(reverse("job_header", args=[job.pk])).content.decode().split())
    assert (f"Its last attempt ended early: {WHY}" in page) is said
    assert f"last: {WHY}" in page


def test_a_start_of_before_is_not_taken_for_one_that_is_late(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["running"]
    Job.objects.filter(pk=job.pk).update(expected_start_at=timezone.now() - timedelta(minutes=1))
    waits = {"waiting_code": "restart_delay", "waiting_text": "It starts again 60 s after the fault."}
    assert job_move(job.pk, JobState.RUNNING, JobState.QUEUED, message=WHY, **waits)
    page = " ".join(owner.get(reverse("job_header", args=[job.pk])).content.decode().split())
    assert "60 s after the fault" in page
    assert "It was expected to start by now" not in page and "cannot be predicted" not in page
