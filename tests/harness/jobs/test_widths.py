"""A running job gives single ranks away and takes them in again: who holds which device at every moment."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs import services
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.control.width_request import width_of, width_request_read
from harness.jobs.control.widths import NARROWER_LIMIT
from harness.jobs.models import Allocation, DeviceUse, Job, JobAttempt, JobEvent, ResourceSample
from harness.jobs.queueing import job_priority_set
from harness.pages.ranks_view import ranks_of
from harness.pool.models import Device, Node, PoolSetting
from tests.harness.jobs.helpers import event, place_now, queue, run_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
CORE = {"device": "cpu", "count": 1}


@pytest.fixture(autouse=True)
def nobody_else(broker):
    """Reconciliation asks the broker who lives."""


@pytest.fixture
def wide(job_make, node_make):
    """A job that runs on both cores of a node and can do with one."""
    node_make(cpus=2)
    job = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    run_now(job)
    return job


@pytest.fixture
def urgent(wide, job_make, people):
    """A job of one core that goes before it."""
    job = queue(job_make(name="urgent", resources=CORE))
    job_priority_set(user=people.admin, job=job, priority=50)
    return job


def attempt_of(job):
    return JobAttempt.objects.get(job=job)


def asked(tasks_sent):
    return [args for name, args, _ in tasks_sent if name == "node.resize"]


def held(job):
    return sorted(Allocation.objects.filter(job=job).values_list("rank", flat=True))


def told(job):
    return [row.message for row in JobEvent.objects.filter(job=job, kind="note").order_by("pk") if "width" in row.data]


def answer(job, seq, number, *ranks):
    """What the node says when the run is as wide as was asked."""
    events_apply(job.pk, [event(job, "width", seq, number=number, ranks=list(ranks), step=20)])
    job.refresh_from_db()


@pytest.fixture
def ticks(django_capture_on_commit_callbacks):
    """Decide, with what is sent on commit."""

    def decide():
        with django_capture_on_commit_callbacks(execute=True):
            return tick()

    return decide


def test_an_urgent_job_takes_a_core_and_the_other_goes_on_and_grows_back(wide, urgent, ticks, tasks_sent):
    assert ticks() == 0
    assert asked(tasks_sent) == [[wide.pk, 1, 1, [0]]]
    assert held(wide) == [0, 1], "the rank on it has not ended yet"
    tasks_sent.clear()
    assert ticks() == 0
    assert asked(tasks_sent) == [], "what was asked is not asked anew by every decision"
    answer(wide, 1, 1, 0)
    assert held(wide) == [0]
    assert told(wide) == ["Continues with 1 of 2 ranks: a core was needed by “urgent”."]
    assert DeviceUse.objects.get(job=wide).device_index == 1
    assert ticks() == 1
    assert held(urgent) == [0]
    events_apply(urgent.pk, [event(urgent, "exited", 9, outcome="succeeded", failure=None)])
    tasks_sent.clear()
    ticks()
    assert asked(tasks_sent) == [[wide.pk, 1, 2, [0, 1]]]
    assert held(wide) == [0, 1], "a device is leased before a rank starts on it"
    answer(wide, 2, 2, 0, 1)
    free = "they are free and make it faster, or its deadline needs them"
    assert told(wide)[1:] == [f"2 ranks again. It continues with 2 CPU cores: {free}."]
    wide.refresh_from_db()
    assert (wide.state, wide.token, wide.restarts, wide.preempted) == ("running", 1, 0, False)
    assert attempt_of(wide).width["changes"] == 2
    events_apply(wide.pk, [event(wide, "exited", 9, outcome="succeeded", failure=None)])
    uses = DeviceUse.objects.filter(job=wide).order_by("pk")
    assert [use.device_index for use in uses] == [1, 0, 1]
    assert not Allocation.objects.exists()


def test_energy_is_that_of_the_ranks_that_were_there(wide, urgent, ticks):
    PoolSetting.objects.update_or_create(pk=1, defaults={"power_table": {"cpu": {"idle_w": 0.0, "busy_w": 100.0}}})
    hour = timedelta(hours=1)
    Allocation.objects.filter(job=wide).update(created_at=timezone.now() - 2 * hour)
    for number in range(20):
        there = [0, 1] if number < 10 else [0]
        loads = [{"rank": rank, "cpu_percent": 40.0 if rank == 0 else 80.0} for rank in there]
        ResourceSample.objects.create(job=wide, token=1, time_s=float(number), data={"ranks": loads})
    ticks()
    answer(wide, 1, 1, 0)
    events_apply(wide.pk, [event(wide, "exited", 9, outcome="succeeded", failure=None)])
    energy_j = dict(DeviceUse.objects.filter(job=wide).values_list("device_index", "energy_j"))
    assert energy_j == pytest.approx({0: 40.0 * 7200, 1: 80.0 * 7200}, rel=0.02)


@pytest.mark.parametrize(("used_gib", "left_gib"), [(20.0, 16.0), (8.0, 18.0), (35.9, 3.0)])
def test_who_gets_its_core_may_take_the_memory_that_it_has_left(wide, urgent, ticks, used_gib, left_gib):
    """Its one rank takes the batch of both, and its limit stays: together they must fit the node."""
    Node.objects.update(memory_bytes=40 << 30)
    ticks()
    answer(wide, 1, 1, 0)
    for time_s, rss_bytes in ((1.0, 39 << 30), (2.0, int(used_gib * 2**30))):
        told_s = {"ranks": [{"rank": 0, "rss_bytes": rss_bytes, "cpu_percent": 99.0}]}
        ResourceSample.objects.create(job=wide, token=1, time_s=time_s, data=told_s)
    assert ticks() == 1
    assert JobAttempt.objects.get(job=urgent).plan["limits"]["memory_bytes"] / 2**30 == pytest.approx(left_gib)


def test_a_job_of_another_project_is_not_named(wide, urgent, people, ticks):
    Job.objects.filter(pk=urgent.pk).update(project=people.elsewhere)
    ticks()
    answer(wide, 1, 1, 0)
    assert told(wide) == ["Continues with 1 of 2 ranks: a core was needed by a job of another project."]


def test_an_answer_counts_once_and_only_for_the_newest_wish(wide, urgent, ticks):
    ticks()
    answer(wide, 1, 7, 0)
    assert held(wide) == [0, 1]
    answer(wide, 2, 1, 0, 1)
    assert held(wide) == [0, 1], "ranks that were not asked for are there"
    answer(wide, 3, 1, 0)
    answer(wide, 4, 1, 0)
    assert held(wide) == [0]
    assert len(told(wide)) == DeviceUse.objects.count() == 1


def test_a_wish_that_is_replaced_before_it_was_answered_gives_nothing_back(wide, urgent, people, ticks, tasks_sent):
    ticks()
    services.job_cancel(user=people.owner, job=urgent)
    ticks()
    assert asked(tasks_sent)[-1] == [wide.pk, 1, 2, [0, 1]]
    answer(wide, 1, 1, 0)
    assert held(wide) == [0, 1]
    answer(wide, 2, 2, 0, 1)
    assert held(wide) == [0, 1]
    assert DeviceUse.objects.count() == 0


def test_what_was_not_answered_is_asked_again(wide, urgent, ticks, tasks_sent):
    ticks()
    tasks_sent.clear()
    reconcile()
    assert asked(tasks_sent) == [[wide.pk, 1, 1, [0]]]
    answer(wide, 1, 1, 0)
    tasks_sent.clear()
    reconcile()
    assert asked(tasks_sent) == []


def test_a_run_that_cannot_let_a_rank_go_is_paused_as_a_whole(wide, urgent, ticks, tasks_sent):
    ticks()
    attempt = attempt_of(wide)
    before = (timezone.now() - NARROWER_LIMIT - timedelta(seconds=1)).isoformat()
    JobAttempt.objects.filter(pk=attempt.pk).update(width={**attempt.width, "asked_at": before})
    reconcile()
    wide.refresh_from_db()
    assert (wide.state, wide.preempted) == ("pausing", True)
    events_apply(wide.pk, [event(wide, "exited", 9, outcome="paused", failure=None)])
    wide.refresh_from_db()
    assert wide.state == "queued" and not Allocation.objects.filter(job=wide).exists()


@pytest.mark.parametrize("grows", [False, True])
def test_an_attempt_that_ends_on_the_way_gives_everything_back(wide, urgent, ticks, people, grows):
    ticks()
    if grows:
        answer(wide, 1, 1, 0)
        services.job_cancel(user=people.owner, job=urgent)
        ticks()
        assert held(wide) == [0, 1]
    events_apply(wide.pk, [event(wide, "exited", 9, outcome="lost", failure=None)])
    assert not Allocation.objects.filter(job=wide).exists()
    answer(wide, 10, 2 if grows else 1, 0, 1)
    wide.refresh_from_db()
    assert wide.state == "queued" and wide.restarts == 1


def test_a_run_that_cannot_change_while_it_runs_saves_itself_and_starts_again(wide, urgent, ticks, tasks_sent):
    attempt = attempt_of(wide)
    JobAttempt.objects.filter(pk=attempt.pk).update(plan={**attempt.plan, "most": 0})
    ticks()
    wide.refresh_from_db()
    assert (wide.state, asked(tasks_sent)) == ("pausing", [])


def test_a_job_begins_with_the_ranks_there_are_room_for_and_grows(node_make, job_make, ticks, tasks_sent):
    node_make(cpus=2)
    other = job_make(name="other", resources=CORE)
    run_now(other)
    job = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    attempt = place_now(job)
    assert (attempt.world_size, attempt.plan["least"], attempt.plan["most"]) == (1, 1, 2)
    events_apply(job.pk, [event(job, "started", 0, sandbox_level=3, node="node-1"), event(job, "running", 0, rank=0)])
    events_apply(other.pk, [event(other, "exited", 9, outcome="succeeded", failure=None)])
    ticks()
    assert asked(tasks_sent) == [[job.pk, 1, 1, [0, 1]]]
    assert len(ranks_of(job).rows) == 2


@pytest.mark.parametrize("policy", ["fifo", "fair_share"])
def test_by_a_policy_that_never_resizes_it_waits_for_all_its_ranks(node_make, job_make, ticks, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make(cpus=2)
    run_now(job_make(name="other", resources=CORE))
    queue(job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1}))
    assert ticks() == 0


def test_with_a_device_unlike_the_others_it_starts_again(wide, urgent, ticks, tasks_sent):
    ticks()
    answer(wide, 1, 1, 0)
    ticks()
    Device.objects.filter(index=1).update(slowdown=3.0)
    events_apply(urgent.pk, [event(urgent, "exited", 9, outcome="succeeded", failure=None)])
    tasks_sent.clear()
    ticks()
    wide.refresh_from_db()
    assert (wide.state, asked(tasks_sent)) == ("pausing", [])


def test_people_see_how_many_ranks_there_are(wide, urgent, ticks):
    assert width_of(attempt_of(wide)) == (0, 1) and width_request_read(attempt_of(wide).width) is None
    ticks()
    values = {f"rank{rank}/samples_per_s": 5.0 for rank in (0, 1)} | {"val/loss": 0.5}
    Job.objects.filter(pk=wide.pk).update(last_values=values)
    answer(wide, 1, 1, 0)
    assert set(wide.last_values) == {"rank0/samples_per_s", "val/loss"}
    view = ranks_of(wide)
    assert [row.rank for row in view.rows] == [0]
    assert [note.message for note in view.said] == told(wide)


def test_a_run_grows_onto_another_node_by_a_pause_and_a_restart(node_make, job_make, ticks, tasks_sent):
    """A supervisor cannot join an attempt that runs: its ranks save after a step, and go on wider."""
    PoolSetting.objects.update_or_create(pk=1, defaults={"span_nodes": True})
    for number in (1, 2):
        node_make(f"node-{number}", cpus=1, address=f"10.0.0.{number}")
    other = job_make(name="other", resources=CORE)
    run_now(other)
    job = job_make(name="wide", mode="sync", resources={"device": "cpu", "count": 2, "least": 1})
    first = place_now(job)
    assert first.world_size == 1
    here = first.plan["ranks"][0]["node"]
    events_apply(job.pk, [event(job, "started", 0, sandbox_level=3, node=here), event(job, "running", 0, rank=0)])
    events_apply(other.pk, [event(other, "exited", 9, outcome="succeeded", failure=None)])
    ticks()
    job.refresh_from_db()
    assert (job.state, job.preempted, asked(tasks_sent)) == ("pausing", True, [])
    assert JobEvent.objects.filter(job=job, new_state="pausing").get().message == (
        "The scheduler pauses it to change its devices. It continues with 2 CPU cores: they are free and make it "
        "faster, or its deadline needs them."
    )
    events_apply(job.pk, [event(job, "exited", 9, outcome="paused", failure=None)])
    assert ticks() == 1
    attempt = JobAttempt.objects.get(job=job, number=2)
    assert sorted(rank["node"] for rank in attempt.plan["ranks"]) == ["node-1", "node-2"]
    assert attempt.plan["least"] == 1
    job.refresh_from_db()
    assert job.restarts == 0
