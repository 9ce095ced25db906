"""What an attempt may take on its node."""

from __future__ import annotations

import os

import pytest

from harness.jobs.control import disk as disk_module
from harness.jobs.control import tick as tick_module
from harness.jobs.control.disk import disk_read
from harness.jobs.control.plans import MEMORY_SHARE, plan_make
from harness.jobs.control.tick import tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Checkpoint
from harness.pool.models import Device
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import place_now, queue
from worker.plan import RunPlan
from worker.watchdog import folder_bytes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
MIB, GIB = 1 << 20, 1 << 30


def test_what_a_run_has_saved_is_not_taken_off_what_it_may_still_write(job_make, node_make, settings, monkeypatch):
    node_make(cpus=1)
    job = job_make()
    monkeypatch.setattr(type(settings.STORE), "free_bytes", lambda _store: settings.DISK_RESERVE_BYTES + 200 * MIB)
    devices = list(Device.objects.all())
    work = settings.STORE.job(job.pk).work
    work.mkdir(parents=True)
    assert (
        plan_make(job, token=1, devices=devices, backend="horovod", disk=disk_read(job)).limits.disk_bytes == 100 * MIB
    )
    with (work / "state.pt").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 120 * MIB)  # grown while the disk had more room
    held_bytes = folder_bytes(work)
    assert held_bytes is not None
    assert held_bytes >= 120 * MIB
    limit_bytes = plan_make(job, token=2, devices=devices, backend="horovod", disk=disk_read(job)).limits.disk_bytes
    assert limit_bytes == held_bytes + 100 * MIB
    settings.JOB_DISK_BYTES = 150 * MIB
    assert (
        plan_make(job, token=3, devices=devices, backend="horovod", disk=disk_read(job)).limits.disk_bytes == 150 * MIB
    )


def held_bytes():
    """Node -> memory that the scheduler takes for asked for there."""
    return {node.name: node.memory_held_bytes for node in facts_read().pool.nodes}


@pytest.mark.parametrize("sizes", [(3, 1), (2, 2)])
def test_the_memory_of_a_run_is_shared_out_over_its_nodes_and_counted_there_alike(sizes, people, node_make, job_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    for number, cpus in enumerate(sizes, 1):
        node_make(f"node-{number}", cpus=cpus, address=f"10.0.0.{number}")
    attempt = place_now(job_make(resources={"count": 4, "memory_gib": 8}, mode="sync"))
    plan = RunPlan.from_dict(attempt.plan)
    allowed = {name: plan.memory_bytes(name) for name in plan.nodes}
    assert allowed == {f"node-{number}": 2 * GIB * cpus for number, cpus in enumerate(sizes, 1)}
    assert held_bytes() == allowed


def test_a_rank_on_a_second_node_takes_no_memory_from_those_on_the_first(people, node_make, job_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, cpus, address in (("node-1", 3, "10.0.0.1"), ("node-2", 1, "10.0.0.2")):
        node_make(name, cpus=cpus, address=address, memory_bytes=cpus * 4 * GIB)
    plan = RunPlan.from_dict(place_now(job_make(resources={"count": 4}, mode="sync")).plan)
    each = plan.memory_bytes("node-2")
    assert each == pytest.approx(4 * GIB * MEMORY_SHARE, abs=2)
    assert plan.memory_bytes("node-1") == pytest.approx(3 * each, abs=6)


def test_a_device_without_a_rank_gives_its_memory_to_no_other_node(people, node_make, job_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, cpus, address in (("node-1", 3, "10.0.0.1"), ("node-2", 2, "10.0.0.2")):
        node_make(name, cpus=cpus, address=address)
    Device.objects.filter(pk=Device.objects.filter(node__name="node-1").first().pk).update(slowdown=500.0)
    job = job_make(resources={"count": 4, "memory_gib": 10, "split": "by_speed"}, mode="sync")
    devices = Device.objects.select_related("node").order_by("node__name", "index")
    plan = plan_make(job, token=1, devices=list(devices), backend="horovod", disk=disk_read(job))
    assert [rank.node for rank in plan.ranks] == ["node-1"] * 2 + ["node-2"] * 2
    assert plan.memory_bytes("node-1") <= 6 * GIB and plan.memory_bytes("node-2") == 4 * GIB
    alone = plan_make(job, token=1, devices=list(devices)[:3], backend="horovod", disk=disk_read(job))
    assert len(alone.ranks) == 2 and alone.memory_bytes("node-1") == 10 * GIB


def test_a_disk_is_looked_at_before_devices_are_taken_and_not_while(job, node_make, monkeypatch):
    seen = []
    for module, name in (
        (disk_module, "folder_bytes"),
        (disk_module, "checkpoint_look"),
        (tick_module, "turn_hold"),
    ):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, real=real, name=name: (seen.append(name), real(*args))[1])
    node_make(cpus=1)
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    place_now(job)
    assert sorted(seen[:2]) == ["checkpoint_look", "folder_bytes"]
    assert set(seen[2:]) == {"turn_hold"}


def test_a_disk_that_does_not_answer_keeps_its_job_waiting_and_no_other(job_make, node_make, monkeypatch):
    node_make(cpus=2)
    lame, other = queue(job_make(name="lame")), queue(job_make(name="other"))
    real = tick_module.disk_read

    def read(job):
        if job.pk == lame.pk:
            raise OSError("stale file handle")
        return real(job)

    monkeypatch.setattr(tick_module, "disk_read", read)
    assert tick() == 1
    monkeypatch.setattr(tick_module, "disk_read", real)
    assert tick() == 1
    for job in (lame, other):
        job.refresh_from_db()
        assert job.state == "placed"
