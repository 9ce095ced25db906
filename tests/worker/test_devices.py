"""What a host tells of its devices, also while one of them is broken, and how a run is given them."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker import devices, programs
from worker.attempt import Attempt
from worker.plan import Limits, RankPlan, RunPaths, RunPlan
from worker.sandbox import Completed, SandboxSpec, bwrap, python_environment

GIB = 1 << 30
DONE = Completed(returncode=0, stdout="", stderr="", level=0)


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
        nvmlDeviceGetMinorNumber=lambda handle: 7 - handle,
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


@pytest.mark.usefixtures("three_gpus")
def test_the_number_of_a_gpu_is_found_by_its_uuid() -> None:
    assert [devices.index_of(uuid) for uuid in ("GPU-22", "GPU-00", "GPU-11")] == [2, 0, None]


@pytest.mark.usefixtures("three_gpus")
def test_a_rank_sees_its_gpus_by_what_cuda_and_the_device_files_call_them(tmp_path: Path) -> None:
    ranks = tuple(RankPlan(rank=n, node="n", local_rank=n, device=f"cuda:{2 - 2 * n}", threads=1) for n in (0, 1))
    plan = RunPlan(
        job_id="j", token=1, mode="sync", ranks=ranks, job_dir=str(tmp_path), dataset_dir=str(tmp_path),
        limits=Limits(memory_bytes=GIB, disk_bytes=GIB), minimum_sandbox_level=0, own_code=False,
    )  # fmt: skip
    attempt = Attempt(plan, RunPaths(tmp_path), "n")
    told = [attempt.rank_environment(rank) for rank in ranks]
    assert {one["CUDA_VISIBLE_DEVICES"] for one in told} == {"GPU-00,GPU-22"}
    assert [one["DLH_DEVICE"] for one in told] == ["cuda:1", "cuda:0"]
    assert {one["DLH_DEVICE_RANKS"] for one in told} == {"1"}
    assert bound(attempt.sandbox(tmp_path / "config.json", ()), tmp_path) == ["/dev/nvidia7", "/dev/nvidia5"]


@pytest.mark.usefixtures("three_gpus")
def test_ranks_that_share_a_gpu_are_told_how_many_they_are(tmp_path: Path) -> None:
    places = [("n", "cuda:0"), ("n", "cuda:2"), ("n", "cuda:0"), ("m", "cuda:0")]
    ranks = tuple(
        RankPlan(rank=number, node=node, local_rank=0, device=device, threads=1)
        for number, (node, device) in enumerate(places)
    )
    plan = RunPlan(
        job_id="j", token=1, mode="sync", ranks=ranks, job_dir=str(tmp_path), dataset_dir=str(tmp_path),
        limits=Limits(memory_bytes=GIB, disk_bytes=GIB), minimum_sandbox_level=0, own_code=False,
        addresses={"n": "10.0.0.1", "m": "10.0.0.2"},
    )  # fmt: skip
    attempt = Attempt(plan, RunPaths(tmp_path), "n")
    assert [attempt.rank_environment(rank)["DLH_DEVICE_RANKS"] for rank in ranks[:3]] == ["2", "1", "2"]


def bound(spec: SandboxSpec, etc: Path) -> list[str]:
    """Device files of single GPUs that bubblewrap shows."""
    argv = bwrap.command("bwrap", spec, etc=etc, as_root=False)
    return [node for option, node in pairwise(argv) if option == "--dev-bind-try" and node[-1].isdigit()]


@pytest.mark.usefixtures("three_gpus")
def test_a_program_beside_training_sees_its_gpu_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(programs, "run_sandboxed", lambda *_, **options: given.update(options) or DONE)
    call = programs.ProgramCall(name="c", argv=("true",), workdir=tmp_path, timeout_s=1.0, gpus=(2,))
    programs.program_run(call)
    assert given["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-22" and given["gpus"] == (5,)
    assert given["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    with pytest.raises(programs.ProgramProblem, match="GPU 1 does not answer: GPU is lost"):
        programs.program_run(replace(call, gpus=(1,)))


def test_a_gpu_of_a_host_without_a_driver_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_nvml", lambda: None)
    assert devices.gpus_at(()) == ()
    with pytest.raises(devices.GpuAway):
        devices.gpus_at((0,))


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


def test_power_is_told_of_a_gpu_whose_use_is_not(three_gpus: Any) -> None:
    def refused(_handle: int) -> None:
        raise NVMLError("Not Supported")

    three_gpus.nvmlDeviceGetUtilizationRates = refused
    (sample,) = devices.gpu_samples((0,))
    assert (sample["utilization_percent"], sample["power_w"], sample["memory_bytes"]) == (None, 100.0, GIB)


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


def test_a_program_in_the_sandbox_finds_a_driver_that_lies_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert "LD_LIBRARY_PATH" not in python_environment()
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert python_environment()["LD_LIBRARY_PATH"] == str(tmp_path)


def test_of_the_folders_of_libraries_the_drivers_alone_reaches_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An empty one is the folder that a program is started in: its libraries would be loaded before it is shut in."""
    driver, other = tmp_path / "driver", tmp_path / "other"
    for folder in (driver, other):
        folder.mkdir()
    (driver / "libcuda.so.1").touch()
    monkeypatch.chdir(driver)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{other}:{driver}::.:/not-there:")
    assert python_environment()["LD_LIBRARY_PATH"] == str(driver)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{other}:")
    assert "LD_LIBRARY_PATH" not in python_environment()


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(("horovod", "told"), [("0.28.1", {"horovod_nccl": False}), ("", {})])
def test_a_node_with_gpus_says_whether_its_horovod_sums_on_them(
    monkeypatch: pytest.MonkeyPatch, horovod: str, told: dict[str, bool]
) -> None:
    monkeypatch.setattr(devices, "_has_nccl", lambda: False)
    monkeypatch.setattr(devices, "_version", lambda _: horovod)
    assert {name: said for name, said in devices.description().items() if name == "horovod_nccl"} == told


def test_a_node_without_gpus_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_nvml", lambda: None)
    assert "horovod_nccl" not in devices.description()
