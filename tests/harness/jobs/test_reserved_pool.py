"""Devices that are kept for a project: its jobs are placed on them first, within its quota and the node's memory, and
may be promised them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job
from harness.jobs.queueing import job_priority_set, queue_rows
from harness.pool.models import Node, PoolSetting, Reservation
from harness.pool.quotas import quota_set
from harness.pool.reservations import reservation_cancel, reservation_hold
from harness.rates.submitting import job_submit
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import estimated, queue, run_now, wish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
HOUR = timedelta(hours=1)


def keep(people, *devices):
    for device in devices:
        reservation_create(
            user=people.admin, node="node-1", device=device, ends_at=timezone.now() + HOUR, purpose="course",
            project=people.project,
        )  # fmt: skip


def held():
    return Allocation.objects.count()


def test_what_runs_elsewhere_counts_against_the_quota_of_kept_devices(job_make, people, node_make):
    node_make(cpus=3)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1, may_borrow=False)
    queue(estimated(job_make(name="outside"), run_s=60))
    assert tick() == 1
    index = Allocation.objects.get().device.index
    keep(people, *(f"cpu:{other}" for other in range(3) if other != index))
    queue(estimated(job_make(name="inside"), run_s=60))
    assert (tick(), held()) == (0, 1)
    assert Job.objects.get(name="inside").waiting_code == "quota_used"


def test_one_decision_fills_a_quota_once_on_kept_devices_and_others_together(job_make, people, node_make):
    node_make(cpus=4)
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=2, may_borrow=False)
    keep(people, "cpu:0", "cpu:1")
    for name in "abcd":
        queue(estimated(job_make(name=name), run_s=60))
    assert (tick(), held()) == (2, 2)
    assert (tick(), held()) == (0, 2)


def test_kept_devices_and_others_share_the_memory_of_their_node(job_make, people, node_make):
    node_make(cpus=2)
    gib = Node.objects.get().memory_bytes / 2**30
    keep(people, "cpu:0")
    for name in "ab":
        queue(job_make(name=name, resources={"count": 1, "memory_gib": 0.6 * gib}))
    assert (tick(), held()) == (1, 1)


def test_kept_devices_serve_their_project_beside_what_it_holds_elsewhere(job_make, people, node_make):
    node_make(cpus=2)
    keep(people, "cpu:0")
    for name in "ab":
        queue(estimated(job_make(name=name), run_s=60))
    assert (tick(), held()) == (2, 2)
    assert (tick(), held()) == (0, 2)


def submitted(job_make, people, *, name, run_s, within):
    job = estimated(job_make(name=name, **wish(timezone.now() + within)), run_s=run_s)
    return job_submit(user=people.owner, job=job)


def test_a_deadline_is_promised_on_devices_kept_for_the_project(job_make, people, node_make):
    node_make(cpus=1)
    keep(people, "cpu:0")
    first = submitted(job_make, people, name="first", run_s=600, within=HOUR)
    assert first.promised_at == first.deadline_at
    assert (tick(), held()) == (1, 1)
    second = submitted(job_make, people, name="second", run_s=600, within=2 * HOUR)
    assert second.promised_at == second.deadline_at
    tick()
    second.refresh_from_db()
    assert second.expected_start_at < timezone.now() + HOUR / 2


def test_a_job_without_a_deadline_is_told_when_the_one_before_it_ends_there(job_make, people, node_make):
    node_make(cpus=1)
    reservation_create(
        user=people.admin, node="node-1", ends_at=timezone.now() + 100 * 24 * HOUR, purpose="course",
        project=people.project,
    )  # fmt: skip
    run_now(estimated(job_make(name="first"), run_s=3600))
    second = queue(estimated(job_make(name="second"), run_s=60))
    tick()
    second.refresh_from_db()
    assert second.expected_start_at < timezone.now() + 2 * HOUR


def test_a_reservation_that_is_to_begin_does_not_hold_a_job_of_its_project_off(job_make, people, node_make):
    node_make(cpus=1)
    reservation_create(
        user=people.admin, node="node-1", starts_at=timezone.now() + 2 * HOUR, ends_at=timezone.now() + 9 * HOUR,
        purpose="course", project=people.project,
    )  # fmt: skip
    queue(estimated(job_make(), run_s=10 * 3600))
    assert tick() == 1


@pytest.mark.parametrize("policy", ["fifo", "deadline_energy"])
def test_a_higher_priority_pauses_a_lesser_job_of_the_project_there(job_make, people, node_make, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make(cpus=1)
    keep(people, "cpu:0")
    lesser = estimated(job_make(name="lesser"), run_s=36000)
    run_now(lesser)
    urgent = queue(estimated(job_make(name="urgent"), run_s=60))
    job_priority_set(user=people.admin, job=urgent, priority=50)
    tick()
    lesser.refresh_from_db()
    assert (lesser.state, lesser.preempted) == ("pausing", True)


def test_what_could_not_be_promised_is_promised_there_once_it_can_be(job_make, people, node_make):
    node_make(cpus=1)
    kept = {"user": people.admin, "node": "node-1", "ends_at": timezone.now() + HOUR, "purpose": "course"}
    for_nobody = reservation_create(**kept)
    late = estimated(job_make(name="late", **wish(timezone.now() + 1.5 * HOUR)), run_s=3600)
    late = job_submit(user=people.owner, job=late, promised=False)
    assert (tick(), late.promised_at) == (0, None)
    reservation_cancel(user=people.admin, reservation_id=for_nobody.pk)
    reservation_create(**kept, project=people.project)
    assert tick() == 1
    late.refresh_from_db()
    assert late.promised_at == late.deadline_at


@pytest.mark.parametrize("purpose", ["Calibration of node-10", "course (a; b), now and then"])
def test_until_when_devices_are_reserved_is_told_by_whole_purposes_alone(job_make, people, node_make, purpose):
    ends_at = timezone.now() + HOUR
    for name, cpus, what, hours in (
        ("node-10", 2, purpose, 2),
        ("node-1", 1, "Calibration of node-1", 3),
        ("node-2", 1, "CPU", 4),
        ("node-3", 1, "a", 5),
    ):
        node = node_make(name, cpus=cpus)
        reservation_hold(
            target=node, ends_at=ends_at, purpose=what, open_ended=True, planned_until=timezone.now() + hours * HOUR
        )
    queue(estimated(job_make(), counts=(2,)))
    assert tick() == 0
    (row,), _ = queue_rows(user=people.admin)
    assert f"({purpose})" in row.waiting_text
    assert row.reserved_until == Reservation.objects.get(purpose=purpose).told_end
