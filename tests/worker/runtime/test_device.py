"""Which device a rank drives, and what is told of GPUs, where there is none to try it on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from worker.runtime.collective import PeerLost, _peers
from worker.runtime.data import DataError
from worker.runtime.device import Rounding, choose_device
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.failures import describe

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
