"""Stages of a model learn what one process learns, on every family; checkpoints move; pause and go on to the bit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events, rank_environments
from tests.worker.runtime.test_resume import assert_same, final_state
from worker.plan import EXIT_PAUSED, EXIT_PEER_LOST, EXIT_REPORTED
from worker.runtime.failures import ProgramFailure
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.stage import least_rows, micro_rows
from worker.stages import cut

pytestmark = pytest.mark.ranks
FURTHEST = 1e-5
"""Of a weight after 4 steps of SGD with momentum, relative to the largest of its tensor: sums in another order."""


@pytest.fixture(scope="module")
def families() -> list[dict[str, Any]]:
    """All families of the catalog, each trained by one process and by two stages."""
    command = [sys.executable, "-m", "tests.worker.runtime.pipeline_families"]
    ranks = [
        subprocess.Popen(
            command, cwd=samples.PROJECT, env=samples.BARE | environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for environment in rank_environments(2, "torch")
    ]  # fmt: skip
    said = [rank.communicate(timeout=400) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], [errors[-3000:] for _, errors in said]
    found: list[dict[str, Any]] = json.loads(said[0][0].splitlines()[-1])
    return found


def test_every_family_learns_in_two_stages_what_one_process_learns(families: list[dict[str, Any]]) -> None:
    assert {case["family"] for case in families} == {"mlp", "resmlp", "ft_transformer", "cnn", "resnet", "convnext"}
    for case in families:
        assert case["same_names"], case
        assert case["moments"] == case["weights"], case
        assert case["apart"] < FURTHEST, case


def test_each_rank_holds_its_share_of_the_weights(families: list[dict[str, Any]]) -> None:
    for case in families:
        assert sum(case["counts"]) == case["total"] and min(case["counts"]) > 0, case


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, AdamW with warm-up, clipping, a running average; no dropout, so that modes can be compared."""
    folder = tmp_path_factory.mktemp("pipeline")
    training = {"epochs": 3, "batch_size": 37, "patience": 0, "ema": 0.9, "clip_norm": 0.5, "learning_rate": 0.002}
    training["class_weights"] = "balanced"
    model = {"family": "resmlp", "size": "small", "params": {"dropout": 0.0, "blocks": 3, "width": 32}}
    checkpoints = {"every_epochs": 1, "keep": 9}
    wine = samples.wine(folder / "data")
    samples.program(folder, wine, model=model, training=training, checkpoints=checkpoints)
    return samples.staged(folder, micro_batches=4)


def run(
    program: Path, size: int, work: Path, *arguments: str, own: Sequence[dict[str, str]] = (), **environment: str
) -> Ranks:
    """Train to the end."""
    ranks = Ranks(program, size, backend="torch", arguments=arguments, own=own, DLH_WORK=str(work), **environment)
    assert ranks.wait() == [0] * size, "\n".join(ranks.log(rank) for rank in range(size))
    return ranks


@pytest.fixture(scope="module")
def alone(program: Path) -> Path:
    """Work folder of one process."""
    run(program, 1, program / "alone")
    return program / "alone"


@pytest.fixture(scope="module")
def three(program: Path) -> Path:
    """Work folder of three stages."""
    ranks = run(program, 3, program / "three")
    assert ranks.log().count("stage 2 of 3") == 1
    return program / "three"


def assert_close(left: Path, right: Path, tolerance: float = 2e-4) -> None:
    """Results of two runs: weights, metrics."""
    first, second = (load_file(work / "results" / "model.safetensors") for work in (left, right))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=tolerance, atol=tolerance)
    told = [json.loads((work / "results" / "results.json").read_text()) for work in (left, right)]
    assert told[0]["timing"]["parameters"] == told[1]["timing"]["parameters"]
    for part, values in told[0]["metrics"].items():
        assert values["loss"] == pytest.approx(told[1]["metrics"][part]["loss"], rel=1e-3)


def test_a_program_in_three_stages_ends_with_the_results_of_one_process(alone: Path, three: Path) -> None:
    assert_close(alone, three)
    losses = [
        [event["data"]["values"]["train/loss"] for event in events(work)
         if event["kind"] == "metric" and "train/loss" in event["data"]["values"]]
        for work in (alone, three)
    ]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_checkpoints_move_between_one_process_and_any_number_of_stages(
    program: Path, alone: Path, three: Path, tmp_path: Path
) -> None:
    first = sorted((three / "checkpoints").glob("step-*"))[0]
    for source, size in ((three, 1), (alone, 2)):
        work = tmp_path / f"{source.name}-{size}"
        shutil.copytree(source / "checkpoints" / first.name, work / "checkpoints" / first.name)
        ranks = run(program, size, work)
        assert "Continuing from checkpoint" in ranks.log()
        assert_close(alone, work)


def test_two_pipelines_of_two_stages_learn_what_one_process_learns(program: Path, alone: Path, tmp_path: Path) -> None:
    several = tmp_path / "program"
    shutil.copytree(program, several, ignore=shutil.ignore_patterns("alone", "three", "work"))
    samples.staged(several, "pipeline+sync", micro_batches=3)
    run(several, 4, tmp_path / "work")
    assert_close(alone, tmp_path / "work")


@pytest.fixture(scope="module")
def moody(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with everything that has a state, recomputed: dropout, batch statistics, random changes, an average."""
    folder = tmp_path_factory.mktemp("moody")
    profile = samples.digits(folder / "data", rows=300)
    training = {"epochs": 2, "batch_size": 16, "augment": "shift", "ema": 0.99, "patience": 0}
    model = {"family": "cnn", "params": {"conv_layers": 2, "filters": 8, "dropout": 0.3}}
    samples.program(folder, profile, model=model, training=training)
    return samples.staged(folder, micro_batches=2, recompute=True)


def test_a_paused_pipeline_goes_on_to_the_same_bits(moody: Path, tmp_path: Path) -> None:
    run(moody, 2, moody / "undisturbed")
    work = tmp_path / "work"
    work.mkdir()
    shutil.copy(moody / "undisturbed" / "pipeline.json", work)  # another cut would draw other random numbers
    requests = tmp_path / "requests"
    requests.mkdir()
    (requests / "pause").touch()
    ranks = Ranks(moody, 2, backend="torch", DLH_WORK=str(work), DLH_REQUESTS=str(requests))
    assert ranks.wait() == [EXIT_PAUSED, EXIT_PAUSED], ranks.log()
    run(moody, 2, work)
    left, right = final_state(moody / "undisturbed"), final_state(work)
    assert left["position"]["step"] == right["position"]["step"] > 20
    for part in ("parts", "ranks"):
        assert_same(left[part], right[part], part)


def test_a_stage_that_fails_is_blamed_and_the_other_only_lost_its_peer(program: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "program"
    shutil.copytree(program, spoiled, ignore=shutil.ignore_patterns("alone", "three", "work"))
    model = (spoiled / "model.py").read_text()
    place = "        return x + self.layers(x)"
    assert model.count(place) == 1
    own = '        if self.training and __import__("os").environ["RANK"] == "1":\n'
    own += '            raise ValueError("here")\n'
    (spoiled / "model.py").write_text(model.replace(place, own + place))
    ranks = Ranks(spoiled, 3, backend="torch", DLH_WORK=str(tmp_path / "work"))
    codes = ranks.wait()
    assert codes[1] == EXIT_REPORTED and {codes[0], codes[2]} == {EXIT_PEER_LOST}, ranks.log()
    (error,) = [event["data"] for event in events(tmp_path / "work", 1) if event["kind"] == "error"]
    assert error["message"].endswith("ValueError: here") and error["file"] == "model.py"


# ---- cutting -----------------------------------------------------------------------------------------------------
class Looping(nn.Module):
    """Residual blocks in a loop, with the way around written into forward."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.stem(numeric)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.head(x)


class Tied(nn.Module):
    """The first and the last layer share their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.last(self.middle(self.first(x)))


class Deciding(nn.Module):
    """Looks at values."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.second(self.first(x)) if x.sum() > 0 else self.first(x)


class Switching(Deciding):
    """Looks at its mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.second(nn.functional.dropout(self.first(x), 0.5, self.training))


class Unused(Deciding):
    """Has a layer that it never calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.first(x)


def test_residual_blocks_of_a_loop_are_pieces_and_stages_give_what_the_model_gives() -> None:
    net = Looping()
    inputs = torch.randn(5, 4), torch.zeros(5, 0, dtype=torch.int64)
    chain = Chain(net, inputs)
    assert len(chain.pieces) == 5
    for end in range(1, 5):
        first, second = chain.stage(0, end), chain.stage(end, 5)
        torch.testing.assert_close(second(first(*inputs)), net(*inputs))
        names = [*first.state_dict(), *second.state_dict()]
        assert sorted(names) == sorted(net.state_dict())


def test_stages_of_equal_layers_hold_equal_shares_of_the_weights() -> None:
    net = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(6, 6), nn.Tanh())))
    chain = Chain(net, (torch.randn(3, 6),))
    ends = cut([[1.0] * len(chain.pieces)] * 4)
    assert ends is not None
    counts = [
        sum(weight.numel() for weight in chain.stage(first, end).parameters())
        for first, end in zip((0, *ends[:-1]), ends, strict=True)
    ]
    assert counts == [sum(weight.numel() for weight in net.parameters()) // 4] * 4


def test_a_stage_is_named_by_its_first_and_its_last_layer_however_many_pieces_it_has() -> None:
    chain = Chain(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)), (torch.randn(3, 6),))
    assert [piece.name for piece in chain.pieces] == ["0", "1 to 2"]
    assert [chain.stage_name(0, 1), chain.stage_name(1, 2), chain.stage_name(0, 2)] == ["0", "1 to 2", "0 to 2"]


def test_shared_weights_stay_on_one_stage() -> None:
    assert len(Chain(Tied(), (torch.randn(3, 4),)).pieces) == 1


@pytest.mark.parametrize(
    ("net", "words"), [(Deciding(), "outlined"), (Switching(), "self.training"), (Unused(), "never uses second")]
)
def test_a_model_that_is_no_chain_is_refused_with_the_reason(net: nn.Module, words: str) -> None:
    with pytest.raises(ProgramFailure, match="cannot be cut into stages") as error:
        Chain(net, (torch.randn(3, 4),))
    assert words in error.value.message


def test_a_short_batch_leaves_batch_normalisation_two_rows_at_once() -> None:
    normalised = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4))
    assert (least_rows(normalised), least_rows(normalised[0])) == (2, 1)
    assert micro_rows(32, 16, 2) == (2, 16)
    assert micro_rows(16, 16, 2) == (2, 8)  # half of the others: the last batch of an epoch
    assert micro_rows(16, 16, 1) == (1, 16)
    assert micro_rows(22, 4, 2) == (6, 4)
    assert micro_rows(1, 4, 2) == (1, 1)


def test_recomputing_moves_batch_statistics_once() -> None:
    from worker.runtime.pipeline.stage import counted_once  # loads the compiler: every test process reads this file

    norm = nn.BatchNorm1d(3)
    rows = torch.randn(6, 3)
    norm(rows)
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    with counted_once(norm):
        norm(rows * 5)
    assert_same(before, dict(norm.state_dict()))
    assert norm.momentum == 0.1
