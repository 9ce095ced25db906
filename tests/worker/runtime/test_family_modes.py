"""Every family of the catalog, as the program that is generated for it, in every mode with real ranks.

One process goes on from the checkpoint that each of them leaves.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from codegen.catalog import FAMILIES, OWN
from codegen.profile.types import DatasetProfile
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from tests.worker.runtime.test_async import results, told
from tests.worker.runtime.test_modes import BATCH_STATISTICS
from worker.plan import EXIT_PEER_LOST, EXIT_REPORTED

pytestmark = pytest.mark.ranks
NAMES = tuple(name for name in FAMILIES if name != OWN)
ROWS, EPOCHS = 64, 2
KNOBS: dict[str, dict[str, Any]] = {
    "mlp": {"layers": 2, "width": 16},
    "resmlp": {"blocks": 2, "width": 16, "frequencies": 4, "embedding": 4},
    "ft_transformer": {"blocks": 2, "width": 16, "heads": 2},
    "cnn": {"conv_layers": 2, "filters": 4, "fc_nodes": 16},
    "resnet": {"blocks": 1, "width": 4},
    "convnext": {"blocks": 1, "width": 8},
}
"""Small; a family that is not named here is taken in its smallest size."""
NUMBERS = {"resmlp"}
"""They predict a number, the other families of tables a class."""
TRAINING = {
    "epochs": EPOCHS, "batch_size": 16, "patience": 0, "ema": 0.9, "optimizer": "adamw", "learning_rate": 0.003,
    "schedule": "constant", "warmup": 0.0, "clip_norm": 100.0,
}  # fmt: skip
"""A rate that does not depend on the number of epochs, so that a run can be made longer; nothing is cut off, for
parameter servers would not cut it as one process does."""
NEAR = 1e-4
"""Between predictions of the same weights."""
APART = 0.05
"""Between weights of two runs, of the way that they went in an epoch: AdamW makes much of small differences."""

SAME = 1e-5
"""The same where both add up the same numbers."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How ranks train."""

    mode: str
    ranks: int = 2
    backend: str = "horovod"
    exact: bool = True
    """Whether it teaches what one process learns."""
    trace: str = ""
    """What such a run leaves behind: nothing, `servers` or `stages`."""
    training: dict[str, Any] = field(default_factory=dict)
    """What is other than usual in the spec."""
    surroundings: dict[str, str] = field(default_factory=dict)


WAYS = {
    "sync": Way(mode="sync"),
    "async": Way(mode="async", trace="servers", exact=False),
    "async in step": Way(mode="async", trace="servers", training={"backup": 0}),
    "pipeline": Way(mode="pipeline", backend="torch", trace="stages", surroundings={"DLH_STAGES": "2"}),
    "pipeline+sync": Way(mode="pipeline+sync", backend="torch", ranks=4, trace="stages"),
    "replicated": Way(mode="replicated", ranks=1, surroundings={"DLH_THREADS": "2"}),
}
NOT_TRIED = {
    "async in step": BATCH_STATISTICS,  # nothing to compare: `test_async` has them
}
CASES = [(family, name) for family in NAMES for name in WAYS if family not in NOT_TRIED.get(name, set())]


def table(folder: Path, target: str) -> DatasetProfile:
    """Three numbers and a category that say which kind a row is, and how much."""
    chance = np.random.default_rng(3)
    numbers = chance.normal(size=(ROWS, 3))
    colours = chance.integers(0, 4, ROWS)
    amount = numbers @ [1.0, -0.5, 0.2] + colours
    columns = {f"x{place}": numbers[:, place] for place in range(3)} | {"colour": [f"c{value}" for value in colours]}
    kinds = [f"kind {value}" for value in np.digitize(amount, np.quantile(amount, [1 / 3, 2 / 3]))]
    return samples.pack_table(folder, columns | {target: kinds if target == "kind" else amount}, target)


def data_of(family: str, folder: Path) -> tuple[DatasetProfile, str]:
    """A dataset for the family, and the metric that moves with every change of the weights."""
    if any("image" in str(task) for task in FAMILIES[family].tasks):
        return samples.digits(folder, ROWS), "log_loss"
    return (table(folder, "amount"), "rmse") if family in NUMBERS else (table(folder, "kind"), "log_loss")


def predicted(work: Path) -> np.ndarray:
    """What results and predictions hold, once all of them are found to be numbers: [rows, numbers]."""
    body = results(work)
    for values in body["metrics"].values():
        assert values and all(math.isfinite(value) for value in values.values()), body["metrics"]
    rows = pq.read_table(work / "results" / "predictions.parquet")
    assert rows["row"].to_pylist() == list(range(ROWS))
    names = [name for name in rows.column_names if name.startswith("probability of ")] or ["predicted"]
    found = np.stack([rows[name].to_numpy() for name in names], 1)
    assert np.isfinite(found).all()
    return found


def train(program: Path, work: Path, epochs: int, way: Way | None = None) -> Ranks:
    """Train up to so many epochs, in one process if no way is named."""
    way = way or Way(mode="single", ranks=1)
    ranks = Ranks(
        program, way.ranks, backend=way.backend, arguments=("--epochs", str(epochs)), DLH_WORK=str(work),
        DLH_MODE=way.mode, **way.surroundings,
    )  # fmt: skip
    assert ranks.wait() == [0] * way.ranks, "\n".join(ranks.log(rank) for rank in range(way.ranks))
    return ranks


def trace(work: Path) -> str:
    """What shows in a work folder of how ranks trained."""
    if (work / "pipeline.json").exists():
        return "stages"
    return "servers" if told(work, 0, "rank0/staleness") or told(work, 0, "rank0/dropped") else ""


def outline(state: Any) -> Any:
    """A nested state with the shape and type of tensors in their place."""
    if isinstance(state, torch.Tensor):
        return tuple(state.shape), state.dtype
    if isinstance(state, dict):
        return {key: outline(value) for key, value in state.items()}
    return [outline(value) for value in state] if isinstance(state, list) else type(state)


def after(work: Path, epoch: int) -> dict[str, Any]:
    """The checkpoint of that epoch's end."""
    states = [torch.load(file, weights_only=True) for file in (work / "checkpoints").glob("step-*/state.pt")]
    (found,) = (state for state in states if state["position"]["epoch"] == epoch)
    return found


def distance(state: dict[str, Any], other: dict[str, Any]) -> float:
    """How far the weights of two checkpoints are apart."""
    one, two = (each["parts"]["net"] for each in (state, other))
    return math.sqrt(sum(float((one[name].double() - two[name]).square().sum()) for name in one))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a family's program once, and trains it in one process, for an epoch more than the others, in `alone`."""
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            folder = made[family] = tmp_path_factory.mktemp(family)
            profile, metric = data_of(family, folder / "data")
            seen = family in BATCH_STATISTICS
            own = {} if seen else {"dropout": 0.0}  # with batch statistics no mode is as one process anyway
            samples.program(
                folder, profile, model={"family": family, "size": "small", "params": KNOBS.get(family, {}) | own},
                training=TRAINING | {"augment": "shift" if seen else "none"}, objective={"metric": metric},
                checkpoints={"every_epochs": 1, "keep": 9},
            )  # fmt: skip
            train(samples.staged(folder, "single", micro_batches=3), folder / "alone", EPOCHS + 1)
        return made[family]

    return make


@pytest.mark.parametrize(("family", "name"), CASES)
def test_every_family_trains_in_every_mode_and_one_process_goes_on_from_its_checkpoint(
    family: str, name: str, alone: Callable[[str], Path], tmp_path: Path
) -> None:
    way, exact = WAYS[name], WAYS[name].exact and family not in BATCH_STATISTICS
    known, program, work = alone(family), tmp_path / "program", tmp_path / "work"
    shutil.copytree(known, program, ignore=shutil.ignore_patterns("alone", "data"))
    (program / "data").symlink_to(known / "data")
    samples.change_spec(program, training=way.training)
    train(program, work, EPOCHS, way)
    assert trace(work) == way.trace
    found, state = predicted(work), after(work, EPOCHS)
    expected = [after(known / "alone", EPOCHS + more) for more in (-1, 0, 1)]
    assert outline(state["parts"]) == outline(expected[1]["parts"])

    train(program, work, EPOCHS)  # nothing is left to train: the best weights predict once more, in one process
    np.testing.assert_allclose(found, predicted(work), rtol=NEAR, atol=NEAR)
    ranks = train(program, work, EPOCHS + 1)
    assert "Continuing from checkpoint" in ranks.log()
    predicted(work)
    further = after(work, EPOCHS + 1)
    if exact:
        moved = [distance(*expected[:2]), distance(*expected[1:])]
        apart = [distance(state, expected[1]), distance(further, expected[2])]
        assert apart[0] < APART * moved[0] and apart[1] < APART * moved[1], (apart, moved)


@pytest.mark.parametrize("family", NAMES)
def test_horovod_and_its_twin_teach_every_family_the_same_and_go_on_from_each_others_checkpoints(
    family: str, alone: Callable[[str], Path], tmp_path: Path
) -> None:
    known, program = alone(family), tmp_path / "program"
    shutil.copytree(known, program, ignore=shutil.ignore_patterns("alone", "data"))
    (program / "data").symlink_to(known / "data")
    states = []
    for turns in (("horovod", "torch"), ("torch", "horovod")):
        work = tmp_path / turns[0]
        for epochs, backend in enumerate(turns, EPOCHS - 1):
            ranks = train(program, work, epochs, Way(mode="sync", backend=backend))
        assert "Continuing from checkpoint" in ranks.log()
        states.append([after(work, epoch) for epoch in (EPOCHS - 1, EPOCHS)])
    (early, late), (early_twin, late_twin) = states
    moved = distance(early, late)
    assert distance(early, early_twin) < SAME * moved and distance(late, late_twin) < SAME * moved


def test_a_model_of_fewer_pieces_than_stages_is_refused_with_what_to_ask_for(tmp_path: Path) -> None:
    model = {"family": "mlp", "params": {"layers": 1, "width": 4}}
    profile, numbers_alone = table(tmp_path / "data", "kind"), {"exclude": ["colour"]}
    program = samples.program(tmp_path, profile, model=model, data=numbers_alone, training=TRAINING)
    ranks = Ranks(samples.staged(program), 3, backend="torch")
    assert set(ranks.wait()) <= {EXIT_REPORTED, EXIT_PEER_LOST}, ranks.log()
    errors = [event["data"] for rank in range(3) for event in events(ranks.work, rank) if event["kind"] == "error"]
    assert errors
    for error in errors:
        assert error["message"].endswith(": The model has 2 pieces to cut between, too few for 3 stages.")
        assert error["hint"] == "Ask for at most 2 devices (resources.count), or use mode sync."
