"""At which weights of a generated program weight decay pulls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import pack_table, program
from worker.runtime.inspection.standin import drive
from worker.runtime.inspection.trace import Enough, TraceRun
from worker.runtime.spec import load_spec


class Stopped(TraceRun):
    """Lets train.py go as far as its optimizer."""

    optimizer: Any = None

    def restore(self, *, optimizer: Any, **_others: Any) -> None:
        self.optimizer = optimizer
        raise Enough


def decayed(folder: Path, data: Path, work: Path) -> dict[str, float]:
    """Decay of each weight by its name."""
    run = Stopped(load_spec(folder / "spec.yaml"), data, work, None, DLH_DEVICE="cpu")
    try:
        drive(folder, run)
    finally:
        run.close()
    rates = {id(weight): group["weight_decay"] for group in run.optimizer.param_groups for weight in group["params"]}
    assert run.net is not None and sum(len(group["params"]) for group in run.optimizer.param_groups) == len(rates)
    return {name: rates[id(weight)] for name, weight in run.net.named_parameters()}


def pulled_at(folder: Path, data: Path, work: Path) -> set[str]:
    rates = apart(decayed, folder, data, work)
    assert set(rates.values()) == {0.0, 0.25}
    return {name for name, rate in rates.items() if rate}


def table(folder: Path) -> Any:
    draw = np.random.default_rng(0)
    names = ["abc"[number] for number in draw.integers(0, 3, 240)]
    columns = {"x": draw.normal(size=240), "y": draw.normal(size=240), "kind": names, "good": [*"ny" * 120]}
    return pack_table(folder, columns, "good")


@pytest.mark.parametrize("family", ["mlp", "resmlp", "ft_transformer"])
def test_weight_decay_leaves_biases_norms_and_what_stands_for_values_alone(family: str, tmp_path: Path) -> None:
    profile = table(tmp_path / "data")
    folder = program(tmp_path / "program", profile, model={"family": family}, training={"weight_decay": 0.25})
    found = pulled_at(folder, tmp_path / "data", tmp_path)
    spared = ("embeddings", "tokens", "frequency", "norm", "bias")
    assert found and all(name.endswith(".weight") for name in found)
    assert not [name for name in found if any(part in name for part in spared)]
    assert ("numbers.weight" in found) == (family == "resmlp")  # mixes the waves of one number: as a linear layer does


def test_weight_decay_spares_the_embeddings_of_an_own_model_whatever_their_name(tmp_path: Path) -> None:
    profile = table(tmp_path / "data")
    source = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lookup = nn.Embedding(4, 3)
        self.mix = nn.Parameter(torch.ones(3, 2))
        self.out = nn.Linear(2, 2)

    def forward(self, numeric, categorical):
        return self.out(self.lookup(categorical[:, 0]) @ self.mix)


def build(spec):
    return Net()
"""
    folder = program(tmp_path / "program", profile, own_model=source, training={"weight_decay": 0.25})
    assert pulled_at(folder, tmp_path / "data", tmp_path) == {"mix", "out.weight"}


def test_weight_decay_goes_by_the_layers_of_an_own_model_and_not_by_what_the_catalog_calls_its_own(
    tmp_path: Path,
) -> None:
    profile = table(tmp_path / "data")
    source = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(2, 6), nn.Linear(6, 6))
        self.frequency = nn.Linear(6, 6)
        self.bias = nn.Linear(6, 6)
        self.bag = nn.EmbeddingBag(4, 6)
        self.norm = nn.LayerNorm((2, 3))
        self.scale = nn.RMSNorm((2, 3))
        self.plain = nn.LayerNorm((2, 3), elementwise_affine=False)
        self.out = nn.Linear(6, 2)

    def forward(self, numeric, categorical):
        x = self.bias(self.frequency(self.tokens(numeric))) + self.bag(categorical[:, :1])
        return self.out(self.plain(self.scale(self.norm(x.view(-1, 2, 3)))).flatten(1))


def build(spec):
    return Net()
"""
    folder = program(tmp_path / "program", profile, own_model=source, training={"weight_decay": 0.25})
    matrices = {"tokens.0", "tokens.1", "frequency", "bias", "out"}
    assert pulled_at(folder, tmp_path / "data", tmp_path) == {f"{name}.weight" for name in matrices}
