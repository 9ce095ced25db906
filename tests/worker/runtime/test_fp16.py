"""Runs in float16 with a scaled loss, in every mode with real ranks: they learn what float32 teaches, and leave out
a step together."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from tests.worker.runtime.test_async import newest, results
from tests.worker.runtime.test_family_modes import KNOBS, NAMES, data_of, predicted
from worker.plan import EXIT_REPORTED
from worker.runtime.checkpoint import CheckpointStore
from worker.shares import Line, Planned

pytestmark = pytest.mark.ranks
NET = """\
import torch
from torch import nn

bursts = False

class Burst(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows):
        return rows.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("inf")

class Fuse(nn.Module):
    def forward(self, rows):
        return Burst.apply(rows) if bursts else rows

class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 64), Fuse(), nn.Tanh(), nn.Linear(64, 384), nn.Tanh(), nn.Linear(384, outputs)
        )

    def forward(self, numeric, categorical):
        return self.layers(numeric)

def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
"""Gradients of its first layer can be made to overflow; large enough that those of the others leave early."""
STEP = """\
        import os
        model.bursts = str(run.rank) in os.environ.get("BURSTS", "") and steps == int(os.environ["BURSTS_AT"])
        steps += 1
"""
"""At the start of every step: whether it is the one that overflows on this rank."""
BATCH, EPOCHS = 37, 3
TRAINING = {
    "epochs": EPOCHS, "batch_size": BATCH, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.05,
    "schedule": "constant", "warmup": 0.0, "clip_norm": 0.5, "precision": "fp16",
}  # fmt: skip
CLOSE = 1e-3
"""Relative to a tensor's length, after some ten steps. float16 rounds to 11 bits, 5e-4 each; 1.5e-4 was seen."""
BEGINNING = 65_536.0


@dataclass(frozen=True, kw_only=True)
class Way:
    """How ranks train."""

    mode: str
    ranks: int = 2
    backend: str = "horovod"
    training: dict[str, Any] = field(default_factory=dict)
    surroundings: dict[str, str] = field(default_factory=dict)


WAYS = {
    "single": Way(mode="single", ranks=1),
    "micro-batches": Way(mode="single", ranks=1, training={"accumulate": 3}),
    "replicated": Way(mode="replicated", ranks=1, surroundings={"DLH_THREADS": "2"}),
    "sync": Way(mode="sync"),
    "sync by torch, in micro-batches": Way(mode="sync", backend="torch", training={"accumulate": 2}),
    "sync, uneven shares": Way(
        mode="sync",
        surroundings={
            "DLH_SPLIT": Planned(rows=(27, 10), lines=(Line(0.0, 0.001), Line(0.0, 0.001)), correct=False).to_json()
        },
    ),
    "sync, rounded messages": Way(mode="sync", training={"compression": "fp16"}),
    "pipeline": Way(mode="pipeline", backend="torch"),
    "pipeline+sync": Way(mode="pipeline+sync", backend="torch", ranks=4),
    "async in step": Way(mode="async", training={"backup": 0, "clip_norm": 0}),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without chance or batch statistics. 37 rows do not divide among ranks."""
    folder = tmp_path_factory.mktemp("fp16")
    samples.program(folder, samples.wine(folder / "data"), own_model=NET, training=TRAINING)
    text, place = (folder / "train.py").read_text(), "        optimizer.zero_grad"
    assert text.count(place) == 1 and text.count("import math\n") == 1
    text = text.replace(place, STEP + place).replace("import math\n", "import math\nsteps = 0\n")
    (folder / "train.py").write_text(text)
    return folder


def trained(program: Path, work: Path, way: Way, *arguments: str, **surroundings: str) -> Path:
    """Work folder of a run."""
    folder = work / "program"
    if not folder.exists():
        shutil.copytree(program, folder, ignore=shutil.ignore_patterns("work", "data"))
        (folder / "data").symlink_to(program / "data")
    samples.change_spec(folder, training=TRAINING | way.training)
    if way.mode.startswith("pipeline"):
        samples.staged(folder, way.mode)
    given = {"DLH_MODE": way.mode, "DLH_WORK": str(work)} | way.surroundings | surroundings
    if "pipeline" in way.mode:
        given["DLH_STAGES"] = "2"
    ranks = Ranks(folder, way.ranks, backend=way.backend, arguments=arguments, **given)
    assert set(ranks.wait()) == {0}, "\n".join(map(ranks.log, range(way.ranks)))
    return work


def weights(work: Path) -> dict[str, torch.Tensor]:
    """Final weights of a run."""
    return load_file(work / "results" / "model.safetensors")


def apart(left: Path, right: Path) -> float:
    """How far the farthest tensor is from its like, by its own length."""
    one, other = weights(left), weights(right)
    return max(float((one[name] - other[name]).norm() / other[name].norm()) for name in other)


def skipped(work: Path) -> int:
    """Steps that were left out."""
    return int(results(work)["timing"]["skipped_steps"])


def notes(work: Path) -> list[str]:
    """What a person is told on the page of the job."""
    return [event["data"]["message"] for event in events(work) if event["kind"] == "note"]


@pytest.fixture(scope="module")
def references(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What one process learns: in float32, in float32 without clipping, and in float16 without its third step."""
    made = tmp_path_factory.mktemp("references")
    exact = {"precision": "float32"}
    return {
        "clipped": trained(program, made / "clipped", Way(mode="single", ranks=1, training=exact)),
        "whole": trained(program, made / "whole", Way(mode="single", ranks=1, training=exact | {"clip_norm": 0})),
        "burst": trained(program, made / "burst", WAYS["single"], BURSTS="0", BURSTS_AT="2"),
    }


@pytest.mark.parametrize("name", WAYS)
def test_float16_teaches_what_float32_does(
    name: str, program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    way = WAYS[name]
    work = trained(program, tmp_path / "work", way)
    reference = references["whole" if way.training.get("clip_norm") == 0 else "clipped"]
    assert skipped(work) == 0
    assert 0 < apart(work, reference) < CLOSE


@pytest.mark.parametrize(
    ("name", "ranks"),
    [("micro-batches", "0"), ("replicated", "0"), ("sync", "1"), ("sync, rounded messages", "1"), ("pipeline", "01"),
     ("pipeline+sync", "23")],
)  # fmt: skip
def test_an_overflow_on_one_rank_has_all_leave_out_that_step(
    name: str, ranks: str, program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    """In a pipeline one stage or the other holds the layer whose gradients overflow."""
    work = trained(program, tmp_path / "work", WAYS[name], BURSTS=ranks, BURSTS_AT="2")
    assert (skipped(work), skipped(references["burst"])) == (1, 1)
    (told,) = [note for note in notes(work) if "left out" in note]
    assert told.startswith("1 of ")
    kept = newest(work)
    assert kept["loss_scale"]["scaler"]["scale"] == BEGINNING / 2
    assert kept["position"]["step"] == newest(references["burst"])["position"]["step"]
    assert apart(work, references["burst"]) < CLOSE < apart(work, references["clipped"]) / 10


@pytest.mark.parametrize(("ranks", "own"), [("1", 0), ("01", 1)], ids=["of one rank", "of all ranks"])
def test_parameter_servers_in_step_make_steps_without_gradients_that_overflow(
    ranks: str, own: int, program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    work = trained(program, tmp_path / "work", WAYS["async in step"], BURSTS=ranks, BURSTS_AT="2")
    steps = newest(references["whole"])["position"]["step"]
    assert (skipped(work), newest(work)["position"]["step"]) == (own, steps)
    assert CLOSE < apart(work, references["whole"]) < 0.5  # some rows of one step did not count


def test_a_worker_pushes_nothing_where_its_gradients_overflow(program: Path, tmp_path: Path) -> None:
    way = Way(mode="async", training={"optimizer": "adamw"})
    work = trained(program, tmp_path / "work", way, BURSTS="01", BURSTS_AT="0")
    assert skipped(work) == 1
    assert all(tensor.isfinite().all() for tensor in weights(work).values())
    states = newest(work)["parts"]["optimizer"]["state"].values()
    assert states and all(tensor.isfinite().all() for state in states for tensor in state.values())


def test_the_scale_goes_on_in_other_modes_and_with_other_numbers_of_ranks(
    program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    trained(program, work, WAYS["single"], "--epochs", "1", BURSTS="0", BURSTS_AT="2")
    for epochs, name in ((2, "sync"), (3, "pipeline")):
        trained(program, work, WAYS[name], "--epochs", str(epochs))
        kept = newest(work)
        assert (kept["position"]["epoch"], kept["loss_scale"]["skipped"]) == (epochs, 1)
        assert kept["loss_scale"]["scaler"]["scale"] == BEGINNING / 2
    assert apart(work, references["burst"]) < CLOSE


@pytest.mark.parametrize("state", [None, {}], ids=["made before there was a scale", "of a run in float32"])
def test_a_checkpoint_without_a_scale_still_loads(
    state: dict[str, Any] | None, program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    kept = newest(references["clipped"])
    assert kept.pop("loss_scale") == {}
    if state is not None:
        kept["loss_scale"] = state
    store = CheckpointStore(tmp_path / "work" / "checkpoints", 2, True)
    store.save(kept, step=kept["position"]["step"], epoch=EPOCHS, metric=None)
    work = trained(program, tmp_path / "work", WAYS["single"], "--epochs", str(EPOCHS + 1))
    assert newest(work)["position"]["epoch"] == EPOCHS + 1
    assert newest(work)["loss_scale"]["scaler"]["scale"] == BEGINNING


OWN_BACKWARD = """\
with run.autocast:
            loss = criterion(net(*inputs), targets)
        loss.backward()"""


def edited(program: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    """A copy with other lines in its train.py."""
    shutil.copytree(program, folder, ignore=shutil.ignore_patterns("work", "data"))
    (folder / "data").symlink_to(program / "data")
    text = (folder / "train.py").read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "train.py").write_text(text)
    return folder


def test_a_program_that_clips_and_updates_itself_sees_gradients_of_the_loss(
    program: Path, references: dict[str, Path], tmp_path: Path
) -> None:
    own = edited(
        program, tmp_path / "edited",
        ("run.clip_gradients(net, clip_norm)", "torch.nn.utils.clip_grad_norm_(net.parameters(), clip_norm)"),
        ("run.update(optimizer)", "optimizer.step()"),
    )  # fmt: skip
    work = trained(own, tmp_path / "work", WAYS["sync"], BURSTS="1", BURSTS_AT="2")
    assert skipped(work) == 1
    assert apart(work, references["burst"]) < CLOSE


def test_a_program_that_computes_gradients_itself_trains_and_is_told_that_its_loss_is_not_scaled(
    program: Path, tmp_path: Path
) -> None:
    own = edited(
        program, tmp_path / "edited", ("loss = run.backward(net, inputs, targets, criterion)", OWN_BACKWARD)
    )  # fmt: skip
    ranks = Ranks(own, 1, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [0], ranks.log()
    assert len([note for note in notes(tmp_path / "work") if "not scaled" in note]) == 1
    assert skipped(tmp_path / "work") == 0


def test_a_program_that_updates_by_scaled_gradients_is_stopped_with_what_to_write(
    program: Path, tmp_path: Path
) -> None:
    own = edited(
        program, tmp_path / "edited", ("        run.average_gradients(loss)", "        pass"),
        ("run.clip_gradients(net, clip_norm)", "pass"), ("run.update(optimizer)", "optimizer.step()"),
    )  # fmt: skip
    ranks = Ranks(own, 1, DLH_WORK=str(tmp_path / "work"))
    assert ranks.wait() == [EXIT_REPORTED], ranks.log()
    (told,) = [event["data"] for event in events(tmp_path / "work") if event["kind"] == "error"]
    assert "scaled for float16" in told["message"] and "run.update(optimizer)" in told["hint"]


def test_ranks_of_which_one_overflows_at_every_step_end_with_the_cause(program: Path, tmp_path: Path) -> None:
    own = edited(program, tmp_path / "edited", ("steps == int(", "steps >= int("))
    surroundings = {"DLH_MODE": "sync", "DLH_WORK": str(tmp_path / "work"), "BURSTS": "1", "BURSTS_AT": "0"}
    ranks = Ranks(own, 2, arguments=("--epochs", "20"), **surroundings)
    assert set(ranks.wait()) == {EXIT_REPORTED}, ranks.log()
    (told,) = [event["data"] for event in events(tmp_path / "work") if event["kind"] == "error"]
    assert told["code"] == "nan_loss" and "overflowed in float16 in every try up to step 25" in told["message"]
    assert "set training.precision to float32" in told["hint"]


@pytest.mark.parametrize("family", NAMES)
def test_every_family_trains_in_float16(family: str, tmp_path: Path) -> None:
    profile, metric = data_of(family, tmp_path / "data")
    model = {"family": family, "size": "small", "params": KNOBS.get(family, {})}
    made = samples.program(
        tmp_path, profile, model=model, objective={"metric": metric},
        training={"epochs": 2, "batch_size": 16, "precision": "fp16"},
    )  # fmt: skip
    ranks = Ranks(made, 1)
    assert ranks.wait() == [0], ranks.log()
    assert predicted(made / "work").shape[0] and skipped(made / "work") < newest(made / "work")["position"]["step"] / 2
