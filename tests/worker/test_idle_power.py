"""What a node tells of devices that no run holds, by counters of packages and GPUs that are made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker import devices, idle_power
from worker.idle_power import EVERY_S, IdleMeter
from worker.power import EnergyMeter

WRAPS_UJ = 262_143_328_850
CORES = 8


class Host:
    """Time, one package and the time of its processor, as a test has them go on."""

    def __init__(self, folder: Path) -> None:
        self.s, self.joules, self.work_s = 0.0, 0.0, 0.0
        self._zone = folder / "intel-rapl:0"
        self._zone.mkdir()
        (self._zone / "name").write_text("package-0\n")
        (self._zone / "max_energy_range_uj").write_text(str(WRAPS_UJ))
        self.goes_on(0.0)

    def goes_on(self, seconds: float, *, watts: float = 40.0, load: float = 0.0) -> None:
        self.s += seconds
        self.joules += watts * seconds
        self.work_s += load * CORES * seconds
        (self._zone / "energy_uj").write_text(str(int(self.joules * 1e6) % WRAPS_UJ))

    def times(self) -> Any:
        return Times(self.work_s, CORES * self.s - self.work_s)


class Times(tuple[float, float]):
    """As psutil has them."""

    def __new__(cls, user: float, idle: float) -> Times:
        return super().__new__(cls, (user, idle))

    @property
    def idle(self) -> float:
        return self[1]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path)
    monkeypatch.setattr("worker.power.time", SimpleNamespace(monotonic=lambda: host.s))
    monkeypatch.setattr(idle_power, "psutil", SimpleNamespace(cpu_times=host.times))
    monkeypatch.setattr(idle_power.os, "cpu_count", lambda: CORES)
    monkeypatch.setattr(devices, "_nvml", lambda: None)
    return host


@pytest.fixture
def meter(host: Host, tmp_path: Path) -> IdleMeter:
    """That has been asked once."""
    meter = IdleMeter(packages=EnergyMeter(folder=tmp_path), clock=lambda: host.s)
    first = meter.read(is_held=False)
    assert first is not None and first["packages_w"] is None, "nothing was counted before"
    return meter


def test_a_minute_is_told_once_it_is_over_with_how_busy_the_host_was(host: Host, meter: IdleMeter) -> None:
    host.goes_on(EVERY_S / 2, watts=30.0)
    assert meter.read(is_held=False) is None
    host.goes_on(EVERY_S / 2, watts=50.0, load=0.1)
    told = meter.read(is_held=False)
    assert told == {"cores": CORES, "load": pytest.approx(0.05), "packages_w": pytest.approx(40.0), "gpus": []}


def test_a_counter_that_starts_again_within_the_minute_is_counted_on(host: Host, meter: IdleMeter) -> None:
    host.goes_on(WRAPS_UJ / 40e6 - EVERY_S / 2)
    meter.read(is_held=False)
    host.goes_on(EVERY_S)
    told = meter.read(is_held=False)
    assert told is not None and told["packages_w"] == pytest.approx(40.0, rel=1e-6)


def test_of_a_time_in_which_a_counter_may_have_started_again_twice_nothing_is_told(
    host: Host, meter: IdleMeter
) -> None:
    host.goes_on(idle_power.LONGEST_S + 1.0)
    told = meter.read(is_held=False)
    assert told is not None and told["packages_w"] is None


@pytest.mark.parametrize("held", [(True, False), (False, True)])
def test_a_minute_in_which_a_run_was_there_tells_nothing_of_packages(
    host: Host, meter: IdleMeter, held: tuple[bool, bool]
) -> None:
    told = None
    for is_held in held:
        host.goes_on(EVERY_S / 2, watts=90.0)
        told = meter.read(is_held=is_held)
    assert told is not None and told["packages_w"] is None
    told = None
    for _ in range(4):
        host.goes_on(EVERY_S / 2)
        told = meter.read(is_held=False) or told
    assert told is not None and told["packages_w"] == pytest.approx(40.0), "the next one is whole again"


def test_a_host_whose_counters_cannot_be_read_tells_none(host: Host, tmp_path: Path) -> None:
    meter = IdleMeter(packages=EnergyMeter(folder=tmp_path / "none"), clock=lambda: host.s)
    for _ in range(2):
        told = meter.read(is_held=False)
        host.goes_on(EVERY_S)
        assert told is not None and told["packages_w"] is None


class NVMLError(Exception):
    """As NVML's own."""


def test_gpus_are_told_on_which_nothing_computes(host: Host, meter: IdleMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    def processes(index: int) -> list[int]:
        if index == 2:
            raise NVMLError("Not Supported")
        return [4711] if index == 1 else []

    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlDeviceGetCount=lambda: 4,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetComputeRunningProcesses=processes,
        nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(used=4 << 20),
        nvmlDeviceGetUtilizationRates=lambda index: SimpleNamespace(gpu=index),
        nvmlDeviceGetPowerUsage=lambda index: 70_000 + index,
    )
    monkeypatch.setattr(devices, "_nvml", lambda: nvml)
    host.goes_on(EVERY_S)
    told = meter.read(is_held=True)
    assert told is not None and told["gpus"] == [
        {"index": 0, "power_w": 70.0, "load": 0.0},
        {"index": 3, "power_w": 70.003, "load": 0.03},
    ]
