"""What an attempt may take on its node."""

from __future__ import annotations

import os

import pytest

from harness.jobs.control.plans import plan_make
from harness.pool.models import Device
from worker.watchdog import folder_bytes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
MIB = 1 << 20


def test_what_a_run_has_saved_is_not_taken_off_what_it_may_still_write(job_make, node_make, settings, monkeypatch):
    node_make(cpus=1)
    job = job_make()
    monkeypatch.setattr(type(settings.STORE), "free_bytes", lambda _store: settings.DISK_RESERVE_BYTES + 200 * MIB)
    devices = list(Device.objects.all())
    work = settings.STORE.job(job.pk).work
    work.mkdir(parents=True)
    assert plan_make(job, token=1, devices=devices, backend="horovod").limits.disk_bytes == 100 * MIB
    with (work / "state.pt").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 120 * MIB)  # grown while the disk had more room
    held_bytes = folder_bytes(work)
    assert held_bytes is not None
    assert held_bytes >= 120 * MIB
    limit_bytes = plan_make(job, token=2, devices=devices, backend="horovod").limits.disk_bytes
    assert limit_bytes == held_bytes + 100 * MIB
    settings.JOB_DISK_BYTES = 150 * MIB
    assert plan_make(job, token=3, devices=devices, backend="horovod").limits.disk_bytes == 150 * MIB
