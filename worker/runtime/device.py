"""Which device a rank drives, and how torch is set up for it."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from worker.events import FailureCode
from worker.machine_faults import gpu_words
from worker.runtime.data import DataError
from worker.runtime.failures import ProgramFailure
from worker.runtime.heap import keep_freed_memory
from worker.runtime.spec import Spec
from worker.words import counted

FAULTY_CHANNELS = range(2, 8)
"""Of what comes in: fewer than oneDNN's kernels for AVX2 take at once."""


def choose_device(wanted: str, *, given: bool = False) -> torch.device:
    """`cpu`, `cuda`, `cuda:N`, or `auto`: a GPU if there is one. Raises `DataError` for a GPU that is not there, and
    `ProgramFailure` (device_fault) where the platform has `given` it."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(wanted)
    if device.type == "cuda" and given and (device.index or 0) >= torch.cuda.device_count():
        raise ProgramFailure(FailureCode.DEVICE_FAULT, *gpu_words("torch finds no such GPU here", os.environ))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DataError(f"Device {wanted} was requested, but torch finds no GPU here.", "Use --device cpu.")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        hint = f"Use --device cuda:{count - 1} or less." if count > 1 else "Use --device cuda."
        raise DataError(f"Device {wanted} was requested, but this machine has {counted(count, 'GPU')}.", hint)
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def default_threads(spec: Spec, world_size: int) -> int:
    """Threads of a rank that is told nothing: what the platform would give, so that a run alone draws its curve."""
    count = spec.get("resources", {}).get("count")
    if world_size > 1 or not isinstance(count, int):
        return max(1, (os.cpu_count() or 1) // world_size)
    return max(1, min(count, os.cpu_count() or 1))


def set_up_torch(device: torch.device, threads: int) -> None:
    """Set the threads and keep freed memory; on a CPU ask for algorithms that always give the same bits."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    if device.type == "cpu":
        # as `use_deterministic_algorithms` does, which loads the whole compiler to tell it so
        torch.set_deterministic_debug_mode("warn")
        os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    else:
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")


def faulty_kernels_spared(device: torch.device) -> AbstractContextManager[object]:
    """Have PyTorch's own kernels train a model for which oneDNN's are faulty on this processor: within it the model is
    called once, without its backward pass. It holds for the whole process, from then on.

    Without AVX-512 the backward pass of a strided 1x1 convolution with few channels, side by side, writes beyond its
    memory: the process ends by a signal, or its gradients are wrong (uxlfoundation/oneDNN#6035). What that one call
    leaves out is not seen, nor that `ONEDNN_MAX_CPU_ISA` forbids AVX-512.
    """
    if device.type != "cpu" or torch.backends.cpu.get_cpu_capability() == "AVX512":
        return nullcontext()
    return _ConvolutionWatch()  # type: ignore[no-untyped-call]


class _ConvolutionWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every convolution within it, of layers and of functions."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.convolution.default and _is_faulty(*args):
            torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        return func(*args, **(kwargs or {}))


def _is_faulty(
    _inputs: Tensor, weight: Tensor, _bias: Any, stride: list[int], _padding: Any, _dilation: Any, transposed: bool,
    _output_padding: Any, groups: int,
) -> bool:  # fmt: skip
    skips = set(weight.shape[2:]) == {1} and max(stride) > 1
    return skips and not transposed and groups == 1 and weight.shape[1] in FAULTY_CHANNELS


def settle(device: torch.device) -> None:
    """Wait until the device has done what it was told to do: a GPU runs behind its host."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def settled_s(device: torch.device) -> float:
    """Seconds of the host's clock, when the device has done what it was told to do."""
    settle(device)
    return time.perf_counter()
