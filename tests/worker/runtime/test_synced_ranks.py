"""Two real ranks of models with batch normalisation train what one process trains, if their statistics are synced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from tests.worker.runtime.test_ranks import NORMED_NET
from worker.shares import Line, Planned

pytestmark = pytest.mark.ranks
DOUBLE_NET = NORMED_NET.replace("outputs)\n", "outputs).double()\n").replace("(numeric)", "(numeric.double())")
BATCH = 37
LATE_NET = "import os\nimport time\n" + NORMED_NET.replace(
    "        return self",
    "        if self.training:\n"
    "            time.sleep(0.0005 * len(numeric) * (1 + 2 * int(os.environ['HOROVOD_RANK'])))\n"
    "        return self",
)
"""The second rank takes three times as long per row, and the first one waits for it in the normalisation."""
UNEVEN = Planned(rows=(29, 8), correct=False).to_json()
FURTHEST = {"float64": 1e-6, "cnn": 1e-4}
"""Of a weight or a running statistic after all steps, relative to the largest of its tensor."""
TRAINING = {
    "batch_size": BATCH, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.05, "augment": "none",
    "batch_norm": "synced", "epochs": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By name: a small model in float64, and the convolutional family as it is generated."""
    wine, digits = (tmp_path_factory.mktemp(name) for name in ("float64", "cnn"))
    model = {"family": "cnn", "size": "small", "params": {"dropout": 0.0}}
    return {
        "float64": samples.program(wine, samples.wine(wine / "data"), own_model=DOUBLE_NET, training=TRAINING),
        "cnn": samples.program(digits, samples.digits(digits / "data", 300), model=model, training=TRAINING),
    }


@pytest.fixture(scope="module")
def alone(programs: dict[str, Path]) -> dict[str, dict[str, torch.Tensor]]:
    """What one process learns."""
    return {name: learnt(program, program / "alone", 1) for name, program in programs.items()}


def learnt(program: Path, work: Path, size: int, backend: str = "horovod", **more: str) -> dict[str, torch.Tensor]:
    """Weights and running statistics at the end."""
    ranks = Ranks(program, size, backend=backend, DLH_WORK=str(work), **more)
    assert ranks.wait() == [0] * size, ranks.log()
    return load_file(work / "results" / "model.safetensors")


def furthest(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Of a tensor, relative to its largest value."""
    return max(
        float((found[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-9))
        for name, tensor in expected.items()
    )


@pytest.mark.parametrize("split", ["", UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("backend", ["horovod", "torch"])
@pytest.mark.parametrize("name", ["float64", "cnn"])
def test_two_ranks_learn_weights_and_statistics_of_one_process(
    programs: dict[str, Path], alone: dict[str, dict[str, torch.Tensor]], name: str, backend: str, split: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    found = learnt(programs[name], tmp_path, 2, backend, DLH_SPLIT=split)
    assert furthest(found, alone[name]) < FURTHEST[name]
    notes = [event["data"]["message"] for event in events(tmp_path, 0) if event["kind"] == "note"]
    assert not any("batch normalisation" in note for note in notes), notes


@pytest.mark.parametrize("name", ["float64", "cnn"])
def test_with_statistics_of_their_own_rows_they_learn_something_else(
    programs: dict[str, Path], alone: dict[str, dict[str, torch.Tensor]], name: str, tmp_path: Path
) -> None:
    own = tmp_path / "program"
    shutil.copytree(programs[name], own, ignore=shutil.ignore_patterns("work", "alone"))
    samples.change_spec(own, training={"batch_norm": "own"})
    assert furthest(learnt(own, tmp_path / "work", 2), alone[name]) > 1e-2


def test_a_rank_that_waits_for_the_statistics_of_a_slow_one_takes_rows_from_it(tmp_path: Path) -> None:
    training = TRAINING | {"batch_size": 16, "epochs": 12}
    program = samples.program(tmp_path, samples.wine(tmp_path / "data"), own_model=LATE_NET, training=training)
    planned = Planned(rows=(8, 8), lines=(Line(0.0, 0.0005), Line(0.0, 0.0005)))
    learnt(program, tmp_path / "work", 2, DLH_SPLIT=planned.to_json())
    told = [event["data"] for event in events(tmp_path / "work", 0) if event["kind"] == "note"]
    first = next(data["split"] for data in told if "split" in data)
    assert first["before"] == [8, 8]
    assert first["after"][0] > first["after"][1]
