"""What a host tells of its devices while one of them is broken."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from worker import devices

GIB = 1 << 30


class NVMLError(Exception):
    """As NVML's own."""


def handle_of(index: int) -> int:
    if index == 1:
        raise NVMLError("GPU is lost")
    return index


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of which the second has fallen off the bus."""
    nvml: Any = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=handle_of,
        nvmlDeviceGetName=lambda handle: f"GPU {handle}",
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}{handle}".encode(),
        nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(total=8 * GIB, used=GIB),
        nvmlDeviceGetUtilizationRates=lambda _handle: SimpleNamespace(gpu=50),
        nvmlDeviceGetPowerUsage=lambda _handle: 100_000,
    )
    monkeypatch.setattr(devices, "_nvml", lambda: nvml)
    return nvml


@pytest.mark.usefixtures("three_gpus")
def test_a_gpu_that_does_not_answer_keeps_no_other_device_from_being_reported() -> None:
    found = devices.devices()
    assert [device["index"] for device in found if device["kind"] == "cuda"] == [0, 2]
    assert any(device["kind"] == "cpu" for device in found)


@pytest.mark.usefixtures("three_gpus")
def test_a_gpu_is_told_with_what_stays_the_same_when_its_number_changes() -> None:
    assert [device["uuid"] for device in devices.devices() if device["kind"] == "cuda"] == ["GPU-00", "GPU-22"]


def test_a_driver_that_does_not_answer_keeps_no_core_from_being_reported(three_gpus: Any) -> None:
    def lost() -> int:
        raise NVMLError("Driver not loaded")

    three_gpus.nvmlDeviceGetCount = lost
    assert {device["kind"] for device in devices.devices()} == {"cpu"}
    three_gpus.nvmlDeviceGetCount = lambda: 1
    assert {device["kind"] for device in devices.devices()} == {"cpu", "cuda"}


@pytest.mark.usefixtures("three_gpus")
def test_what_a_gpu_that_does_not_answer_uses_is_not_known_and_the_others_is() -> None:
    power_w = {sample["index"]: sample["power_w"] for sample in devices.gpu_samples((0, 1, 2))}
    assert power_w == {0: 100.0, 1: None, 2: 100.0}


def test_a_driver_that_comes_after_the_agent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([NVMLError("driver not loaded"), None])

    def start() -> None:
        if (problem := next(answers)) is not None:
            raise problem

    nvml = SimpleNamespace(nvmlInit=start)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    devices._nvml_start.cache_clear()
    try:
        assert devices._nvml() is None
        assert devices._nvml() is nvml
        assert devices._nvml() is nvml, "asked for once more"
    finally:
        devices._nvml_start.cache_clear()
