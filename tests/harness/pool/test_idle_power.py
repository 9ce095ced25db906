"""Which readings of idle devices count, and what figure they give."""

from __future__ import annotations

import json
from datetime import timedelta
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.pool.idle_power import (
    READINGS_APART,
    READINGS_KEPT,
    READINGS_LEAST,
    SETTLES,
    IdleMeasured,
    idle_power_keep,
    idle_readings,
)
from harness.pool.models import Device, IdlePower, Node
from harness.pool.reservations import reservation_hold, reservation_release
from tests.harness.jobs.helpers import run_now
from tests.harness.jobs.test_queueing import use_make
from worker.idle_power import IdleMeter
from worker.power import EnergyMeter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
MINUTE = timedelta(minutes=1)


def report(*, packages_w: float | None = 16.0, load: float = 0.01, **gpus: Any) -> dict[str, Any]:
    """Of an agent on a host with 8 cores. `gpus`: watts, or (watts, load), as `gpu0`."""
    pairs = [(name, told if isinstance(told, tuple) else (told, 0.0)) for name, told in gpus.items()]
    told = [{"index": int(name[3:]), "power_w": watts, "load": busy} for name, (watts, busy) in pairs]
    return {"cores": 8, "load": load, "packages_w": packages_w, "gpus": told}


def keep(node: Node, *reports: dict[str, Any], now: Any = None) -> None:
    """One after the other, the last one now."""
    now = now or timezone.now()
    for ago, told in zip(reversed(range(len(reports))), reports, strict=True):
        idle_power_keep(node, idle_readings(told), now - ago * MINUTE)


def own_w(node: Node) -> dict[str, float | None]:
    measured = IdleMeasured()
    return {f"{device.kind}{device.index}": measured.own_w(device) for device in node.devices.order_by("kind", "index")}


def test_the_figure_of_a_device_is_the_median_of_its_readings(node_make):
    node = node_make(cpus=2, gpus=1)
    watts = [60.0, 61.0, 300.0, 59.0]
    keep(node, *(report(packages_w=8 * each / 30, gpu0=each) for each in watts))
    assert own_w(node) == {"cpu0": None, "cpu1": None, "cuda0": None}, "too few"
    keep(node, report(packages_w=16.0, gpu0=62.0), now=timezone.now() + MINUTE)
    assert own_w(node) == {"cpu0": pytest.approx(2.0, abs=0.1), "cpu1": pytest.approx(2.0, abs=0.1), "cuda0": 61.0}


def test_old_readings_make_room_for_new_ones(node_make):
    node = node_make()
    keep(node, *(report(packages_w=8.0 * number) for number in range(1, READINGS_KEPT + 11)))
    assert own_w(node)["cpu0"] == median(range(11, READINGS_KEPT + 11))


def test_a_reading_that_comes_twice_counts_once(node_make):
    node, now = node_make(), timezone.now()
    for _ in range(READINGS_LEAST):
        keep(node, report(), now=now)
    assert len(IdlePower.objects.get().readings_w) == 1
    keep(node, report(), now=now + READINGS_APART)
    keep(node, report(), now=now - MINUTE)
    assert len(IdlePower.objects.get().readings_w) == 3, "also after the clock was set back"


def test_readings_of_a_busy_host_or_gpu_do_not_count(node_make):
    node = node_make(gpus=2)
    keep(node, *[report(load=0.06, gpu0=(150.0, 0.3), gpu1=(60.0, 0.05))] * READINGS_LEAST)
    assert own_w(node) == {"cpu0": None, "cpu1": None, "cuda0": None, "cuda1": 60.0}


def test_devices_that_a_job_holds_are_not_read_and_other_gpus_are(node_make, job_make, people):
    node = node_make(cpus=2, gpus=2)
    held = run_now(job_make()).allocations.get().device
    keep(node, *[report(gpu0=60.0, gpu1=60.0)] * READINGS_LEAST)
    told = own_w(node)
    assert held.kind == "cpu" and told["cpu0"] is told["cpu1"] is None, "cores share packages"
    assert told["cuda0"] == told["cuda1"] == 60.0


def test_a_device_that_was_held_comes_to_rest_first(node_make, job, people):
    node = node_make(gpus=2)
    use_make(people, job, node.devices.get(kind="cuda", index=0), hours_ago=1, hours=1)
    keep(node, *[report(gpu0=60.0, gpu1=60.0)] * READINGS_LEAST)
    assert own_w(node) == {"cpu0": None, "cpu1": None, "cuda0": None, "cuda1": 60.0}
    rested = timezone.now() + SETTLES + READINGS_LEAST * MINUTE
    keep(node, *[report(gpu0=60.0, gpu1=60.0)] * READINGS_LEAST, now=rested)
    assert own_w(node) == {"cpu0": 2.0, "cpu1": 2.0, "cuda0": 60.0, "cuda1": 60.0}


@pytest.mark.parametrize("whole_node", [False, True])
def test_what_is_kept_to_be_measured_is_not_idle_and_rests_when_it_is_given_back(node_make, whole_node):
    node, now = node_make(gpus=2), timezone.now()
    target = node if whole_node else node.devices.get(kind="cuda", index=0)
    held = reservation_hold(target=target, ends_at=now + timedelta(hours=1), purpose="a probe")
    keep(node, report(gpu0=60.0, gpu1=60.0))
    assert IdlePower.objects.count() == (0 if whole_node else 1)
    reservation_release(held)
    keep(node, report(gpu0=60.0), now=now + SETTLES - MINUTE)
    assert not IdlePower.objects.filter(device__index=0).exists()
    keep(node, report(gpu0=60.0), now=now + SETTLES + MINUTE)
    assert IdlePower.objects.filter(device__index=0).exists()


def test_another_device_in_the_place_of_one_is_read_anew(node_make):
    node = node_make()
    keep(node, *[report()] * READINGS_LEAST)
    Device.objects.update(model_name="a newer core")
    assert own_w(node)["cpu0"] is None
    keep(node, report(), now=timezone.now() + MINUTE)
    assert IdlePower.objects.get().readings_w == [2.0]


def test_a_gpu_keeps_its_figure_when_its_number_changes(node_make):
    node = node_make(cpus=0, gpus={0: "GPU-a", 1: "GPU-b"})
    keep(node, *[report(packages_w=None, gpu0=60.0, gpu1=70.0)] * READINGS_LEAST)
    node_make(cpus=0, gpus={0: "GPU-b", 1: "GPU-a"})
    assert own_w(node) == {"cuda0": 70.0, "cuda1": 60.0}


@pytest.mark.parametrize(
    "told",
    [
        None, 3, "watts", {}, {"packages_w": 16.0}, {**report(), "load": None}, {**report(), "cores": 0},
        {**report(), "packages_w": -1.0}, {**report(), "packages_w": 1e9}, {**report(packages_w=None), "gpus": 1},
        {**report(packages_w=None), "gpus": ["x", {}, {"index": "0", "power_w": 60.0, "load": 0.0}]},
        report(packages_w=None, gpu7=60.0), report(packages_w=None, gpu0=(60.0, None)),
    ],
)  # fmt: skip
def test_a_report_with_readings_that_make_no_sense_or_none_is_heard_without_them(node_make, told):
    assert node_make(gpus=1, idle_power=told).state == "up"
    assert not IdlePower.objects.exists()


def test_control_understands_what_an_agent_tells(node_make, tmp_path, monkeypatch):
    """The contract of `worker.idle_power` and `harness.pool.idle_power`."""
    zone, clock = tmp_path / "intel-rapl:0", [0.0]
    zone.mkdir()
    for name, text in {"name": "package-0", "max_energy_range_uj": "900000000000", "energy_uj": "0"}.items():
        (zone / name).write_text(text)
    monkeypatch.setattr("worker.power.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("worker.idle_power.os.cpu_count", lambda: 8)
    monkeypatch.setattr(IdleMeter, "_load", lambda _meter: 0.0)
    monkeypatch.setattr("worker.devices.gpus_unused", lambda: (0,))
    sample = {"index": 0, "utilization_percent": 0, "memory_bytes": 0, "power_w": 61.5}
    monkeypatch.setattr("worker.devices.gpu_samples", lambda indices: [sample] if indices else [])
    meter = IdleMeter(packages=EnergyMeter(folder=tmp_path), clock=lambda: clock[0])
    for minute in range(READINGS_LEAST + 1):
        clock[0] = 60.0 * minute
        (zone / "energy_uj").write_text(str(int(16e6 * clock[0])))
        told = json.loads(json.dumps(meter.read(is_held=False)))
        node = node_make(cpus=2, gpus=1, idle_power=told)
        IdlePower.objects.update(read_at=timezone.now() - MINUTE)
    assert own_w(node) == {"cpu0": 2.0, "cpu1": 2.0, "cuda0": 61.5}
