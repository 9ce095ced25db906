"""Stages on unlike devices: real ranks, one of them declared slower, are cut for the devices that run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.worker.runtime import samples
from tests.worker.runtime.pipeline.test_stage import assert_close, run
from tests.worker.runtime.ranks import Ranks, events
from tests.worker.runtime.test_resume import assert_same
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import piece_s

pytestmark = pytest.mark.ranks
LAYERS = 8
FACTOR = 40.0
"""So much slower that no load of this machine can hide it: one layer there is more than all the others together."""
NET = f"""\
from torch import nn
class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.stem, self.head = nn.Linear(features, 64), nn.Linear(64, outputs)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range({LAYERS}))
    def forward(self, numeric, categorical):
        rows = self.stem(numeric)
        for layer in self.layers:
            rows = rows + layer(rows).tanh()
        return self.head(rows)
def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten pieces; four micro-batches."""
    folder = tmp_path_factory.mktemp("unlike")
    training = {"epochs": 2, "batch_size": 37, "patience": 0, "optimizer": "sgd", "learning_rate": 0.02}
    samples.program(folder, samples.wine(folder / "data"), own_model=NET, training=training)
    return samples.staged(folder, micro_batches=4)


def ends(work: Path) -> list[int]:
    """Where the model was cut."""
    plan: dict[str, Any] = json.loads((work / "pipeline.json").read_text())["plan"]
    return list(plan["ends"])


@pytest.mark.parametrize("slow", [0, 1])
def test_the_slower_device_gets_one_piece_and_the_run_learns_what_one_process_learns(
    program: Path, tmp_path: Path, slow: int
) -> None:
    pieces = LAYERS + 2
    own: list[dict[str, str]] = [{}, {}]
    own[slow] = {"DLH_SLOWDOWN": str(FACTOR)}
    ranks = run(program, 2, tmp_path / "slow", own=own)
    assert ends(tmp_path / "slow") == [1 if slow == 0 else pieces - 1, pieces]
    assert "stages on unlike devices take" in ranks.log()
    run(program, 1, tmp_path / "alone")
    assert_close(tmp_path / "alone", tmp_path / "slow")


def test_a_run_that_goes_on_is_cut_as_it_was_until_its_devices_are_others(program: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    run(program, 2, work, own=[{}, {"DLH_SLOWDOWN": str(FACTOR)}])
    kept = (work / "pipeline.json").read_bytes()
    run(program, 2, work, "--epochs", "3", own=[{}, {"DLH_SLOWDOWN": str(FACTOR)}])
    assert (work / "pipeline.json").read_bytes() == kept
    run(program, 2, work, "--epochs", "4")
    assert ends(work)[0] < LAYERS + 1, "alike now"


def cut_for(work: Path, needed: list[float], before: list[float]) -> None:
    """The run was on devices where its stages took, and had, so many bytes."""
    file = work / "pipeline.json"
    body = json.loads(file.read_text())
    body["plan"]["stage_bytes"], body["rooms"] = needed, before
    file.write_text(json.dumps(body))


def test_a_run_that_goes_on_with_less_memory_is_cut_anew_or_told_what_it_lacks(program: Path, tmp_path: Path) -> None:
    work, huge = tmp_path / "work", 1e15
    run(program, 2, work)
    cut_for(work, [huge, huge], [2 * huge, 2 * huge])
    ranks = run(program, 2, work, "--epochs", "3")
    assert "stage 1 took about" in ranks.log() and "cut anew" in ranks.log()
    assert max(json.loads((work / "pipeline.json").read_text())["plan"]["stage_bytes"]) < huge
    cut_for(work, [huge, huge], [2 * huge, 2 * huge])
    kept = (work / "pipeline.json").read_bytes()
    poor = Ranks(program, 2, backend="torch", arguments=("--epochs", "4"), DLH_WORK=str(work), DLH_MEMORY_BYTES="1")
    assert 0 not in poor.wait()
    told = [event["data"] for event in events(work, 0) if event["kind"] == "error"]
    assert told[-1]["code"] == "out_of_memory" and "less memory than it had" in told[-1]["message"]
    assert "resources.memory_gib" in told[-1]["hint"]
    assert (work / "pipeline.json").read_bytes() == kept


@pytest.mark.parametrize("number", [0, 2])
def test_timing_a_piece_leaves_the_model_and_chance_as_they_were(number: int) -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 6), nn.Linear(6, 2))
    inputs = (torch.randn(5, 4),)
    chain = Chain(net, inputs)
    before, chance = {name: tensor.clone() for name, tensor in net.state_dict().items()}, torch.get_rng_state()
    assert piece_s(chain, number, inputs, 32, torch.device("cpu")) > 0.0
    assert_same(before, dict(net.state_dict()))
    assert torch.equal(chance, torch.get_rng_state())
    assert all(weight.grad is None for weight in net.parameters())
