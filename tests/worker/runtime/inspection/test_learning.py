"""Layers that cannot learn, and outputs that no row changes, are told before a run; what learns is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.worker.runtime import samples
from tests.worker.runtime.pipeline_families import models
from tests.worker.runtime.spoiled import check_of, edit
from worker.runtime.inspection.learning import gradients_watch, learning_of

ROWS = 16


class Net(nn.Module):
    """A body and a head, with something between that may spoil it."""

    def __init__(self, *tail: nn.Module) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Sequential(nn.Tanh(), nn.Linear(8, 1), *tail)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


class WithSpare(Net):
    """Has layers that forward does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.twin = nn.ModuleList([nn.Linear(4, 4), self.head[1]])


class Times(nn.Module):
    """A factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class HalfDead(Net):
    """The body's part of the output is multiplied by 0."""

    def __init__(self) -> None:
        super().__init__()
        self.short = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 0 + self.short(x)


def notes_of(net: nn.Module, *, seen: frozenset[str] = frozenset()) -> list[str]:
    """What is told of a net that predicts a number from four."""
    torch.manual_seed(3)
    x, y = torch.randn(ROWS, 4), torch.randn(ROWS)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs.squeeze(1), targets)

    net.train()
    loss(net(x), y).backward()
    return list(learning_of(net, (x,), y, loss).notes(seen))


def test_a_net_that_learns_is_told_nothing_of() -> None:
    assert notes_of(Net()) == []


def test_a_last_layer_that_starts_with_zeros_is_no_fault() -> None:
    net = Net()
    nn.init.zeros_(net.head[1].weight)
    nn.init.zeros_(net.head[1].bias)
    assert notes_of(net) == []


def test_frozen_parameters_are_no_fault() -> None:
    net = Net()
    net.body.requires_grad_(False)
    assert notes_of(net) == []
    spare = WithSpare()
    spare.spare.requires_grad_(False)
    spare.twin[0].requires_grad_(False)
    assert notes_of(spare) == []


@pytest.mark.parametrize("tail", [nn.Softmax(1), nn.Sequential(Times(0.0))], ids=["softmax", "times nothing"])
def test_outputs_that_no_row_changes_are_told_with_the_layer_that_makes_them_alike(tail: nn.Module) -> None:
    (note,) = notes_of(Net(tail))
    place = "`model.head.2.0`" if isinstance(tail, nn.Sequential) else "`model.head.2`"
    assert note.startswith("The outputs do not depend on the rows: all 16 that were tried gave the same.")
    assert f"{place} gives the same whatever comes in" in note


def test_layers_that_forward_does_not_call_are_told_by_the_outermost_name() -> None:
    (note,) = notes_of(WithSpare())
    assert note.startswith("`model.spare` and `model.twin.0` get no gradient")


def test_what_gets_a_gradient_in_train_py_alone_is_not_told() -> None:
    net, seen = WithSpare(), set[str]()
    gradients_watch(net, seen)
    (net.spare(torch.ones(2, 4)).sum() + net.twin[0](torch.ones(2, 4)).sum()).backward()
    assert {name.partition(".")[0] for name in seen} == {"spare", "twin"}
    assert notes_of(net, seen=frozenset(seen)) == []


def test_gradients_of_nothing_but_zeros_are_told() -> None:
    (note,) = notes_of(HalfDead())
    assert note.startswith("`model.body` and `model.head` get a gradient of exactly 0 for the 16 rows")


def test_a_net_that_bears_no_other_parameters_than_its_own_is_told_nothing_of() -> None:
    class Picky(WithSpare):
        def forward(self, x: Tensor) -> Tensor:
            if not torch.equal(self.head[1].bias, torch.zeros(1)):
                raise ValueError("my bias must be 0")
            return super().forward(x)

    net = Picky()
    nn.init.zeros_(net.head[1].bias)
    assert notes_of(net) == []


def test_no_family_of_the_catalog_is_told_of() -> None:
    told = {}
    for name, net, batches in models():
        inputs, targets = batches[0]
        net.train()
        F.cross_entropy(net(*inputs), targets).backward()
        told[name] = list(learning_of(net, inputs, targets, F.cross_entropy).notes(frozenset()))
    assert len(told) >= 6 and not any(told.values()), told


def test_a_check_tells_of_a_softmax_over_one_output_and_of_layers_without_a_use(tmp_path: Path) -> None:
    folder: Any = samples.program(tmp_path / "one", samples.diabetes(tmp_path / "one" / "data"))
    assert check_of(folder)["notes"] == []
    spoiled = Path(shutil.copytree(folder, tmp_path / "two"))
    softmax = samples.EXACT_NET.replace("nn.Linear(16, outputs))", "nn.Linear(16, outputs), nn.Softmax(1))\n{}")
    spare = softmax.format("        self.spare = nn.Linear(3, 3)")
    edit(spoiled, "model.py", lambda text: spare)
    answer = check_of(spoiled)
    assert answer["ok"] and len(answer["notes"]) == 2
    assert answer["notes"][0].startswith("`model.spare` gets no gradient")
    assert "`model.layers.3` gives the same whatever comes in" in answer["notes"][1]
