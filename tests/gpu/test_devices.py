"""What a host tells of a real GPU, and of what it uses and draws."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from tests.gpu.runs import NET, changed, make, started
from tests.waiting import wait_for
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import steps_told
from worker import devices
from worker.devices import gpus_at
from worker.doctor.findings import State
from worker.doctor.machine import gpus
from worker.monitor import Monitor
from worker.power import EnergyMeter

pytestmark = pytest.mark.gpu
LEAST_W, MOST_W = 20.0, 800.0
"""Of a GPU: idle with a context on it, and more than the largest takes."""
COUNTED_J = 50.0


@contextmanager
def busy(device: torch.device) -> Iterator[None]:
    """A GPU that multiplies all the while."""
    ends = threading.Event()

    def multiply() -> None:
        square = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
        while not ends.is_set():
            for _ in range(20):
                square @ square
            torch.cuda.synchronize(device)

    thread = threading.Thread(target=multiply)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_a_gpu_is_called_as_torch_calls_it(gpu: dict[str, Any], device: torch.device) -> None:
    found = torch.cuda.get_device_properties(device)
    assert gpu["kind"] == "cuda"
    assert gpu["model_name"] == found.name == torch.cuda.get_device_name(device)
    assert gpu["uuid"] == f"GPU-{found.uuid}"
    assert gpu["memory_bytes"] == pytest.approx(found.total_memory, rel=0.05)


def test_its_device_file_is_there(gpu: dict[str, Any]) -> None:
    (found,) = gpus_at((gpu["index"],))
    assert found.uuid == gpu["uuid"]
    assert Path(f"/dev/nvidia{found.minor}").is_char_device()
    assert Path("/dev/nvidiactl").is_char_device() and Path("/dev/nvidia-uvm").is_char_device()


def test_a_gpu_with_a_number_that_none_has_is_away() -> None:
    with pytest.raises(devices.GpuAway):
        gpus_at((77,))


def test_its_number_is_found_by_what_torch_calls_it(gpu: dict[str, Any], device: torch.device) -> None:
    assert devices.index_of(f"GPU-{torch.cuda.get_device_properties(device).uuid}") == gpu["index"]
    assert devices.index_of("GPU-of nobody") is None


def test_what_a_busy_gpu_uses_is_told(gpu: dict[str, Any], device: torch.device) -> None:
    held = torch.ones(1 << 28, dtype=torch.uint8, device=device)
    with busy(device):
        (sample,) = wait_for(
            lambda: [one for one in devices.gpu_samples((gpu["index"],)) if (one["utilization_percent"] or 0) > 10], 60
        )
    assert sample["index"] == gpu["index"]
    assert 10 < sample["utilization_percent"] <= 100
    assert len(held) < sample["memory_bytes"] <= gpu["memory_bytes"]
    assert LEAST_W < sample["power_w"] < MOST_W


def test_its_energy_is_counted(gpu: dict[str, Any], device: torch.device) -> None:
    meter = EnergyMeter((gpu["index"],))
    assert len(meter._counters) == 1
    (counter,) = meter._counters
    began_j = counter.read_j()
    meter.start()
    with busy(device):
        wait_for(lambda: counter.read_j() > began_j + COUNTED_J, 60)
    watts = meter.stop()
    assert watts is not None and LEAST_W < watts < MOST_W


def test_what_it_draws_anyway_is_counted(gpu: dict[str, Any]) -> None:
    watts = EnergyMeter((gpu["index"],)).base_w()
    assert watts is not None and 0 < watts < MOST_W


def test_a_run_on_it_is_watched(gpu: dict[str, Any], tmp_path: Path) -> None:
    quick = make(tmp_path / "quick", samples.wine, own=NET)
    place = "        optimizer.zero_grad"
    program = changed(quick, tmp_path / "program", place, f"        __import__('time').sleep(0.2)\n{place}")
    ranks = started(program, tmp_path / "work")
    try:
        ranks.until(lambda: steps_told(tmp_path / "work") > 1)
        monitor = Monitor(gpus=(gpu["index"],))
        sample = monitor.sample([psutil.Process(process.pid) for process in ranks.processes])
    finally:
        ranks.kill()
    (told,) = sample["gpus"]
    assert told["index"] == gpu["index"] and told["memory_bytes"] > 0 and LEAST_W < told["power_w"] < MOST_W


def test_the_doctor_finds_the_driver_in_order(gpu: dict[str, Any]) -> None:
    finding, *_ = gpus()
    assert finding.state is State.OK, finding
    assert "GPU" in finding.text
