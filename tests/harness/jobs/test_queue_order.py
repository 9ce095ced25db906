"""How admins order waiting jobs, and where no move would change anything."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models import F
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from harness.accounts.models import AuditEvent, Project
from harness.errors import Conflict
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.options import job_options_set
from harness.jobs.queue_order import job_reorder, job_shift, places_after, ranks_of
from harness.jobs.queueing import job_priority_set, queue_rows
from harness.pool.models import Node, PoolSetting
from harness.pool.quotas import quota_set
from harness.pool.services import pool_setting_get
from scheduler.types import Option
from tests.harness.jobs.helpers import estimated, queue

pytestmark = pytest.mark.usefixtures("tasks_sent")
NOW = timezone.now()


def three(job_make):
    return [queue(job_make(name=name)) for name in "abc"]


def names(user):
    return [row.job.name for row in queue_rows(user=user)[0]]


@pytest.mark.django_db
def test_an_admin_moves_jobs_and_new_ones_come_after(job_make, people):
    a, _, c = three(job_make)
    job_reorder(user=people.admin, job=c, before=a)
    assert names(people.admin) == ["c", "a", "b"]
    job_shift(user=people.admin, job=a, to="last")
    assert names(people.admin) == ["c", "b", "a"]
    job_shift(user=people.admin, job=a, to="up")
    assert names(people.admin) == ["c", "a", "b"]
    queue(job_make(name="d"))
    assert names(people.admin) == ["c", "a", "b", "d"]
    assert AuditEvent.objects.filter(action="job_reorder").count() == 3


@pytest.mark.django_db
def test_the_scheduler_serves_in_the_order_an_admin_made(job_make, people, node_make):
    node_make(cpus=1)
    _, _, c = three(job_make)
    job_shift(user=people.admin, job=c, to="first")
    assert tick() == 1
    assert Job.objects.get(state="placed").name == "c"


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["deadline_energy", "fifo"])
def test_a_job_for_which_another_one_is_paused_stands_first_and_waits_for_it_alone(job_make, people, node_make, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make(cpus=1)
    held = queue(estimated(job_make(name="held"), run_s=6000))
    tick()
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.filter(pk=held.pk).update(state="running", placed_at=long_ago)
    _, _, c = [queue(estimated(job_make(name=name), run_s=60)) for name in "abc"]
    tick()
    job_priority_set(user=people.admin, job=c, priority=5)
    for _ in range(2):  # as it is decided, and while the other one saves itself
        tick()
        rows = queue_rows(user=people.admin)[0]
        assert [row.job.name for row in rows] == ["c", "a", "b"]
        assert rows[0].job.queue_position == 1 < rows[1].job.queue_position < rows[2].job.queue_position
        assert rows[0].waiting_text.startswith("It has devices, which are being given back")
        assert "“held”" in rows[0].waiting_text


def dated(job, hours, *, promised=False, run_s=600.0):
    """The job with an estimate and a deadline, promised or not."""
    estimated(job, run_s=run_s)
    deadline = timezone.now() + timedelta(hours=hours)
    Job.objects.filter(pk=job.pk).update(deadline_at=deadline, promised_at=deadline if promised else None)


def policy_set(name):
    pool_setting_get()
    PoolSetting.objects.update(policy=name)


def movable(user):
    return {row.job.name: (row.can_go_up, row.can_go_down) for row in queue_rows(user=user)[0]}


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["fifo", "fair_share", "deadline_energy"])
def test_a_move_is_made_by_one_policy_though_an_admin_changes_it_meanwhile(job_make, people, monkeypatch, policy):
    policy_set(policy)
    a, _, c = three(job_make)
    read = []

    def one(**_):
        setting = pool_setting_get()
        setting.policy = policy if not read else "edf"
        read.append(setting.policy)
        return setting

    monkeypatch.setattr("harness.jobs.queue_order.pool_setting_get", one)
    places = places_after(c, a)
    assert read == [policy]
    assert [places[job.pk].rank for job in (c, a)] == [-1, 0]


@pytest.mark.django_db
def test_moves_follow_the_order_that_is_shown(job_make, people):
    """A promised job is served first, although it came last."""
    a, b, promised = three(job_make)
    dated(promised, 5, promised=True)
    for place, job in enumerate((promised, a, b), start=1):
        Job.objects.filter(pk=job.pk).update(queue_position=place)
    assert names(people.admin) == ["c", "a", "b"]
    assert movable(people.admin) == {"c": (False, False), "a": (False, True), "b": (True, False)}
    with pytest.raises(Conflict, match="already the first"):
        job_shift(user=people.admin, job=a, to="up")
    with pytest.raises(Conflict, match="cannot be moved before c"):
        job_reorder(user=people.admin, job=b, before=promised)
    with pytest.raises(Conflict, match="promised finish"):
        job_shift(user=people.admin, job=promised, to="last")
    job_shift(user=people.admin, job=b, to="up")
    ranks = {job.name: job.rank for job in Job.objects.all()}
    assert ranks["b"] < ranks["a"] and ranks["c"] == 0


@pytest.mark.django_db
def test_who_moves_down_among_its_priority_keeps_it_though_a_lower_one_comes_next(job_make, people):
    a, b, c = three(job_make)
    for job, priority in ((a, 5), (b, 5), (c, 0)):
        Job.objects.filter(pk=job.pk).update(priority=priority)
    a.refresh_from_db()
    job_shift(user=people.admin, job=a, to="down")
    assert names(people.admin) == ["b", "a", "c"]
    a.refresh_from_db()
    assert a.priority == 5
    job_shift(user=people.admin, job=a, to="down")
    a.refresh_from_db()
    assert names(people.admin) == ["b", "c", "a"] and a.priority == 0, "only so it is behind the other one"
    job_reorder(user=people.admin, job=a, before=b)
    a.refresh_from_db()
    assert names(people.admin) == ["a", "b", "c"] and a.priority == 5


def shown(jobs, places):
    """Where the queue shows jobs, and their priorities, by name: an order that new jobs and priorities do not fit."""
    for job in jobs:
        place, priority = places[job.name]
        Job.objects.filter(pk=job.pk).update(queue_position=place, priority=priority)
        job.refresh_from_db()


def served(user):
    """Names in the order that control decides on next."""
    Job.objects.update(queue_position=None)
    return names(user)


@pytest.mark.django_db
def test_the_end_is_behind_all_though_who_is_shown_last_has_a_higher_priority(job_make, people):
    policy_set("fifo")
    a, b, c = three(job_make)
    shown([a, b, c], {"a": (1, 0), "b": (2, -5), "c": (None, 0)})
    job_shift(user=people.admin, job=a, to="last")
    assert served(people.admin) == ["c", "b", "a"]


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share", "deadline_energy"])
def test_of_those_that_waited_for_long_whoever_is_moved_last_is_served_last_and_keeps_its_priority(
    job_make, people, node_make, policy
):
    """Their priority does not count."""
    policy_set(policy)
    node_make(cpus=1)
    queue(estimated(job_make(name="held")))
    tick()
    a, b, c = [queue(estimated(job_make(name=name))) for name in "abc"]
    Job.objects.filter(state="queued").update(queued_at=F("created_at") - timedelta(days=3))
    shown([a, b, c], {"a": (1, 0), "b": (2, -3), "c": (3, 5)})
    tick()
    assert names(people.admin) == ["a", "b", "c"]
    job_shift(user=people.admin, job=a, to="last")
    tick()
    a.refresh_from_db()
    assert names(people.admin) == ["b", "c", "a"] and a.priority == 0


@pytest.mark.django_db
def test_who_is_put_where_it_is_keeps_its_priority(job_make, people):
    a, b, _ = three(job_make)
    shown([a, b], {"a": (None, 5), "b": (None, 0)})
    job_reorder(user=people.admin, job=a, before=b)
    a.refresh_from_db()
    assert served(people.admin)[:2] == ["a", "b"] and a.priority == 5


@pytest.mark.django_db
def test_who_has_the_highest_priority_keeps_it_though_it_is_moved_first_before_it_is_shown_so(job_make, people):
    a, b, c = three(job_make)
    shown([a, b, c], {"a": (1, 0), "b": (2, 0), "c": (3, 50)})
    job_shift(user=people.admin, job=c, to="first")
    c.refresh_from_db()
    assert served(people.admin) == ["c", "a", "b"] and c.priority == 50


@pytest.mark.django_db
def test_a_job_without_a_deadline_is_not_moved_before_one_that_has_one(job_make, people):
    urgent, patient, _ = three(job_make)
    dated(urgent, 5)
    with pytest.raises(Conflict, match="cannot be moved before a") as refused:
        job_reorder(user=people.admin, job=patient, before=urgent)
    assert "deadlines that can be kept" in refused.value.hint


@pytest.mark.django_db
def test_a_promise_that_has_passed_goes_first_and_is_not_moved(job_make, people, node_make):
    node_make(cpus=1)
    queue(estimated(job_make(name="held")))
    tick()
    _, b, late = [queue(estimated(job_make(name=name))) for name in ("a", "b", "late")]
    dated(late, -1, promised=True)
    tick()
    assert names(people.admin) == ["late", "a", "b"]
    assert movable(people.admin) == {"late": (False, False), "a": (False, True), "b": (True, False)}
    with pytest.raises(Conflict, match="cannot be moved before late"):
        job_reorder(user=people.admin, job=b, before=late)
    with pytest.raises(Conflict, match="promised finish"):
        job_reorder(user=people.admin, job=late, before=None)


@pytest.mark.django_db
@pytest.mark.parametrize("is_estimated", [True, False])
def test_a_job_whose_deadline_cannot_be_kept_is_moved_among_those_without_one(
    job_make, people, node_make, is_estimated
):
    """They are what it is served among."""
    node_make(cpus=1)
    first, hopeless = [queue(estimated(job_make(name=name))) for name in ("first", "hopeless")]
    dated(hopeless, 1, run_s=7200)
    if not is_estimated:
        Job.objects.filter(pk=hopeless.pk).update(options=[], slowdown=0.0)
    job_reorder(user=people.admin, job=hopeless, before=first)
    assert names(people.admin) == ["hopeless", "first"]
    assert tick() == 1 and Job.objects.get(state="placed").name == "hopeless"


@pytest.mark.django_db
def test_a_deadline_that_only_devices_which_are_gone_would_keep_moves_among_jobs_without_one(
    job_make, people, node_make
):
    """The scheduler plans with what is there."""
    node_make(cpus=1)
    node_make("fast", gpus=1)
    first, hopeless = [queue(estimated(job_make(name=name))) for name in ("first", "hopeless")]
    dated(hopeless, 1, run_s=7200)
    ways = [Option(kind=kind, count=1, rate_per_s=1 / run_s) for kind, run_s in (("cpu", 7200), ("cuda", 60))]
    job_options_set(Job.objects.get(pk=hopeless.pk), ways, slowdown=1.0)
    with pytest.raises(Conflict, match="cannot be moved before first"):
        job_reorder(user=people.admin, job=hopeless, before=first)
    Node.objects.filter(name="fast").update(state="down")
    job_reorder(user=people.admin, job=hopeless, before=first)
    assert names(people.admin) == ["hopeless", "first"]
    assert tick() == 1 and Job.objects.get(state="placed").name == "hopeless"


@pytest.mark.django_db
def test_a_deadline_that_only_more_than_the_quota_would_keep_moves_among_jobs_without_one(job_make, people, node_make):
    """The scheduler never plans these ways."""
    node_make(cpus=2)
    first, hopeless = [queue(estimated(job_make(name=name))) for name in ("first", "hopeless")]
    dated(hopeless, 1, run_s=7200)
    ways = [Option(kind="cpu", count=count, rate_per_s=1 / run_s) for count, run_s in ((1, 7200), (2, 600))]
    job_options_set(Job.objects.get(pk=hopeless.pk), ways, slowdown=1.0)
    with pytest.raises(Conflict, match="cannot be moved before first"):
        job_reorder(user=people.admin, job=hopeless, before=first)
    quota_set(user=people.admin, project=hopeless.project, device_kind="cpu", devices=1, may_borrow=False)
    job_reorder(user=people.admin, job=hopeless, before=first)
    assert names(people.admin) == ["hopeless", "first"]
    assert tick() == 1 and Job.objects.get(state="placed").name == "hopeless"


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["deadline_energy", "edf"])
def test_jobs_with_deadlines_keep_the_order_an_admin_made_whatever_is_due_first(job_make, people, policy):
    policy_set(policy)
    a, b, c = three(job_make)
    for job, hours in ((a, 1), (b, 2), (c, 3)):
        dated(job, hours)
    job_reorder(user=people.admin, job=c, before=a)
    ranks = [Job.objects.get(name=name).rank for name in "cab"]
    assert ranks == sorted(set(ranks))


@pytest.mark.django_db
def test_under_fair_share_a_job_moves_among_those_of_its_project(job_make, people):
    policy_set("fair_share")
    a, b, c = three(job_make)
    Job.objects.filter(pk=b.pk).update(project=Project.objects.create(name="Theirs", slug="theirs"))
    with pytest.raises(Conflict, match="cannot be moved"):
        job_reorder(user=people.admin, job=c, before=Job.objects.get(pk=b.pk))
    job_shift(user=people.admin, job=c, to="up")
    assert Job.objects.get(pk=c.pk).rank < Job.objects.get(pk=a.pk).rank


@given(st.lists(st.integers(0, 50), max_size=12, unique=True))
def test_ranks_keep_the_order_and_leave_new_jobs_behind(minutes):
    level = [
        SimpleNamespace(pk=str(index), queued_at=NOW + timedelta(minutes=minute), created_at=NOW)
        for index, minute in enumerate(minutes)
    ]
    ranks = ranks_of(level)
    newest = (0, NOW + timedelta(minutes=60))
    keys = [(rank, job.queued_at) for rank, job in zip(ranks, level, strict=True)]
    assert keys == sorted(keys)
    assert all(key < newest for key in keys)
