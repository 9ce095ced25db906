"""What keeping devices would do to those that wait, told before it is done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.errors import Forbidden, Invalid, NotFound
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.jobs.reservation_preview import reservation_consequences
from harness.pool.models import Reservation
from scheduler.types import Option
from tests.harness.jobs.helpers import queue

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]


@pytest.fixture
def waiting(job_make, node_make):
    """A job that starts when the one before it is done, in half an hour or so."""
    node_make("node-1", cpus=1)
    jobs = [job_make(name=name) for name in ("first", "second")]
    for job in jobs:
        job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / 1800)], slowdown=1.0)
        queue(job)
    tick()
    return jobs[1]


def test_who_would_wait_longer_is_named_and_nothing_is_kept(waiting, people):
    now = timezone.now()
    (found,) = reservation_consequences(user=people.admin, node="node-1", ends_at=now + timedelta(hours=5))
    assert found.job == waiting
    assert found.finish_after >= now + timedelta(hours=5, minutes=29) > found.finish_before
    device = {"node": "node-1", "device": "cpu:0"}
    assert len(reservation_consequences(user=people.admin, **device, ends_at=now + timedelta(hours=5))) == 1
    assert not Reservation.objects.exists()


def test_what_is_kept_for_its_own_project_or_later_delays_nobody(waiting, people):
    now = timezone.now()
    keep = {"user": people.admin, "node": "node-1", "ends_at": now + timedelta(hours=9)}
    assert reservation_consequences(**keep, project=people.project) == ()
    assert reservation_consequences(**keep, starts_at=now + timedelta(hours=8)) == ()


@pytest.fixture
def rivals(job_make, node_make, people):
    """Two jobs of the project wait behind an older one of another project, half an hour each on one core."""
    node_make("node-1", cpus=1)
    jobs = [job_make(name=name) for name in ("theirs", "ours", "also ours")]
    Job.objects.filter(pk=jobs[0].pk).update(project=people.elsewhere)
    for job in jobs:
        job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / 1800)], slowdown=1.0)
        queue(job)
    return jobs


@pytest.mark.parametrize("starts_in", [timedelta(0), timedelta(minutes=2)])
def test_jobs_of_the_project_are_told_too_where_they_gain(rivals, people, starts_in):
    now = timezone.now()
    keep = {"user": people.admin, "node": "node-1", "ends_at": now + timedelta(hours=5), "project": people.project}
    found = {row.job: row for row in reservation_consequences(**keep, starts_at=now + starts_in)}
    theirs, ours, also = rivals
    assert found[ours].gains and found[ours].finish_after < found[ours].finish_before - timedelta(minutes=20)
    assert found[also].gains and not found[theirs].gains
    assert found[ours].finish_after >= now + timedelta(minutes=29), "also before it begins: it keeps only others off"


def test_a_job_of_the_project_that_starts_on_the_kept_device_is_not_held_back(job_make, node_make, people):
    for name in ("node-1", "node-2"):
        node_make(name, cpus=1)
    keeps = {"user": people.admin, "ends_at": timezone.now() + timedelta(hours=5)}
    job = job_make(resources={"device": "cpu", "count": 1})
    job_options_set(job, [Option(kind="cpu", count=1, rate_per_s=1 / 1800)], slowdown=1.0)
    queue(job)
    assert reservation_consequences(**keeps, node="node-1", project=people.project) == ()


def test_only_admins_look_and_only_at_what_could_be_kept(waiting, people):
    now = timezone.now()
    with pytest.raises(Forbidden):
        reservation_consequences(user=people.owner, node="node-1", ends_at=now + timedelta(hours=1))
    with pytest.raises(NotFound):
        reservation_consequences(user=people.admin, node="node-1", device="cpu:7", ends_at=now + timedelta(hours=1))
    with pytest.raises(Invalid):
        reservation_consequences(user=people.admin, node="node-1", ends_at=now - timedelta(hours=1))


def test_the_page_tells_it_and_keeps_what_was_typed(waiting, people):
    browser = Client()
    browser.force_login(people.admin)
    until = f"{timezone.now() + timedelta(hours=5):%Y-%m-%dT%H:%M}"
    wanted = {"target": "node-1", "ends_at": until, "purpose": "a course", "look": "1"}
    body = browser.post(reverse("reservation_new"), wanted).content.decode()
    assert "Would wait longer" in body and "second" in body and "a course" in body and until in body
    assert not Reservation.objects.exists()
    answer = browser.post(reverse("reservation_new"), wanted | {"ends_at": ""}, follow=True)
    assert "over before it begins" in answer.content.decode()
