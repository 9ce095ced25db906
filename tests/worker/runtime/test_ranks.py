"""Two ranks train the model that one process trains, by Horovod and by its twin; faults of one rank end both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import EXIT_PEER_LOST, EXIT_REPORTED

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without chance or batch statistics: ranks must not change what it learns. 37 does not divide."""
    folder = tmp_path_factory.mktemp("ranks")
    training = {"epochs": 3, "batch_size": 37, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.05}
    return samples.program(folder, samples.wine(folder / "data"), own_model=samples.EXACT_NET, training=training)


NAP_S, GLOO_LIMIT_S = 9, 5
NORMED_NET = samples.EXACT_NET.replace("nn.Tanh()", "nn.BatchNorm1d(16)")


def weights(work: Path) -> dict[str, torch.Tensor]:
    """Final weights of a run."""
    return load_file(work / "results" / "model.safetensors")


@pytest.fixture(scope="module")
def alone(program: Path) -> dict[str, torch.Tensor]:
    """What one process learns."""
    ranks = Ranks(program, 1, DLH_WORK=str(program / "alone"))
    assert ranks.wait() == [0], ranks.log()
    return weights(program / "alone")


@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_ranks_meet_however_much_longer_one_of_them_reads_its_data(program: Path, backend: str, tmp_path: Path) -> None:
    slow = tmp_path / "program"
    shutil.copytree(program, slow, ignore=shutil.ignore_patterns("work", "alone"))
    train, place = (slow / "train.py").read_text(), "dataset = data.load("
    assert train.count(place) == 1
    nap = f"if run.rank == 1:\n    __import__('time').sleep({NAP_S})\n"
    (slow / "train.py").write_text(train.replace(place, nap + place))
    limits = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_LIMIT_S), "LOCAL_WORLD_SIZE": "1"}  # as if on two nodes
    ranks = Ranks(slow, 2, backend=backend, **limits)
    assert ranks.wait() == [0, 0], ranks.log()


@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_two_ranks_learn_what_one_process_learns(
    program: Path, alone: dict[str, torch.Tensor], backend: str, tmp_path: Path
) -> None:
    ranks = Ranks(program, 2, backend=backend, DLH_WORK=str(tmp_path))
    assert ranks.wait() == [0, 0], ranks.log()
    for name, tensor in weights(tmp_path).items():
        torch.testing.assert_close(tensor, alone[name], rtol=2e-5, atol=2e-6)


def test_weights_that_a_program_trains_only_later_are_averaged_too(
    program: Path, alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    thawing = tmp_path / "program"
    shutil.copytree(program, thawing, ignore=shutil.ignore_patterns("work", "alone"))
    train, place = (thawing / "train.py").read_text(), "net = run.place(net, dataset)\n"
    assert train.count(place) == 1
    freeze = "net.requires_grad_(False)\nlist(net.parameters())[-1].requires_grad_(True)\n"
    words = f"{freeze}{place}net.requires_grad_(True)\n"
    (thawing / "train.py").write_text(train.replace(place, words))
    ranks = Ranks(thawing, 2, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [0, 0], ranks.log()
    for name, tensor in weights(tmp_path / "work").items():
        torch.testing.assert_close(tensor, alone[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("backend", "kind"), [("horovod", "bf16"), ("horovod", "fp16")])
def test_rounded_messages_change_what_is_learnt_by_little(
    program: Path, alone: dict[str, torch.Tensor], backend: str, kind: str, tmp_path: Path
) -> None:
    rounded = tmp_path / "program"
    shutil.copytree(program, rounded, ignore=shutil.ignore_patterns("work", "alone"))
    samples.change_spec(rounded, training={"compression": kind})
    ranks = Ranks(rounded, 2, backend=backend, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [0, 0], ranks.log()
    mine, exact = (
        torch.cat([tensor.flatten() for tensor in some.values()]) for some in (weights(tmp_path / "work"), alone)
    )
    assert 0 < float((mine - exact).norm() / exact.norm()) < 1e-2


def test_two_ranks_of_a_model_with_batch_normalisation_say_whose_rows_it_sees(program: Path, tmp_path: Path) -> None:
    normed = tmp_path / "program"
    shutil.copytree(program, normed, ignore=shutil.ignore_patterns("work", "alone"))
    (normed / "model.py").write_text(NORMED_NET)
    ranks = Ranks(normed, 2, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [0, 0], ranks.log()
    notes = [event["data"]["message"] for event in events(tmp_path / "work", 0) if event["kind"] == "note"]
    assert any("batch normalisation: each of 2 ranks" in note for note in notes), notes
    assert "peak learning rate 0.05, steps of 37 rows over all ranks" in ranks.log()


def test_both_ranks_tell_their_pace_and_the_first_one_the_rest(program: Path, tmp_path: Path) -> None:
    assert Ranks(program, 2, DLH_WORK=str(tmp_path)).wait() == [0, 0]
    for rank in (0, 1):
        told = [event["data"]["values"] for event in events(tmp_path, rank) if event["kind"] == "metric"]
        assert any(f"rank{rank}/samples_per_s" in values for values in told)
    assert told[-1] == {}  # the second rank lives in phases without steps, too
    assert not any("val/accuracy" in event["data"].get("values", {}) for event in events(tmp_path, 1))


def test_a_rank_that_fails_is_blamed_and_the_other_only_lost_its_peer(program: Path, tmp_path: Path) -> None:
    train = (program / "train.py").read_text()
    spoiled = tmp_path / "program"
    spoiled.mkdir()
    for path in program.glob("*.*"):
        (spoiled / path.name).write_bytes(path.read_bytes())
    lines = "        if run.rank == 1 and run.position.step == 5:\n            raise ValueError('only here')\n"
    place = "        optimizer.zero_grad"
    (spoiled / "train.py").write_text(train.replace(place, lines + place))
    ranks = Ranks(spoiled, 2, arguments=("--data", str(program / "data")), DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [EXIT_PEER_LOST, EXIT_REPORTED], ranks.log()
    assert not any(event["kind"] == "error" for event in events(tmp_path / "work", 0))
    (error,) = [event["data"] for event in events(tmp_path / "work", 1) if event["kind"] == "error"]
    assert error["message"].endswith("ValueError: only here")
