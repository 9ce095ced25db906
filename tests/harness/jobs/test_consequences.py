"""What a change of quotas, priorities or the order does to jobs, told before or after it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.consequences import (
    change_consequences,
    move_consequences,
    priority_consequences,
    quota_consequences,
    quota_end_consequences,
    shift_consequences,
)
from harness.jobs.control.tick import tick
from harness.jobs.drain import Outlook
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.jobs.queue_order import job_reorder, job_shift
from harness.jobs.queueing import job_priority_set
from harness.pool.models import Quota
from harness.pool.quotas import quota_remove, quota_set
from scheduler.types import Option
from tests.harness.jobs.helpers import queue

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]
HOUR = timedelta(hours=1)


def waits(job: Job, *, cores: int = 1, run_s: float = 1800.0) -> Job:
    option = Option(kind="cpu", count=cores, mode="sync" if cores > 1 else "single", rate_per_s=1 / run_s)
    job_options_set(job, [option], slowdown=1.0)
    return queue(job)


@pytest.fixture
def promised(job_make, node_make):
    """Two cores: one job holds both, one of two cores is promised to be done in two hours."""
    node_make("node-1", cpus=2)
    waits(job_make(name="runs"), cores=2)
    tick()
    job = waits(job_make(name="wide"), cores=2)
    at = timezone.now() + 2 * HOUR
    Job.objects.filter(pk=job.pk).update(deadline_at=at, promised_at=at)
    return job


@pytest.fixture
def line(job_make, node_make):
    """One core: a job runs, two wait in their order."""
    node_make("node-1", cpus=1)
    waits(job_make(name="runs"))
    tick()
    return [waits(job_make(name=name)) for name in ("first", "second")]


@pytest.fixture
def admin(people):
    browser = Client()
    browser.force_login(people.admin)
    return browser


def limit(people, devices: int = 1, *, may_borrow: bool = False):
    return {
        "user": people.admin, "project": people.project, "device_kind": "cpu", "devices": devices,
        "may_borrow": may_borrow,
    }  # fmt: skip


def test_a_quota_that_strands_a_promised_job_says_so_before_and_after(promised, people):
    (before,) = quota_consequences(**limit(people))
    assert not Quota.objects.exists()
    assert (before.job, before.finish_after, before.breaks_promise) == (promised, None, True)
    assert "project Birds may hold 1" in before.why
    (after,) = change_consequences(lambda: quota_set(**limit(people)))
    assert (after.job, after.why, after.breaks_promise) == (promised, before.why, True)
    assert Quota.objects.get().devices == 1


def test_a_quota_that_leaves_room_or_lends_it_holds_nobody_back(promised, people):
    assert quota_consequences(**limit(people, 2)) == ()
    assert not [row for row in quota_consequences(**limit(people, 1, may_borrow=True)) if row.finish_after is None]


def test_a_quota_of_another_kind_stays_as_it_is_while_one_is_looked_at(promised, people):
    quota_set(**limit(people))
    assert quota_consequences(**(limit(people) | {"device_kind": "cuda"})) == ()


def test_a_quota_that_is_taken_away_lets_a_job_start_again(promised, people):
    quota_set(**limit(people))
    found = change_consequences(lambda: quota_remove(user=people.admin, project=people.project, device_kind="cpu"))
    assert [(row.job, row.gains) for row in found] == [(promised, True)]


def test_only_admins_look_and_only_at_what_could_be_a_quota(promised, people):
    with pytest.raises(Forbidden):
        quota_consequences(**(limit(people) | {"user": people.owner}))
    for wrong in ({"devices": -1}, {"device_kind": "tpu"}):
        with pytest.raises(Invalid):
            quota_consequences(**(limit(people) | wrong))


def test_a_move_and_a_priority_name_those_that_wait_longer_for_it(line, people):
    first, second = line
    found = {row.job: row for row in change_consequences(lambda: job_shift(user=people.admin, job=second, to="up"))}
    assert found[second].gains and not found[first].gains
    assert found[first].finish_after - found[first].finish_before >= timedelta(minutes=25)
    raised = change_consequences(lambda: job_priority_set(user=people.admin, job=first, priority=9))
    assert {row.job: row.gains for row in raised} == {first: True, second: False}


def test_one_that_ends_sooner_but_still_late_is_not_said_to_be_kept(promised, people, admin):
    quota_set(**limit(people))
    removal = reverse("quota_end", args=[people.project.slug, "cpu"])
    at = timezone.now() + timedelta(minutes=40)  # without the quota it would end in an hour
    Job.objects.filter(pk=promised.pk).update(deadline_at=at, promised_at=at)
    (found,) = quota_end_consequences(user=people.admin, project=people.project, device_kind="cpu")
    assert found.gains and found.finish_after > at and found.breaks_promise
    assert "still late: promised by" in admin.post(removal, {"look": "1"}).content.decode()
    Job.objects.filter(pk=promised.pk).update(deadline_at=at + HOUR, promised_at=at + HOUR)
    (found,) = quota_end_consequences(user=people.admin, project=people.project, device_kind="cpu")
    assert found.gains and not found.breaks_promise
    assert "still late" not in admin.post(removal, {"look": "1"}).content.decode()


def test_what_a_move_does_is_told_beside_the_times_that_the_queue_tells(line, people):
    first, second = line
    tick()
    Job.objects.update(expected_finish_at=F("expected_finish_at") + timedelta(minutes=30))  # told a while ago
    for job in line:
        job.refresh_from_db()
    found = {row.job: row for row in shift_consequences(user=people.admin, job=second, to="up")}
    assert found[first].finish_before == first.expected_finish_at
    assert found[second].finish_before == second.expected_finish_at
    assert found[first].finish_after - found[first].finish_before == pytest.approx(HOUR / 2, abs=timedelta(minutes=2))
    assert found[first].finish_after == pytest.approx(second.expected_finish_at, abs=timedelta(minutes=2))


def test_a_change_that_is_refused_is_refused_as_ever(line, people):
    with pytest.raises(Conflict):
        change_consequences(lambda: job_shift(user=people.admin, job=line[0], to="up"))
    assert change_consequences(lambda: job_reorder(user=people.admin, job=line[0], before=line[0])) == ()


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_change_counts_though_nobody_can_tell_what_it_does(line, people, monkeypatch, fails_at):
    plan, calls = Outlook.of, []

    def of(facts):
        calls.append(facts)
        if len(calls) == fails_at:
            raise RuntimeError("no plan")
        return plan(facts)

    monkeypatch.setattr(Outlook, "of", of)
    first = line[0]
    assert change_consequences(lambda: job_priority_set(user=people.admin, job=first, priority=9)) == ()
    first.refresh_from_db()
    assert first.priority == 9


def test_the_page_of_quotas_tells_it_before_and_after_with_links(promised, people, admin):
    form = {"project": people.project.slug, "device_kind": "cpu", "devices": "1", "may_borrow": "no"}
    looked = admin.post(reverse("quota_save"), form | {"look": "1"}).content.decode()
    assert "Nothing is saved yet" in looked and "may hold 1" in looked and "broken: promised by" in looked
    assert 'value="1"' in looked and not Quota.objects.exists()
    body = admin.post(reverse("quota_save"), form, follow=True).content.decode()
    assert "One job waits longer for it:" in body and "cannot be kept" in body
    assert f'<a href="{reverse("job_page", args=[promised.pk])}">wide</a>' in body
    refused = admin.post(reverse("quota_save"), form | {"look": "1", "devices": "-1"})
    assert refused.status_code == 422 and 'value="-1"' in refused.content.decode()
    assert "Enter a whole number from 0 to 1,000,000." in refused.content.decode()
    assert [quota.devices for quota in Quota.objects.all()] == [1]


def test_a_name_is_no_markup_in_what_the_page_tells(promised, people, admin):
    Job.objects.filter(pk=promised.pk).update(name="<b>wide</b>")
    form = {"project": people.project.slug, "device_kind": "cpu", "devices": "1", "may_borrow": "no"}
    body = admin.post(reverse("quota_save"), form, follow=True).content.decode()
    assert "&lt;b&gt;wide" in body and "<b>wide" not in body


def test_the_page_of_the_queue_tells_who_waits_longer(line, admin):
    first, second = line
    body = admin.post(reverse("queue_act", args=[second.pk]), {"to": "up"}, follow=True).content.decode()
    assert "One job waits longer for it:" in body and "instead of" in body
    assert f'<a href="{reverse("job_page", args=[first.pk])}">first</a>' in body


@pytest.mark.parametrize("to", ["up", "first"])
def test_a_move_that_is_looked_at_tells_what_it_does_afterwards_and_moves_nothing(line, people, to):
    before = list(Job.objects.values_list("pk", "priority", "rank").order_by("pk"))
    looked = shift_consequences(user=people.admin, job=line[1], to=to)
    assert list(Job.objects.values_list("pk", "priority", "rank").order_by("pk")) == before
    assert {row.job: row.gains for row in looked} == {line[1]: True, line[0]: False}
    done = change_consequences(lambda: job_shift(user=people.admin, job=line[1], to=to))
    assert {row.job: row.gains for row in done} == {row.job: row.gains for row in looked}
    assert move_consequences(user=people.admin, job=line[0], before=line[0]) == ()
    with pytest.raises(Conflict):
        shift_consequences(user=people.admin, job=line[1], to=to)


def test_a_priority_that_is_looked_at_is_not_set_and_one_that_cannot_be_is_refused(line, people):
    second = line[1]
    looked = priority_consequences(user=people.admin, job=second, priority=9)
    assert {row.job: row.gains for row in looked} == {second: True, line[0]: False}
    second.refresh_from_db()
    assert second.priority == 0
    with pytest.raises(Invalid):
        priority_consequences(user=people.admin, job=second, priority=101)
    for look in (
        lambda user: priority_consequences(user=user, job=second, priority=1),
        lambda user: shift_consequences(user=user, job=second, to="up"),
        lambda user: move_consequences(user=user, job=second, before=line[0]),
        lambda user: quota_end_consequences(user=user, project=people.project, device_kind="cpu"),
    ):
        with pytest.raises(Forbidden):
            look(people.owner)


def test_a_quota_that_would_be_taken_away_tells_who_starts_again_and_stays(promised, people):
    end = {"user": people.admin, "project": people.project, "device_kind": "cpu"}
    with pytest.raises(NotFound):
        quota_end_consequences(**end)
    quota_set(**limit(people))
    looked = quota_end_consequences(**end)
    assert [(row.job, row.gains) for row in looked] == [(promised, True)]
    assert Quota.objects.get().devices == 1
    assert [row.job for row in change_consequences(lambda: quota_remove(**end))] == [promised]


def test_the_pages_tell_it_of_a_removal_a_move_and_a_priority_before_they_are_done(line, people, admin):
    second = line[1]
    quota_set(**limit(people))
    removal = reverse("quota_end", args=[people.project.slug, "cpu"])
    body = admin.post(removal, {"look": "1"}).content.decode()
    assert "if Birds had no limit of CPU cores" in body and "Nothing is saved yet" in body and Quota.objects.exists()
    act = reverse("queue_act", args=[second.pk])
    for change, words in (({"to": "up"}, "second went one place forward"), ({"priority": "9"}, "had priority 9")):
        body = admin.post(act, change | {"look": "1"}).content.decode()
        assert words in body and "Nothing is saved yet" in body and ">first</a>" in body
    assert set(Job.objects.values_list("priority", "rank")) == {(0, 0)}
    refused = admin.post(act, {"to": "down", "look": "1"}, follow=True).content.decode()
    assert "is already the last" in refused


@pytest.mark.parametrize(
    ("wish", "words", "place"),
    [("before", "if second went before first", (0, -1)), ("to", "if second went one place forward", (0, -1)),
     ("priority", "if second had priority 9", (9, 0))],
)  # fmt: skip
def test_what_was_looked_at_is_carried_out_from_there(line, admin, wish, words, place):
    first, second = line
    value = {"before": first.pk, "to": "up", "priority": "9"}[wish]
    act = reverse("queue_act", args=[second.pk])
    body = admin.post(f"{act}?of=mine", {wish: value, "look": "1"}).content.decode()
    assert words in body and f'<input type="hidden" name="{wish}" value="{value}">' in body
    assert f'action="{act}?of=mine"' in body and f'href="{reverse("queue")}?of=mine"' in body
    assert set(Job.objects.values_list("priority", "rank")) == {(0, 0)}
    body = admin.post(act, {wish: value}, follow=True).content.decode()
    second.refresh_from_db()
    assert (second.priority, second.rank) == place and "One job waits longer for it:" in body


def test_a_row_that_is_dropped_where_it_cannot_go_is_told_so_and_stays(line, admin):
    first, second = line
    Job.objects.filter(pk=first.pk).update(promised_at=timezone.now() + HOUR, deadline_at=timezone.now() + HOUR)
    act = reverse("queue_act", args=[second.pk])
    body = admin.post(act, {"before": first.pk, "look": "1"}, follow=True).content.decode()
    assert "second cannot be moved before first." in body and "Nothing is saved yet" not in body


def test_the_api_tells_it_of_a_removal_a_move_and_a_priority_before_they_are_done(line, people, admin):
    first, second = line
    quota_set(**limit(people, 1))

    def looked(path, body):
        answer = admin.post(f"/api/v1/{path}/consequences", body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        return {row["job_id"]: row["gains"] for row in answer.json()["items"]}

    swapped = {second.pk: True, first.pk: False}
    assert looked(f"queue/{second.pk}/move", {"to": "up"}) == swapped
    assert looked(f"queue/{second.pk}/move", {"before": first.pk}) == swapped
    assert looked(f"queue/{second.pk}", {"priority": 5}) == swapped
    assert looked(f"pool/quotas/{people.project.slug}/cpu", {"devices": None}) == {}
    assert Quota.objects.exists() and set(Job.objects.values_list("priority", "rank")) == {(0, 0)}
