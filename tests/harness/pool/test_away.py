"""A device that its node does not see for a while, and the same device when it is back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.retention import retention
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.pool import selectors, services
from harness.pool.devices import KEPT_FOR
from harness.pool.hardware import hardware
from harness.pool.models import Device, Reservation
from harness.pool.reservations import reservation_hold
from tests.harness.jobs.helpers import estimated, place_now, queue, run_now

pytestmark = pytest.mark.django_db
BOTH = {0: "GPU-a", 1: "GPU-b"}


def gpu(uuid: str) -> Device:
    return Device.objects.get(kind="cuda", uuid=uuid)


def seen() -> dict[str, int]:
    """UUID -> number of the GPUs that are there."""
    return dict(Device.objects.filter(kind="cuda", away_since=None).values_list("uuid", "index"))


def on_gpu(job: Job) -> Job:
    return estimated(job, kind="cuda")


def test_a_gpu_that_misses_a_report_keeps_what_was_declared_and_reserved(node_make, people):
    node_make(gpus=BOTH)
    services.device_slow(user=people.admin, node="node-1", kind="cuda", index=1, factor=3.0)
    kept = reservation_hold(target=gpu("GPU-b"), ends_at=timezone.now() + timedelta(hours=1), purpose="Course")
    node_make(gpus={0: "GPU-a"})
    assert gpu("GPU-b").away_since is not None
    node_make(gpus=BOTH)
    back = gpu("GPU-b")
    assert (back.away_since, back.slowdown) == (None, 3.0)
    assert Reservation.objects.get().pk == kept.pk


def test_what_is_away_is_shown_so_and_is_not_free(node_make):
    node_make(cpus=1, gpus=BOTH)
    node_make(cpus=1, gpus={0: "GPU-a"})
    found = selectors.pool_overview()
    away = {device.index: device.away_s is not None for device in found.nodes[0].devices if device.kind == "cuda"}
    assert (away, found.free, found.away) == ({0: False, 1: True}, 2, 1)
    assert hardware().gpus == 1


def test_nothing_starts_on_a_gpu_that_is_away_until_it_is_back(node_make, job):
    node_make(gpus={0: "GPU-a"})
    node_make(gpus={})
    queue(on_gpu(job))
    assert tick() == 0
    job.refresh_from_db()
    assert job.waiting_code == "no_such_device"
    node_make(gpus={0: "GPU-a"})
    assert tick() == 1


def test_a_run_on_a_gpu_that_goes_away_goes_on_and_is_not_paused_for_anybody(node_make, job, job_make):
    node_make(gpus={0: "GPU-a"})
    attempt = run_now(on_gpu(job))
    node_make(gpus={}, running=[{"job_id": job.pk, "token": attempt.number}])
    other = queue(on_gpu(job_make()))
    Job.objects.filter(pk=other.pk).update(priority=50)
    reconcile()
    job.refresh_from_db()
    assert job.state == "running" and job.allocations.get().device == gpu("GPU-a")
    other.refresh_from_db()
    assert other.state == "queued"


def test_what_went_away_after_it_was_decided_is_not_given_out(node_make, job, monkeypatch):
    node_make(gpus={0: "GPU-a"})
    queue(on_gpu(job))
    from harness.jobs.control import tick as module

    real = module.decide

    def decide_and_lose(facts):
        decided = real(facts)
        node_make(gpus={})
        return decided

    monkeypatch.setattr(module, "decide", decide_and_lose)
    assert tick() == 0
    assert not job.allocations.exists()


def test_a_gpu_is_known_by_its_uuid_whatever_its_number(node_make):
    node_make(gpus=BOTH)
    first = gpu("GPU-a").pk
    node_make(gpus={0: "GPU-b"})
    assert seen() == {"GPU-b": 0}
    node_make(gpus={0: "GPU-b", 1: "GPU-a"})
    assert seen() == {"GPU-b": 0, "GPU-a": 1} and gpu("GPU-a").pk == first
    node_make(gpus=BOTH)
    assert seen() == {"GPU-a": 0, "GPU-b": 1}


def test_another_gpu_in_its_place_is_another_device(node_make, people):
    node_make(gpus={0: "GPU-a"})
    services.device_slow(user=people.admin, node="node-1", kind="cuda", index=0, factor=3.0)
    node_make(gpus={0: "GPU-c"})
    assert gpu("GPU-c").slowdown == 1.0 and gpu("GPU-a").away_since is not None
    services.device_slow(user=people.admin, node="node-1", kind="cuda", index=0, factor=2.0)
    assert (gpu("GPU-c").slowdown, gpu("GPU-a").slowdown) == (2.0, 3.0)


def test_agents_that_tell_no_uuid_are_believed_by_number(node_make):
    node_make(gpus=1)
    only = Device.objects.get(kind="cuda").pk
    node_make(gpus=0)
    node_make(gpus=1)
    assert gpu("").pk == only and seen() == {"": 0}
    node_make(gpus={0: "GPU-a"})
    assert gpu("GPU-a").pk == only
    node_make(gpus=1)
    assert seen() == {"GPU-a": 0}


def test_a_gpu_that_stays_away_is_forgotten_unless_somebody_wants_it(node_make, job):
    node_make(gpus={0: "GPU-a", 1: "GPU-b", 2: "GPU-c"})
    held = place_now(on_gpu(job)).allocations.get().device
    free = list(Device.objects.filter(kind="cuda").exclude(pk=held.pk))
    reservation_hold(target=free[0], ends_at=timezone.now() + timedelta(days=1), purpose="Repair")
    node_make(gpus={})
    Device.objects.exclude(away_since=None).update(away_since=timezone.now() - KEPT_FOR - timedelta(days=1))
    retention()
    assert set(Device.objects.filter(kind="cuda")) == {held, free[0]}


def test_a_reserved_core_beyond_the_number_of_a_node_stays_until_the_reservation_is_over(node_make, people):
    node_make(cpus=3)
    last = Device.objects.get(kind="cpu", index=2)
    until = timezone.now() + timedelta(hours=1)
    kept = reservation_hold(target=last, ends_at=until, purpose="Course")
    node_make(cpus=1)
    assert set(Device.objects.filter(kind="cpu", away_since=None).values_list("index", flat=True)) == {0}
    assert Reservation.objects.get().pk == kept.pk and Device.objects.get(away_since__isnull=False) == last
    node_make(cpus=3)
    assert Device.objects.get(kind="cpu", index=2, away_since=None) == last
    node_make(cpus=1)
    Reservation.objects.update(starts_at=until - timedelta(hours=3), ends_at=until - timedelta(hours=2))
    node_make(cpus=1)
    assert not Device.objects.filter(pk=last.pk).exists()
