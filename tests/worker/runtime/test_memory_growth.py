"""Memory that grows from step to step is told from a batch that is too large."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events
from worker.runtime.memory_growth import MOST, MemoryGrowth


def grows_by(sizes_mib: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What is said after each step, of a process of these sizes between them."""
    left = iter(sizes_mib)
    now = {"mib": 0}
    monkeypatch.setattr(MemoryGrowth, "_held_bytes", lambda self: now["mib"] << 20)
    growth, told = MemoryGrowth(torch.device("cpu")), []
    for now["mib"] in left:
        growth.look()
        told.append(growth.grows)
    return told


def test_memory_that_grows_with_every_step_is_found_after_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    told = grows_by(range(500, 4500, 200), monkeypatch)
    assert not any(told[:7]) and all(told[7:])


def test_growth_is_still_found_in_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grows_by(range(500, 40 * MOST * 10, 10), monkeypatch)[-1]


@pytest.mark.parametrize(
    "sizes",
    [[500] * 40, [500, 900, 1200, *[1300] * 40], [*range(500, 1500, 100), *[1500] * 40], [500, 700] * 20],
    ids=["flat", "first steps", "until it has all", "up and down"],
)
def test_memory_that_settles_does_not_grow(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not grows_by(sizes, monkeypatch)[-1]


LEAK = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer = nn.Linear(features, outputs)
        self.kept = []
    def forward(self, numeric, categorical):
        if self.training:
            self.kept.append(torch.ones(8 << 20))
        if len(self.kept) > 12:
            raise MemoryError
        return self.layer(numeric)
def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""


def test_a_model_that_keeps_something_of_each_step_gets_no_batch_size_as_advice(
    wine_program: Path, tmp_path: Path
) -> None:
    program = Path(shutil.copytree(wine_program, tmp_path / "program"))
    (program / "model.py").write_text(LEAK)
    samples.change_spec(program, training={"batch_size": 8, "ema": 0})
    samples.python(program, "train.py", "--epochs", "1", "--fresh", DLH_THREADS="1")
    told = events(program / "work")
    error = next(event["data"] for event in told if event["kind"] == "error")
    assert error["code"] == "out_of_memory" and "batch size of about" not in error["message"]
    assert "grows from step to step" in error["hint"] and "training.batch_size" not in error["hint"]
    assert any(event["data"].get("memory_grows") for event in told if event["kind"] == "progress")
