"""Devices that are kept for a project: its jobs are placed on them first, within its quota and the node's memory."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job
from harness.pool.models import Node
from harness.pool.quotas import quota_set
from harness.pool.reservations import reservation_create
from tests.harness.jobs.helpers import estimated, queue

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
