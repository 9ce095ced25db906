"""In every mode a run starts from the weights file, and a checkpoint takes its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import START_WEIGHTS

pytestmark = pytest.mark.ranks
STILL = {"epochs": 1, "batch_size": 16, "patience": 0, "optimizer": "sgd", "learning_rate": 1e-12, "weight_decay": 0}
STILL |= {"ema": 0, "accumulate": 1, "label_smoothing": 0}
"""A training that leaves the weights where they were."""
SAID = "Starts from the weights file"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a weights file beside it, of another training."""
    folder = tmp_path_factory.mktemp("start")
    profile = samples.wine(folder / "data")
    model = {"family": "mlp", "params": {"dropout": 0.0, "layers": 4}}
    first = samples.program(folder / "first", profile, model=model, training=STILL | {"learning_rate": 0.05})
    shutil.copytree(folder / "data", first / "data")
    assert samples.run(first, "train.py").returncode == 0
    named = {**model, "weights": "mine"}
    program = samples.program(folder / "program", profile, model=named, training=STILL)
    shutil.copytree(folder / "data", program / "data")
    shutil.copy(first / "work/results/model.safetensors", program / START_WEIGHTS)
    return program


@pytest.mark.parametrize(
    ("mode", "size", "backend"),
    [
        ("single", 1, "horovod"),
        ("replicated", 1, "horovod"),
        ("sync", 2, "horovod"),
        ("sync", 2, "torch"),
        ("async", 2, "torch"),
        ("pipeline", 2, "torch"),
    ],
)
def test_a_run_that_learns_nothing_ends_with_the_weights_of_the_file(
    program: Path, tmp_path: Path, mode: str, size: int, backend: str
) -> None:
    ranks = Ranks(program, size, backend=backend, DLH_WORK=str(tmp_path / "work"), DLH_MODE=mode)
    assert ranks.wait() == [0] * size, ranks.log()
    found = load_file(tmp_path / "work/results/model.safetensors")
    for name, expected in load_file(program / START_WEIGHTS).items():
        assert torch.allclose(found[name].float(), expected.float(), atol=1e-5), name
    notes = [event["data"]["message"] for event in events(tmp_path / "work") if event["kind"] == "note"]
    assert sum(SAID in note for note in notes) == 1


def test_a_run_that_goes_on_from_a_checkpoint_does_so_and_says_nothing_of_the_file(
    program: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    fresh = shutil.copytree(program, tmp_path / "fresh", ignore=shutil.ignore_patterns("work"))
    (fresh / START_WEIGHTS).unlink()
    samples.change_spec(fresh, model={"weights": "auto"})
    assert samples.run(fresh, "train.py", "--work", str(work)).returncode == 0
    ended = load_file(work / "results/model.safetensors")
    told = len(events(work))
    done = samples.run(program, "train.py", "--work", str(work), "--epochs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    again = load_file(work / "results/model.safetensors")
    assert all(torch.allclose(again[name].float(), value.float(), atol=1e-5) for name, value in ended.items())
    assert not any(SAID in str(event["data"]) for event in events(work)[told:])


def test_a_run_whose_checkpoints_are_all_damaged_starts_from_the_file_and_says_so(
    program: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    assert samples.run(program, "train.py", "--work", str(work)).returncode == 0
    for state in work.glob("checkpoints/step-*/state.pt"):
        state.write_bytes(b"damaged")
    told = len(events(work))
    done = samples.run(program, "train.py", "--work", str(work))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(SAID in str(event["data"]) for event in events(work)[told:]) == 1


def test_a_file_is_named_on_the_command_line_as_well(program: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.safetensors"
    save_file({"nothing.weight": torch.ones(3)}, elsewhere)
    done = samples.run(program, "train.py", "--work", str(tmp_path / "work"), "--weights", str(elsewhere))
    assert done.returncode != 0 and "Nothing of the weights file fits the model" in done.stdout + done.stderr
