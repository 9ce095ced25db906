"""Which device a rank drives, and what is told of GPUs, where there is none to try it on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worker.runtime.apart import apart
from worker.runtime.collective import PeerLost, _peers
from worker.runtime.data import DataError, Part
from worker.runtime.device import choose_device, faulty_kernels_spared
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.failures import ProgramFailure, describe
from worker.runtime.memory import rows_try
from worker.runtime.precision import Rounding

ASSERTED = (
    "CUDA error: device-side assert triggered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace might be incorrect."
)


@pytest.mark.parametrize(("count", "hint"), [(1, "Use --device cuda."), (4, "Use --device cuda:3 or less.")])
def test_a_gpu_beyond_those_that_are_there_is_no_fault_of_the_program(
    count: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert choose_device(f"cuda:{count - 1}") == torch.device("cuda", count - 1)
    with pytest.raises(DataError) as told:
        choose_device(f"cuda:{count}")
    assert told.value.hint == hint


@pytest.mark.parametrize("library", ["CUBLAS", "CUDNN"])
def test_the_words_of_nvidias_libraries_for_no_memory_are_known(library: str) -> None:
    assert is_out_of_memory(RuntimeError(f"CUDA error: {library}_STATUS_ALLOC_FAILED when calling `create(handle)`"))
    assert not is_out_of_memory(RuntimeError(f"CUDA error: {library}_STATUS_EXECUTION_FAILED"))


def test_an_index_out_of_range_on_a_gpu_is_told_in_words_with_a_way_to_find_it() -> None:
    told = describe(torch.AcceleratorError(ASSERTED), Path(), lambda: None)
    assert told["code"] == "program_error"
    assert "out of range" in told["message"] and "CUDA" not in told["message"]
    assert "--device cpu" in told["hint"]


@pytest.mark.parametrize("error", [torch.AcceleratorError(ASSERTED), torch.OutOfMemoryError("CUDA out of memory.")])
def test_a_fault_of_the_own_gpu_that_shows_while_ranks_meet_is_not_blamed_on_another_rank(error: Exception) -> None:
    with pytest.raises(type(error)), _peers():
        raise error
    with pytest.raises(PeerLost), _peers():
        raise RuntimeError("Connection closed by peer")


@pytest.mark.parametrize("kind", [torch.AcceleratorError, RuntimeError])
def test_a_gpu_that_failed_is_no_fault_of_the_program(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa")
    monkeypatch.setenv("DLH_DEVICE", "cuda:0")
    told = describe(kind("CUDA error: uncorrectable ECC error encountered\nmore"), Path(), lambda: None)
    assert (told["code"], told["message"]) == (
        "device_fault", "The device GPU-aa failed: uncorrectable ECC error encountered.",
    )  # fmt: skip
    program = describe(kind("CUDA error: an illegal memory access was encountered"), Path(), lambda: None)
    assert program["code"] == "program_error"


def test_a_gpu_that_the_platform_gave_and_is_not_there_is_a_fault_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ProgramFailure) as told:
        choose_device("cuda:0", given=True)
    assert told.value.code == "device_fault"


def test_figures_are_exact_without_what_a_gpu_would_round() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    rounding = Rounding(torch.device("cpu"), "bf16")
    try:
        torch.set_float32_matmul_precision("high")
        rounding.be_exact()
        assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cudnn.allow_tf32
        with rounding:
            assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float32
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def called(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """Its function, called as a person's own model may."""
    assert isinstance(layer, nn.Conv2d)
    return lambda inputs: F.conv2d(inputs, layer.weight, layer.bias, layer.stride, groups=layer.groups)


@pytest.mark.parametrize(
    ("layer", "capability", "spared"),
    [
        (nn.Conv2d(4, 8, 1, stride=2), "AVX2", True),
        (nn.Conv1d(7, 8, 1, stride=3), "AVX2", True),
        (called(nn.Conv2d(4, 8, 1, stride=2)), "AVX2", True),
        (nn.Conv2d(4, 8, 1, stride=2), "AVX512", False),
        (nn.Conv2d(8, 16, 1, stride=2), "AVX2", False),
        (nn.Conv2d(4, 8, 1), "AVX2", False),
        (nn.Conv2d(4, 8, 3, stride=2), "AVX2", False),
        (nn.Conv2d(4, 8, 1, stride=2, groups=2), "AVX2", False),
        (called(nn.Conv2d(4, 8, 3, stride=2)), "AVX2", False),
        (nn.ConvTranspose2d(4, 8, 1, stride=2), "AVX2", False),
        (nn.Linear(8, 8), "AVX2", False),
    ],
)
def test_models_that_onednn_would_train_wrong_are_trained_by_other_kernels(
    layer: Callable[[Tensor], Tensor], capability: str, spared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    weight = getattr(layer, "weight", None)
    channels = getattr(layer, "in_channels", 4)
    inputs = torch.randn(2, channels, *[8] * (1 if weight is not None and weight.dim() < 4 else 2))
    try:
        with faulty_kernels_spared(torch.device("cpu")):
            layer(inputs)
        assert torch.backends.mkldnn.enabled is not spared
    finally:
        torch.backends.mkldnn.enabled = True


class Strided(nn.Module):
    """One such convolution, called as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.top = nn.Conv2d(4, 8, 1, stride=2), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """[rows, 2]."""
        return self.top(called(self.conv)(inputs).mean((2, 3)))


def test_the_try_of_a_model_sees_what_it_calls_as_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    rows = torch.arange(4)
    try:
        rows_try(Strided(), Part((torch.randn(4, 4, 8, 8),), rows % 2, rows), 2, torch.device("cpu"), 4)
        assert not torch.backends.mkldnn.enabled
    finally:
        torch.backends.mkldnn.enabled = True


def strided_gradients() -> tuple[list[Tensor], list[Tensor]]:
    """Of a model whose channels lie side by side, as it is trained, and in float64."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = nn.Conv2d(4, 8, 1, stride=2).to(memory_format=torch.channels_last)
    pictures = torch.randn(16, 4, 16, 16).contiguous(memory_format=torch.channels_last)
    with faulty_kernels_spared(torch.device("cpu")):
        net(pictures)
    exact = copy.deepcopy(net).double()
    for _ in range(40):  # what lies behind the memory of one pass belongs to somebody else in the next
        net.zero_grad()
        net(pictures).square().mean().backward()
    exact(pictures.double()).square().mean().backward()
    return [weight.grad for weight in net.parameters()], [weight.grad for weight in exact.parameters()]


def test_a_strided_convolution_of_few_channels_has_the_right_gradient_on_any_processor() -> None:
    for found, expected in zip(*apart(strided_gradients), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-6)
