"""An interrupted and resumed run ends with the same bits as one that was left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events, steps_told
from worker.plan import EXIT_PAUSED

pytestmark = pytest.mark.ranks
EPOCHS = 5
NAP_S = 0.1


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with everything that has a state: dropout, batch statistics, random changes, running average."""
    folder = tmp_path_factory.mktemp("resume")
    profile = samples.digits(folder / "data", rows=700)
    training = {"epochs": EPOCHS, "batch_size": 16, "augment": "shift", "ema": 0.99, "patience": 0}
    model = {"family": "cnn", "params": {"conv_layers": 2, "filters": 8, "dropout": 0.3}}
    return samples.program(folder, profile, model=model, training=training, checkpoints={"every_minutes": 0.003})


@pytest.fixture(scope="module")
def slow(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same program with a nap in each step: it cannot end before it is interrupted, however slow the test is."""
    folder = tmp_path_factory.mktemp("slow") / "program"
    shutil.copytree(program, folder, ignore=shutil.ignore_patterns("work", "undisturbed-*"))
    train = (folder / "train.py").read_text()
    place = "        optimizer.zero_grad"
    assert train.count(place) == 1
    (folder / "train.py").write_text(train.replace(place, f"        __import__('time').sleep({NAP_S})\n{place}"))
    return folder


@pytest.fixture(scope="module", params=[1, 2], ids=["one_rank", "two_ranks"])
def size(request: pytest.FixtureRequest) -> int:
    """Number of ranks."""
    return int(request.param)


@pytest.fixture(scope="module")
def undisturbed(program: Path, size: int) -> Path:
    """Work folder of a run that nothing interrupted."""
    work = program / f"undisturbed-{size}"
    ranks = Ranks(program, size, DLH_WORK=str(work))
    assert ranks.wait() == [0] * size, ranks.log()
    return work


def final_state(work: Path) -> dict:
    """State of the newest checkpoint."""
    return torch.load(sorted((work / "checkpoints").glob("step-*"))[-1] / "state.pt", weights_only=True)


def assert_same(left: object, right: object, where: str = "") -> None:
    """Nested values are equal, tensors to the last bit."""
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right), where
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            if key != "elapsed_s":
                assert_same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list | tuple):
        for number, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{where}[{number}]")
    else:
        assert left == right, where


def assert_same_end(left: Path, right: Path) -> None:
    """Both runs hold the same weights, optimizer, average, counters and random states."""
    assert_same(final_state(left), final_state(right))
    weights = [(work / "results" / "model.safetensors").read_bytes() for work in (left, right)]
    assert weights[0] == weights[1]


def test_a_run_paused_in_the_middle_of_an_epoch_ends_with_the_same_bits(
    program: Path, slow: Path, size: int, undisturbed: Path, tmp_path: Path
) -> None:
    work, requests = tmp_path / "work", tmp_path / "requests"
    requests.mkdir()
    surroundings = {"DLH_WORK": str(work), "DLH_REQUESTS": str(requests)}
    ranks = Ranks(slow, size, **surroundings)
    ranks.until(lambda: steps_told(work) > 3)
    (requests / "pause").touch()
    assert ranks.wait() == [EXIT_PAUSED] * size, ranks.log()
    position = final_state(work)["position"]
    assert 0 < position["step"] < final_state(undisturbed)["position"]["step"]
    (requests / "pause").unlink()

    again = Ranks(program, size, **surroundings)
    assert again.wait() == [0] * size, again.log()
    assert_same_end(undisturbed, work)


def test_a_killed_run_ends_with_the_same_bits(
    program: Path, slow: Path, size: int, undisturbed: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    ranks = Ranks(slow, size, DLH_WORK=str(work))
    ranks.until(lambda: any(event["kind"] == "checkpoint" for event in events(work)))
    ranks.kill()
    assert final_state(work)["position"]["step"] < final_state(undisturbed)["position"]["step"]

    again = Ranks(program, size, DLH_WORK=str(work))
    assert again.wait() == [0] * size, again.log()
    assert any("Continuing from checkpoint" in event["data"].get("message", "") for event in events(work))
    assert_same_end(undisturbed, work)


def test_the_curve_of_a_resumed_run_has_the_same_points(
    program: Path, slow: Path, size: int, undisturbed: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    ranks = Ranks(slow, size, DLH_WORK=str(work))
    ranks.until(lambda: any(event["kind"] == "checkpoint" for event in events(work)))
    ranks.kill()
    assert Ranks(program, size, DLH_WORK=str(work)).wait() == [0] * size

    def curve(folder: Path) -> dict[tuple[str, int], float]:
        told = (event["data"] for event in events(folder) if event["kind"] == "metric")
        return {
            (name, data["step"]): value
            for data in told
            for name, value in data["values"].items()
            if not name.startswith("rank")  # how fast and how idle each rank was: another run, other figures
        }

    assert curve(work) == curve(undisturbed)
