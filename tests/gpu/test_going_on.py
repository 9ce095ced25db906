"""Checkpoints of a run on a GPU: it goes on where it stood, there or elsewhere, and each holds its own step."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.gpu.runs import (
    CLOSE,
    CLOSE_ADAM,
    DEVICE,
    EXACT,
    SAME,
    apart,
    changed,
    checkpoints,
    make,
    notes,
    own_code,
    started,
    trained,
    weights,
)  # fmt: skip
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import steps_told
from worker.plan import EXIT_PAUSED
from worker.runtime.checkpointer import Checkpointer
from worker.runtime.nested import copied, tensor_bytes
from worker.runtime.rng import restore_rng, rng_state, seed_all

pytestmark = pytest.mark.gpu
PLACE = "        optimizer.zero_grad"
NAP = f"        __import__('time').sleep(0.1)\n{PLACE}"
FORGETFUL = own_code(EXACT, "        numeric = nn.functional.dropout(numeric, 0.2, self.training)")
"""What it learns hangs on each random number."""
TRAINING: dict[str, Any] = {"epochs": 4, "ema": 0.9, "optimizer": "adamw", "learning_rate": 0.002}


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With all that has a state: dropout, moments of the optimizer, an average of the weights."""
    return make(tmp_path_factory.mktemp("forgetful"), samples.wine, own=FORGETFUL, training=TRAINING)


@pytest.fixture(scope="module")
def adam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without chance, which no two kinds of device have in common."""
    return make(tmp_path_factory.mktemp("adam"), samples.wine, own=EXACT, training=TRAINING)


def test_random_states_come_back(device: torch.device, tmp_path: Path) -> None:
    seed_all(7)
    torch.rand(5, device=device)
    torch.save(rng_state(device), tmp_path / "state.pt")
    expected = torch.rand(9, device=device), torch.rand(9)
    torch.rand(50, device=device)
    restore_rng(torch.load(tmp_path / "state.pt", weights_only=True, mmap=True), device)
    assert torch.equal(torch.rand(9, device=device), expected[0])
    assert torch.equal(torch.rand(9), expected[1])


def test_a_run_that_was_paused_learns_what_an_unbroken_one_learns(forgetful: Path, tmp_path: Path) -> None:
    unbroken = trained(forgetful, tmp_path / "unbroken")
    slow = changed(forgetful, tmp_path / "slow", PLACE, NAP)
    work, requests = tmp_path / "work", tmp_path / "requests"
    requests.mkdir()
    ranks = started(slow, work, DLH_REQUESTS=str(requests))
    ranks.until(lambda: steps_told(work) > 3)
    (requests / "pause").touch()
    assert ranks.wait() == [EXIT_PAUSED], ranks.log()
    stood = checkpoints(work)[-1]["position"]
    assert 0 < stood["step"] < checkpoints(unbroken)[-1]["position"]["step"]
    (requests / "pause").unlink()
    trained(forgetful, work, DLH_REQUESTS=str(requests))
    assert apart(weights(work), weights(unbroken)) < SAME
    left, right = (checkpoints(folder)[-1] for folder in (work, unbroken))
    assert apart_in(left["parts"]["optimizer"]["state"], right["parts"]["optimizer"]["state"]) < SAME
    ours, theirs = (states(state["ranks"][0]) for state in (left, right))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert ("cuda" in ours) == DEVICE.startswith("cuda")


def states(rank: dict[str, Any]) -> dict[str, Tensor]:
    """Those of torch's generators."""
    return {name: value for name, value in rank.items() if isinstance(value, Tensor)}


def apart_in(left: dict[int, dict[str, Tensor]], right: dict[int, dict[str, Tensor]]) -> float:
    """The same of an optimizer's state."""
    return max(apart(left[number], right[number]) for number in right)


def test_a_run_that_was_killed_learns_what_an_unbroken_one_learns(forgetful: Path, tmp_path: Path) -> None:
    slow = changed(forgetful, tmp_path / "slow", PLACE, NAP)
    ranks = started(slow, tmp_path / "work")
    ranks.until(lambda: list((tmp_path / "work" / "checkpoints").glob("step-*/MANIFEST.json")))
    ranks.kill()
    trained(forgetful, tmp_path / "work")
    assert "Continuing from checkpoint" in notes(tmp_path / "work")
    assert apart(weights(tmp_path / "work"), weights(trained(forgetful, tmp_path / "unbroken"))) < SAME


@pytest.mark.parametrize(
    ("places", "optimizer"),
    [((DEVICE, "cpu"), "adamw"), (("cpu", DEVICE), "adamw"), ((DEVICE, "cpu"), "sgd"), (("cpu", DEVICE), "sgd")],
    ids=["away", "here", "away with momentum", "here with momentum"],
)
def test_a_run_goes_on_on_another_kind_of_device(
    places: tuple[str, str], optimizer: str, adam: Path, exact: Path, tmp_path: Path
) -> None:
    program, work = adam if optimizer == "adamw" else exact, tmp_path / "work"
    trained(program, work, "--epochs", "1", on=places[0])
    trained(program, work, "--epochs", "3", on=places[1])
    assert "Continuing from checkpoint" in notes(work)
    whole = trained(program, tmp_path / "whole", "--epochs", "3", on="cpu")
    assert apart(weights(work), weights(whole)) < (CLOSE_ADAM if optimizer == "adamw" else CLOSE)


def test_nothing_in_a_checkpoint_needs_a_gpu(adam: Path, tmp_path: Path) -> None:
    state = checkpoints(trained(adam, tmp_path / "work"))[-1]

    def places(value: Any) -> set[str]:
        if isinstance(value, Tensor):
            return {value.device.type}
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        return set().union(*map(places, items))

    assert places(state) == {"cpu"}


def test_each_checkpoint_holds_the_values_of_its_own_step(adam: Path, tmp_path: Path) -> None:
    long = checkpoints(trained(adam, tmp_path / "long"))
    short = checkpoints(trained(adam, tmp_path / "short", "--epochs", "1"))[-1]
    (same,) = [state for state in long if state["position"]["step"] == short["position"]["step"]]
    assert long[-1]["position"]["step"] > short["position"]["step"]
    for name in ("net", "ema"):
        left, right = ({**state["parts"][name].get("net", state["parts"][name])} for state in (same, short))
        assert apart(left, right) < SAME


@pytest.fixture
def checkpointer(device: torch.device, tmp_path: Path) -> Checkpointer:
    """That of a run alone, at its third step."""
    run = SimpleNamespace(
        spec={}, rank=0, group=None, metric_name="accuracy", device=device,
        settings=SimpleNamespace(work=tmp_path, token=0, memory_bytes=None),
        reporter=SimpleNamespace(emit=lambda *_, **__: None),
        teller=SimpleNamespace(
            steps_per_epoch=3, epochs_at=lambda step: step / 3, phase="training", progress=lambda _: None
        ),
        position=SimpleNamespace(step=3, is_best=False),
    )  # fmt: skip
    return Checkpointer(cast(Any, run))


def test_what_is_written_beside_the_training_is_not_touched_by_it(
    checkpointer: Checkpointer, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, real = threading.Event(), checkpointer.store.save

    def late(*arguments: Any, **named: Any) -> Any:
        assert moved.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(checkpointer.store, "save", late)
    weight = torch.full((1 << 20,), 3.0, device=device)
    flipped = torch.arange(16.0, device=device).reshape(2, 8).T
    checkpointer.save(0.5, state={"parts": {"net": {"weight": weight, "flipped": flipped}}})
    for _ in range(20):
        weight.mul_(1.5)
    flipped.zero_()
    moved.set()
    checkpointer.settle()
    held = checkpointer.store.load("step-00000003")["parts"]["net"]
    assert torch.equal(held["weight"], torch.full((1 << 20,), 3.0))
    assert torch.equal(held["flipped"], torch.arange(16.0).reshape(2, 8).T)


def test_a_state_without_room_for_a_copy_is_written_from_the_gpu(
    checkpointer: Checkpointer, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.runtime.checkpointer.COPY_SHARE", 0.0)
    weight = torch.arange(1000.0, device=device)
    checkpointer.save(0.5, state={"parts": {"net": {"weight": weight}}})
    assert torch.equal(checkpointer.store.load("step-00000003")["parts"]["net"]["weight"], torch.arange(1000.0))


def test_a_copy_is_of_what_the_gpu_was_told_to_compute_before(device: torch.device) -> None:
    net = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512)).to(device)
    with torch.no_grad():
        for _ in range(50):
            for weight in net.parameters():
                weight.add_(1.0)
        state = copied(net.state_dict())
        for weight in net.parameters():
            weight.zero_()
    assert all(float(tensor.min()) > 49.0 and tensor.device.type == "cpu" for tensor in state.values())
    assert tensor_bytes(state) == tensor_bytes(net.state_dict())
