"""What keeping devices would do to those that wait, told before it is done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.consequences import change_consequences, reservation_cancel_told
from harness.jobs.control.tick import tick
from harness.jobs.drain import Outlook
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.jobs.queueing import job_priority_set
from harness.pool import reservations
from harness.pool.models import Node, Reservation
from harness.pool.reservations import reservation_hold
from scheduler.types import Option
from tests.factory_reservations import (
    reservation_consequences,
    reservation_create,
    reservation_create_told,
    reservation_outlasting,
)
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


def test_a_job_that_will_be_there_still_when_it_begins_is_named(waiting, people):
    now = timezone.now()
    keep = {"user": people.admin, "node": "node-1", "ends_at": now + timedelta(hours=9)}
    for more in ({}, {"device": "cpu:0"}, {"starts_at": now + timedelta(minutes=10)}):
        assert [row.job.name for row in reservation_outlasting(**keep, **more)] == ["first"]
    assert reservation_outlasting(**keep, starts_at=now + timedelta(hours=2)) == ()
    assert reservation_outlasting(**keep, project=people.project) == (), "they may use the devices"
    Job.objects.filter(name="first").update(expected_finish_at=now - timedelta(minutes=1))
    for more in ({}, {"starts_at": now + timedelta(hours=2)}):
        assert [row.finish_at for row in reservation_outlasting(**keep, **more)] == [None], "it is there past that"
    with pytest.raises(Forbidden):
        reservation_outlasting(**keep | {"user": people.owner})


@pytest.mark.parametrize("look", [{"look": "1"}, {}])
def test_the_page_names_it_before_and_after_it_is_reserved(waiting, people, look):
    client = Client()
    client.force_login(people.admin)
    until = f"{timezone.now() + timedelta(hours=2):%Y-%m-%dT%H:%M}"
    asked = {"target": "node-1", "ends_at": until, "purpose": "a course", **look}
    page = " ".join(client.post(reverse("reservation_new"), asked, follow=True).content.decode().split())
    told = page.split("expected to be there still when it begins; nothing stops them:")[1]
    assert "first</a> of" in told.split("</ul>")[0] and "second" not in told.split("</ul>")[0]


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


def test_whose_promise_breaks_is_told_when_the_devices_are_reserved(waiting, people):
    at = timezone.now() + timedelta(hours=2)
    Job.objects.filter(pk=waiting.pk).update(deadline_at=at, promised_at=at)
    until = timezone.now() + timedelta(hours=5)
    wanted = {"user": people.admin, "node": "node-1", "ends_at": until}
    (before,) = reservation_consequences(**wanted)
    _, (after,) = reservation_create_told(**wanted, purpose="a course")
    assert (after.job, after.breaks_promise) == (waiting, True) == (before.job, before.breaks_promise)
    assert after.finish_after == pytest.approx(before.finish_after, abs=timedelta(minutes=1))
    assert Reservation.objects.count() == 1


def test_a_reservation_for_its_project_is_told_as_what_holds_from_now_on(rivals, people):
    keep = {"user": people.admin, "node": "node-1", "ends_at": timezone.now() + timedelta(hours=5)}
    keep |= {"project": people.project}
    looked = {row.job: (row.gains, row.why) for row in reservation_consequences(**keep)}
    _, found = reservation_create_told(**keep, purpose="a course")
    assert {row.job: (row.gains, row.why.replace(" (a course)", "")) for row in found} == looked


def test_who_loses_devices_that_were_kept_for_its_project_is_told_when_they_are_given_back(rivals, people):
    theirs, ours, also = rivals
    kept = reservation_create(
        user=people.admin, node="node-1", ends_at=timezone.now() + timedelta(hours=5), purpose="a course",
        project=people.project,
    )  # fmt: skip
    found = reservation_cancel_told(user=people.admin, reservation_id=kept.pk)
    gains = {row.job: row.gains for row in found}
    assert (gains[theirs], gains[ours], gains[also]) == (True, False, False)


def test_what_control_reserves_meanwhile_is_no_consequence_of_a_change(waiting, people, monkeypatch):
    until = timezone.now() + timedelta(hours=5)
    node = Node.objects.get()

    def measured_and_raised():
        reservation_hold(target=node, ends_at=until, purpose="Measuring")
        return job_priority_set(user=people.admin, job=waiting, priority=9)

    assert change_consequences(measured_and_raised) == ()
    kept = Reservation.objects.get()
    Reservation.objects.update(cancelled_at=timezone.now())
    later = {"starts_at": until + timedelta(hours=1), "ends_at": until + timedelta(hours=2)}

    def measured_and_reserved(**wanted):
        Reservation.objects.filter(pk=kept.pk).update(cancelled_at=None)
        return reservations.reservation_create(**wanted)

    monkeypatch.setattr("harness.jobs.consequences.reservation_create", measured_and_reserved)
    made, found = reservation_create_told(user=people.admin, node="node-1", purpose="a course", **later)
    assert found == () and made.purpose == "a course"


def test_one_of_two_reservations_is_given_back_alone(waiting, people):
    now = timezone.now()
    keep = {"user": people.admin, "node": "node-1", "purpose": "a course"}
    first = reservation_create(**keep, ends_at=now + timedelta(hours=5))
    reservation_create(**keep, starts_at=now + timedelta(hours=5), ends_at=now + timedelta(hours=9))
    (row,) = reservation_cancel_told(user=people.admin, reservation_id=first.pk)
    assert row.job == waiting and row.gains and row.finish_after < now + timedelta(hours=5)


def test_what_is_refused_costs_no_plan(waiting, people, monkeypatch):
    now, planned = timezone.now(), []
    kept = reservation_create(user=people.admin, node="node-1", ends_at=now + timedelta(hours=5), purpose="a course")
    plan = Outlook.of
    monkeypatch.setattr(Outlook, "of", lambda facts: planned.append(facts) or plan(facts))
    wanted = {"user": people.admin, "node": "node-1", "ends_at": now + timedelta(hours=1), "purpose": "another"}
    for error, wrong in (
        (Forbidden, {"user": people.owner}),
        (Invalid, {"purpose": " "}),
        (NotFound, {"device": "cpu:7"}),
        (Invalid, {"ends_at": now - timedelta(hours=1)}),
        (Conflict, {}),
    ):
        with pytest.raises(error):
            reservation_create_told(**(wanted | wrong))
    with pytest.raises(NotFound):
        reservation_cancel_told(user=people.admin, reservation_id="nothing")
    Reservation.objects.update(cancelled_at=now)
    with pytest.raises(Conflict, match="is over"):
        reservation_cancel_told(user=people.admin, reservation_id=kept.pk)
    assert not planned


def test_page_and_api_tell_who_waits_longer_for_what_was_reserved(waiting, people):
    browser = Client()
    browser.force_login(people.admin)
    until = timezone.now() + timedelta(hours=5)
    wanted = {"target": "node-1", "ends_at": f"{until:%Y-%m-%dT%H:%M}", "purpose": "a course"}
    body = browser.post(reverse("reservation_new"), wanted, follow=True).content.decode()
    assert "Reserved." in body and "One job waits longer for it" in body and "second" in body
    kept = Reservation.objects.get()
    gone = browser.delete(f"/api/v1/pool/reservations/{kept.pk}").json()
    assert [(row["name"], row["gains"]) for row in gone["delayed"]] == [("second", True)]
    asked = {"node": "node-1", "ends_at": until.isoformat(), "purpose": "a course"}
    made = browser.post("/api/v1/pool/reservations", asked, content_type="application/json").json()
    assert made["node"] == "node-1" and made["purpose"] == "a course"
    assert [(row["name"], row["gains"]) for row in made["delayed"]] == [("second", False)]


def test_a_reservation_for_later_tells_from_when_it_holds(people, node_make):
    node_make("node-1", cpus=1)
    browser = Client()
    browser.force_login(people.admin)
    start = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    wanted = {"target": "node-1", "ends_at": f"{start + timedelta(hours=5):%Y-%m-%dT%H:%M}", "purpose": "a course"}
    later = wanted | {"starts_at": f"{start:%Y-%m-%dT%H:%M}"}
    body = browser.post(reverse("reservation_new"), later, follow=True).content.decode()
    assert f'It holds from <time datetime="{start:%Y-%m-%dT%H:%M}' in body and "that start from now on" not in body
    Reservation.objects.all().delete()
    body = browser.post(reverse("reservation_new"), wanted, follow=True).content.decode()
    assert "It holds for jobs that start from now on." in body


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (0, "It holds for jobs of other projects than Birds that start from now on."),
        (2, "until then jobs of other projects than Birds start there only if they end before."),
    ],
)
def test_what_is_reserved_for_a_project_is_said_to_hold_for_the_others(people, node_make, days, words):
    node_make("node-1", cpus=1)
    browser = Client()
    browser.force_login(people.admin)
    start = timezone.now() + timedelta(days=days)
    until, slug = f"{start + timedelta(hours=5):%Y-%m-%dT%H:%M}", people.project.slug
    wanted = {"target": "node-1", "ends_at": until, "purpose": "a course", "project": slug}
    later = {"starts_at": f"{start:%Y-%m-%dT%H:%M}"} if days else {}
    assert words in browser.post(reverse("reservation_new"), wanted | later, follow=True).content.decode()


def test_a_promise_that_breaks_by_seconds_is_told_too(waiting, people):
    first_end = Job.objects.get(name="first").expected_finish_at
    at = first_end + timedelta(seconds=1830)  # half a minute after its end as things are
    Job.objects.filter(pk=waiting.pk).update(deadline_at=at, promised_at=at)
    wanted = {"user": people.admin, "node": "node-1"}
    (row,) = reservation_consequences(**wanted, ends_at=first_end + timedelta(seconds=45))
    assert (row.job, row.breaks_promise) == (waiting, True)
    assert reservation_consequences(**wanted, ends_at=first_end + timedelta(seconds=15)) == ()


@pytest.mark.parametrize("told_later_s", [-90, 0, 90])
def test_a_promise_and_the_finish_beside_it_tell_the_same_though_times_are_told_late(waiting, people, told_later_s):
    """What people are told of a finish moves later than the plan does."""
    first_end = Job.objects.get(name="first").expected_finish_at
    at = first_end + timedelta(seconds=1830)
    told = Job.objects.get(pk=waiting.pk).expected_finish_at + timedelta(seconds=told_later_s)
    Job.objects.filter(pk=waiting.pk).update(deadline_at=at, promised_at=at, expected_finish_at=told)
    wanted = {"user": people.admin, "node": "node-1"}
    (row,) = reservation_consequences(**wanted, ends_at=first_end + timedelta(seconds=45))
    assert row.breaks_promise and row.finish_before <= at < row.finish_after
    assert row.finish_after == pytest.approx(first_end + timedelta(seconds=1845), abs=timedelta(seconds=15))
    assert reservation_consequences(**wanted, ends_at=first_end + timedelta(seconds=15)) == ()
    Job.objects.filter(pk=waiting.pk).update(
        deadline_at=at + timedelta(minutes=3), promised_at=at + timedelta(minutes=3)
    )
    (kept,) = reservation_consequences(**wanted, ends_at=first_end + timedelta(seconds=200))
    assert not kept.breaks_promise and kept.finish_after <= at + timedelta(minutes=3)


def test_where_a_promise_breaks_the_page_tells_its_moments_to_the_second(waiting, people):
    browser = Client()
    browser.force_login(people.admin)
    at = Job.objects.get(name="first").expected_finish_at + timedelta(seconds=1830)
    wanted = {"target": "node-1", "ends_at": f"{at:%Y-%m-%dT%H:%M}", "purpose": "a course"}
    for is_promised, style in ((False, "near"), (True, "full")):
        Job.objects.filter(pk=waiting.pk).update(deadline_at=at, promised_at=at if is_promised else None)
        looked = browser.post(reverse("reservation_new"), wanted | {"look": "1"}).content.decode()
        row = looked[looked.index("Current finish") :]
        assert f'data-style="{style}"' in row[: row.index("</table>")]
    body = browser.post(reverse("reservation_new"), wanted, follow=True).content.decode()
    told = body[body.index("waits longer for it") : body.index("cannot be kept")]
    assert told.count('data-style="full"') == 3
