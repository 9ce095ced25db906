"""What this host brings into the pool: CPU cores, GPUs, memory, and a description for people."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from worker import horovod_build, host_limits
from worker.home import home


class GpuAway(OSError):
    """A GPU that a run was given does not answer."""


@dataclass(frozen=True)
class Gpu:
    """What others than NVML call a GPU: its own index counts neither as CUDA does nor as the device files do."""

    uuid: str
    """For CUDA_VISIBLE_DEVICES, whose plain numbers count the GPUs that a process may open, the fastest first."""
    minor: int
    """Of its device file, /dev/nvidiaN."""


@lru_cache(maxsize=1)
def _nvml_start() -> Any:
    """The NVML module, initialised. Raises what it raises, and is then asked again: a driver may come late."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def _nvml() -> Any:
    """The NVML module, initialised; None on hosts without NVIDIA GPUs."""
    with contextlib.suppress(Exception):
        return _nvml_start()
    return None


def cpu_cores() -> int:
    """Cores this process may use, at most `DLH_NODE_CORES`."""
    allowed = host_limits.cores()
    wanted = os.environ.get("DLH_NODE_CORES", "")
    return max(1, min(allowed, int(wanted))) if wanted.isdigit() else allowed


@lru_cache(maxsize=1)
def cpu_model() -> str:
    """Name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def devices() -> list[dict[str, Any]]:
    """One entry per CPU core and GPU: `kind`, `index`, `model_name`, `memory_bytes`; of a GPU its `uuid`, too.

    A GPU that does not answer is left out: what else is here must go on being reported.
    """
    cores = cpu_cores()
    share_bytes = host_limits.memory_total_bytes() // cores
    found: list[dict[str, Any]] = [
        {"kind": "cpu", "index": index, "model_name": cpu_model(), "memory_bytes": share_bytes}
        for index in range(cores)
    ]
    return found + _gpus()


def _gpus() -> list[dict[str, Any]]:
    nvml = _nvml()
    found: list[dict[str, Any]] = []
    for index in range(_gpu_count(nvml)):
        with contextlib.suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            name, uuid = text_of(nvml.nvmlDeviceGetName(handle)), text_of(nvml.nvmlDeviceGetUUID(handle))
            memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
            found.append({"kind": "cuda", "index": index, "model_name": name, "memory_bytes": memory, "uuid": uuid})
    return found


def gpus_at(indices: tuple[int, ...]) -> tuple[Gpu, ...]:
    """The GPUs with these NVML indices, in this order. Raises `GpuAway`."""
    nvml = _nvml() if indices else None
    if nvml is None and indices:
        raise GpuAway("the NVIDIA driver does not answer")
    return tuple(_gpu_at(nvml, index) for index in indices)


def index_of(uuid: str) -> int | None:
    """NVML's index of a GPU; None where it does not tell of it."""
    return next((int(gpu["index"]) for gpu in _gpus() if gpu["uuid"] == uuid), None)


def _gpu_at(nvml: Any, index: int) -> Gpu:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return Gpu(text_of(nvml.nvmlDeviceGetUUID(handle)), int(nvml.nvmlDeviceGetMinorNumber(handle)))
    except nvml.NVMLError as error:
        raise GpuAway(f"GPU {index} does not answer: {error}") from error


def _gpu_count(nvml: Any) -> int:
    """How many GPUs the driver tells of; 0 where it does not answer."""
    if nvml is None:
        return 0
    try:
        return int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError:
        _nvml_start.cache_clear()  # a driver that was loaded anew wants to be asked anew
        return 0


def gpu_samples(indices: tuple[int, ...]) -> list[dict[str, Any]]:
    """Use of the GPUs named: `index`, `utilization_percent`, `memory_bytes`, `power_w` (null if not told)."""
    nvml = _nvml() if indices else None
    if nvml is None:
        return []
    samples = []
    for index in indices:
        sample: dict[str, Any] = {"index": index, "utilization_percent": None, "memory_bytes": None, "power_w": None}
        with contextlib.suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            sample["memory_bytes"] = nvml.nvmlDeviceGetMemoryInfo(handle).used
            with contextlib.suppress(nvml.NVMLError):  # not told where a GPU is shared out in hardware
                sample["utilization_percent"] = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            sample["power_w"] = nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0
        samples.append(sample)
    return samples


def gpus_unused() -> tuple[int, ...]:
    """NVML's indices of the GPUs on which no process computes; without those that do not tell."""
    nvml = _nvml()
    found = []
    for index in range(_gpu_count(nvml)):
        with contextlib.suppress(nvml.NVMLError):
            if not nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index)):
                found.append(index)
    return tuple(found)


def boot_id() -> str:
    """Changes when the host reboots."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return str(psutil.boot_time())


def description() -> dict[str, Any]:
    """What a person wants to know of the host; no path in it."""
    existing = next(path for path in (home(), *home().parents) if path.exists())
    disk = shutil.disk_usage(existing)
    return {
        "cpu_model": cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "horovod": _version("horovod"),
        "disk_bytes": disk.total,
        "disk_free_bytes": disk.free,
        **({"horovod_nccl": _has_nccl()} if _gpu_count(_nvml()) and _version("horovod") else {}),
    }


@cache
def _has_nccl() -> bool:
    """Read once: who has another Horovod installed starts the agent again."""
    return horovod_build.has_nccl()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def text_of(value: str | bytes) -> str:
    """Text of what NVML says, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
