"""Programs with weights that nobody trained: what matters to an export is that a program can be predicted with."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.worker.runtime import samples

WEIGHTS = """
import json, torch
from pathlib import Path
import data, model
from worker.runtime import load_spec
from worker.runtime.outcome.results import save_weights

spec = load_spec("spec.yaml")
dataset = data.load(spec, Path("data"))
torch.manual_seed(3)
net = model.build(spec.with_shape(dataset.shape))
for weight in net.parameters():  # zeros of a first step would hide a difference
    torch.nn.init.normal_(weight, std=0.3)
results = Path("work/results")
results.mkdir(parents=True)
ranges = {"edges": [150.0], "half_widths": [5.0, 9.0], "said": "Nine in ten."}  # as the end of a run notes them
noted = {} if dataset.classes else {"prediction_ranges": ranges}
(results / "preprocess.json").write_text(json.dumps(dataset.preprocess | noted))
save_weights(net, results / "model.safetensors")
"""
OWN = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer = nn.Linear(features, outputs)
    def forward(self, numeric, categorical):
{forward}
def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""

WITHOUT_TORCH = """
import runpy, sys
for name in ("torch", "pyarrow", "worker"):
    sys.modules[name] = None  # whoever imports it fails
sys.argv = ["predict_onnx.py", *sys.argv[1:]]
sys.path.insert(0, "onnx")  # as Python does for a script
runpy.run_path("onnx/predict_onnx.py", run_name="__main__")
"""
"""Runs the script that goes with a model as on a machine that has no torch."""


def program(folder: Path, family: str, rows: str) -> Path:
    """A program of the catalog for `wine`, `diabetes` or `digits`."""
    packers: dict[str, Any] = {"wine": samples.wine, "diabetes": samples.diabetes, "digits": _digits}
    samples.program(folder, packers[rows](folder / "data"), model={"family": family})
    return weighted(folder)


def words_program(folder: Path) -> Path:
    """An MLP for a table of categories alone: its tensor of numbers is empty."""
    profile = samples.pack_table(
        folder / "data",
        {name: [f"{name} {at % step}" for at in range(120)] for name, step in (("a", 3), ("b", 5), ("kind", 2))},
        "kind",
    )
    samples.program(folder, profile, model={"family": "mlp"})
    return weighted(folder)


def own_program(folder: Path, forward: str) -> Path:
    """One whose `forward(self, numeric, categorical)` is a person's own."""
    text = OWN.format(forward="\n".join(f"        {line}" for line in forward.splitlines()))
    samples.program(folder, samples.wine(folder / "data"), own_model=text)
    return weighted(folder)


def _digits(folder: Path) -> Any:
    return samples.digits(folder, rows=100)


def weighted(folder: Path) -> Path:
    """The program there with weights."""
    (folder / "weights.py").write_text(WEIGHTS)
    done = samples.run(folder, "weights.py")
    assert done.returncode == 0, done.stderr
    return folder


def exported(folder: Path) -> dict[str, Any]:
    """What the export says; its files lie in `onnx`."""
    done = samples.run(folder, "-m", "worker.runtime.onnx_export.export")
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode == 0) is answer["ok"]
    return answer


def rows_written(folder: Path, count: int = 7) -> list[str]:
    """Arguments that name some rows, or pictures, of the data as a person has them."""
    if (folder / "data" / "images.parquet").exists():
        blobs = pq.read_table(folder / "data" / "images.parquet")["image"].to_pylist()[:count]
        for at, blob in enumerate(blobs):
            (folder / f"{at}.png").write_bytes(blob)
        return [f"{at}.png" for at in range(count)]
    table = pq.read_table(folder / "data" / "table.parquet").slice(3, count)
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table.column_names)
        writer.writeheader()
        writer.writerows(table.to_pylist())
    return ["--input", "rows.csv"]


def answers(path: Path) -> list[dict[str, str]]:
    """A CSV of predictions."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
