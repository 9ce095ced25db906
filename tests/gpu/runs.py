"""Programs that are run on a GPU, and what is asked of their work folders."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from codegen.profile.types import DatasetProfile
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events, steps_told
from worker.plan import EXIT_PAUSED

DEVICE = os.environ.get("TEST_DEVICE", "cuda:0")
"""What is tested: see `tests.gpu.conftest`."""
BATCH = 16
TRAINING = {
    "epochs": 3, "batch_size": BATCH, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.02,
    "schedule": "constant", "warmup": 0.0, "precision": "float32",
}  # fmt: skip
"""A run may be as long as it likes: its steps are the same, however many follow."""
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 384), nn.Tanh(), nn.Linear(384, outputs)
        )

    def forward(self, numeric, categorical):
        return self.layers(numeric)

def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
"""Without chance or batch statistics, and large enough that gradients leave during the backward pass."""
EXACT = f'{NET}\ntorch.set_float32_matmul_precision("highest")\n'
"""In float32 throughout: a GPU else rounds what it multiplies to 10 bits after the point (TF32)."""
CLOSE = 1e-4
"""Two devices add in another order: relative to a tensor's length, after some 30 steps in float32."""
CLOSE_TF32 = 1e-2
"""A product is off by 2^-11 (5e-4) at most, and the errors of many partly cancel; steps of training add theirs up."""
CLOSE_ADAM = 1e-3
"""AdamW's steps are of one length: where a gradient is next to nothing its sign, and with it the step, is chance."""
SAME = 1e-6
"""The same GPU with the same kernels."""


def make(folder: Path, pack: Callable[[Path], DatasetProfile], *, own: str | None = None, **spec: Any) -> Path:
    """A program with its data below it, in float32 and without chance if nothing else is asked for."""
    spec["training"] = TRAINING | spec.get("training", {})
    spec.setdefault("checkpoints", {"every_epochs": 1, "keep": 9})
    return samples.program(folder, pack(folder / "data"), own_model=own, **spec)


def own_code(model: str, forward: str, above: str = "") -> str:
    """A model whose forward begins with these lines, indented by 8."""
    place = "        return self.layers(numeric)"
    assert model.count(place) == 1
    return above + model.replace(place, f"{forward}\n{place}")


def changed(program: Path, folder: Path, old: str, new: str) -> Path:
    """A copy with another text in its train.py, wherever the old one is, of the same data."""
    shutil.copytree(program, folder, ignore=shutil.ignore_patterns("work*", "data"))
    (folder / "data").symlink_to(program / "data")
    text = (folder / "train.py").read_text()
    assert old in text
    (folder / "train.py").write_text(text.replace(old, new))
    return folder


def started(
    program: Path,
    work: Path,
    *arguments: str,
    on: str | Sequence[str] = DEVICE,
    backend: str = "torch",
    own: Sequence[dict[str, str]] = (),
    **more: str,
) -> Ranks:
    """Its ranks, one on each of the devices named; `own`: further variables of each."""
    places = [on] if isinstance(on, str) else list(on)
    every = [
        {"DLH_DEVICE": place, "DLH_DEVICE_RANKS": str(places.count(place))} | extra
        for place, extra in zip(places, own or [{}] * len(places), strict=True)
    ]
    single = every[0] if len(every) == 1 else {}
    return Ranks(
        program, len(places), backend=backend, arguments=arguments, own=every, DLH_WORK=str(work), **(more | single)
    )


def trained(program: Path, work: Path, *arguments: str, on: str | Sequence[str] = DEVICE, **more: Any) -> Path:
    """Train to the end; the work folder."""
    ranks = started(program, work, *arguments, on=on, **more)
    assert set(ranks.wait()) == {0}, "\n".join(ranks.log(rank) for rank in range(len(ranks.processes)))
    return work


def paused(program: Path, work: Path, requests: Path, **more: Any) -> None:
    """Start ranks, and pause all of them after some steps."""
    requests.mkdir()
    ranks = started(program, work, DLH_REQUESTS=str(requests), **more)
    ranks.until(lambda: steps_told(work) > 2)
    (requests / "pause").touch()
    assert set(ranks.wait()) == {EXIT_PAUSED}, "\n".join(ranks.log(rank) for rank in range(len(ranks.processes)))
    assert len(checkpoints(work)[-1]["ranks"]) == len(ranks.processes)


def norm_apart(folder: Path, **more: Any) -> float:
    """How far ranks that share their batch statistics end from one process."""
    own = EXACT.replace("nn.Tanh(), nn.Linear(64", "nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64")
    program = make(folder / "program", samples.wine, own=own, training={"batch_norm": "synced"})
    runs = trained(program, folder / "one", on="cpu"), trained(program, folder / "more", **more)
    # weights and statistics, but no counts
    return apart(*({name: found for name, found in weights(run).items() if found.is_floating_point()} for run in runs))


def weights(work: Path) -> dict[str, Tensor]:
    """What a run that has ended learnt."""
    return load_file(work / "results" / "model.safetensors")


def results(work: Path) -> dict[str, Any]:
    """results.json."""
    body: dict[str, Any] = json.loads((work / "results" / "results.json").read_text())
    return body


def checkpoints(work: Path) -> list[dict[str, Any]]:
    """All of them, the oldest first."""
    files = sorted((work / "checkpoints").glob("step-*/state.pt"))
    return [torch.load(file, weights_only=True) for file in files]


def apart(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    """How far the farthest tensor is from its like, by its own length."""
    assert left.keys() == right.keys()
    pairs = [(left[name].double().cpu(), right[name].double().cpu()) for name in left]
    return max(float((one - other).norm() / other.norm().clamp(min=1e-12)) for one, other in pairs)


def failure(work: Path, rank: int = 0) -> dict[str, Any]:
    """The cause that a run told."""
    (found,) = [event["data"] for event in events(work, rank) if event["kind"] == "error"]
    return dict(found)


def notes(work: Path) -> str:
    """All that a run noted."""
    return "\n".join(str(event["data"].get("message", "")) for event in events(work) if event["kind"] == "note")


def answer(said: str) -> dict[str, Any]:
    """The last line of a module that tells JSON."""
    body: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return body
