"""What goes wrong on a GPU is told with its cause and the next step, and ends the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.runs import EXACT, changed, failure, make, own_code, started, trained
from tests.worker.runtime import samples
from worker.plan import EXIT_REPORTED
from worker.runtime import memory
from worker.runtime.data import Part
from worker.runtime.exhausted import is_out_of_memory

pytestmark = pytest.mark.gpu
LIMIT_BYTES = 4 << 30
"""Of the GPU, for a program of these tests: they run side by side."""
SCARCE = f"""
import torch

torch.cuda.set_per_process_memory_fraction({LIMIT_BYTES} / torch.cuda.get_device_properties(0).total_memory)
"""
WIDE = own_code(
    EXACT.replace("super().__init__()", "super().__init__()\n        self.scale = nn.Parameter(torch.ones(1))"),
    "        wide = torch.relu(numeric.mean(1, keepdim=True).expand(-1, 1 << 24) * self.scale)\n"
    "        numeric = numeric + wide.mean(1, keepdim=True)",
)  # fmt: skip
"""Keeps 64 MiB for each row."""


def failed(program: Path, work: Path) -> dict[str, Any]:
    """What it told."""
    ranks = started(program, work)
    assert ranks.wait() == [EXIT_REPORTED], ranks.log()
    return failure(work)


def test_a_batch_that_does_not_fit_is_told_with_one_that_does(gpu: dict[str, Any], tmp_path: Path) -> None:
    training = {"epochs": 1, "batch_size": 120}
    program = make(tmp_path / "program", samples.wine, own=WIDE + SCARCE, training=training)
    told = failed(program, tmp_path / "work")
    assert told["code"] == "out_of_memory"
    assert "more memory than it has" in told["message"]
    assert told["hint"].startswith("Set training.batch_size to ")
    fitting = int(told["hint"].rstrip(".").rpartition(" ")[2])
    assert 2 <= fitting < 120
    samples.change_spec(program, training={"batch_size": fitting})
    trained(program, tmp_path / "again")


def test_a_model_that_does_not_fit_is_told(gpu: dict[str, Any], tmp_path: Path) -> None:
    five_gib = (
        "super().__init__()\n        self.huge = nn.Parameter(torch.empty(5 << 28))"  # no page of it is touched here
    )
    huge = EXACT.replace("super().__init__()", five_gib)
    program = make(tmp_path / "program", samples.wine, own=huge + SCARCE, training={"epochs": 1})
    told = failed(program, tmp_path / "work")
    assert told["code"] == "out_of_memory"
    assert "smaller model" in told["hint"]


def test_the_gpus_own_words_for_no_memory_are_known(gpu: dict[str, Any], device: torch.device) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    assert is_out_of_memory(caught.value)


def test_what_is_free_on_a_gpu_follows_what_is_taken(gpu: dict[str, Any], device: torch.device) -> None:
    total = torch.cuda.get_device_properties(device).total_memory
    assert 0 < memory.free_bytes(device) <= total
    before = torch.cuda.memory_reserved(device)
    torch.cuda.set_per_process_memory_fraction((before + LIMIT_BYTES) / total, device)
    try:
        free = memory.free_bytes(device)
        assert free <= LIMIT_BYTES + before
        held = torch.empty(LIMIT_BYTES // 2, dtype=torch.uint8, device=device)
        assert memory.free_bytes(device) <= free - len(held) * 0.9
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def test_the_time_of_a_row_is_that_of_the_gpu_not_of_its_orders(gpu: dict[str, Any], device: torch.device) -> None:
    class Slow(torch.nn.Module):
        """Its orders are given in no time."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            torch.cuda._sleep(1 << 28)  # cycles: a tenth of a second
            return rows * self.scale

    part = Part((torch.ones(8, 2),), torch.zeros(8, dtype=torch.int64), torch.arange(8))
    found = memory.rows_try(Slow().to(device), part, 2, device, 2)
    assert found.row_s * 2 > 0.02


def test_a_loss_that_is_no_number_is_told_with_its_step(tmp_path: Path) -> None:
    spoilt = own_code(
        EXACT,
        "        self.calls = getattr(self, 'calls', 0) + int(self.training)\n"
        "        numeric = numeric * (float('nan') if self.calls >= 6 else 1.0)",
    )
    told = failed(make(tmp_path / "program", samples.wine, own=spoilt, training={"epochs": 2}), tmp_path / "work")
    assert told["code"] == "nan_loss"
    assert told["step"] == 6


def test_a_class_number_out_of_range_is_told_and_does_not_hang(
    exact: Path, device: torch.device, tmp_path: Path
) -> None:
    old, new = "F.cross_entropy(outputs, targets,", "F.cross_entropy(outputs, targets + 100,"
    told = failed(changed(exact, tmp_path / "program", old, new), tmp_path / "work")
    assert told["code"] == "program_error"
    if device.type == "cuda":
        assert "out of range" in told["message"] and "--device cpu" in told["hint"]
    else:
        assert "out of bounds" in told["message"]


def test_an_index_out_of_range_in_the_model_is_told(tmp_path: Path) -> None:
    spoilt = own_code(
        EXACT,
        "        if self.training:\n            numeric = numeric[:, torch.full_like(numeric[0], 99).long()]",
    )
    told = failed(make(tmp_path / "program", samples.wine, own=spoilt, training={"epochs": 1}), tmp_path / "work")
    assert told["code"] == "program_error"
    assert told["hint"]


def test_rows_on_another_device_than_the_model_are_told(gpu: dict[str, Any], tmp_path: Path) -> None:
    spoilt = own_code(EXACT, "        numeric = numeric.cpu()")
    told = failed(make(tmp_path / "program", samples.wine, own=spoilt, training={"epochs": 1}), tmp_path / "work")
    assert told["code"] == "program_error"
    assert told["file"] == "model.py"
