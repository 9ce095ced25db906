"""For how long a job page says that a run has had devices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs import services as jobs
from harness.jobs.control.effects import events_apply
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.pages.job_view import elapsed_s, has_devices
from harness.pool.models import Node
from tests.harness.jobs.helpers import event, run_now

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("returns", [True, False])
def test_one_that_is_cancelled_has_them_until_they_are_given_back(
    people: SimpleNamespace, job: Job, node_make: Callable[..., Node], tasks_sent: list[Any], returns: bool
) -> None:
    node_make("node-1", cpus=1)
    attempt = run_now(job)
    since = timezone.now() - timedelta(hours=1)
    for rows in (JobAttempt.objects.all(), Allocation.objects.all()):
        rows.update(created_at=since)
    Job.objects.update(placed_at=since)
    if returns:
        now_s = timezone.now().timestamp()
        events_apply(job.pk, [event(attempt.job, "returning", 5, rank=-1, time_s=now_s, node="node-1")])
    jobs.job_cancel(user=people.owner, job=Job.objects.get(pk=job.pk))
    job.refresh_from_db()
    assert (job.state, has_devices(job)) == ("cancelling", not returns)
    assert elapsed_s(job) == pytest.approx(3600.0, abs=60.0)


def test_of_one_that_never_had_any_nothing_is_said(people: SimpleNamespace, job: Job, client: Client) -> None:
    jobs.job_cancel(user=people.owner, job=job)
    client.force_login(people.owner)
    page = client.get(reverse("job_tab", args=[job.pk, "events"])).content.decode()
    assert "Ran for" not in page and "It held no devices" in page
