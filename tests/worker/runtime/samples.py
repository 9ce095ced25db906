"""Small datasets packed as the platform packs them, and programs rendered for them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image
from sklearn import datasets

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile, ImagesProfile
from codegen.render import render, runtime_files
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.types import Hardware
from tests.worker.runtime.apart import LIMIT_S, Script

PROJECT = Path(__file__).parents[3]
HARDWARE = Hardware(cpu_cores=1, cpu_memory_bytes=8 << 30)
BARE = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "HOME": os.environ.get("HOME", "")}
"""Environment of a machine that knows nothing of the platform."""
EXACT_NET = """\
from torch import nn
class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, outputs))
    def forward(self, numeric, categorical):
        return self.layers(numeric)
def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
"""A model of numbers without chance or batch statistics: the number of ranks does not change what it learns."""


def pack_table(folder: Path, columns: dict[str, Any], target: str) -> DatasetProfile:
    """Write table.parquet; texts are categories, the rest numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    pq.write_table(table, folder / "table.parquet")
    profiles = []
    for name in table.column_names:
        values = table[name].to_pylist()
        kind = ColumnType.CATEGORY if isinstance(values[0], str) else ColumnType.NUMERIC
        counts = {value: values.count(value) for value in dict.fromkeys(values)} if len(values) < 5000 else {}
        profiles.append(
            ColumnProfile(
                name=name,
                type=kind,
                guessed_type=kind,
                reason="made by a test",
                missing=sum(value is None for value in values),
                unique=len(set(values)),
                top_values=tuple((str(value), count) for value, count in counts.items()),
            )
        )
    labels = table[target].to_pylist()
    classification = isinstance(labels[0], str)
    classes = tuple((name, labels.count(name)) for name in sorted(set(labels))) if classification else ()
    task = "tabular_classification" if classification else "tabular_regression"
    return DatasetProfile(
        kind=DataKind.TABLE, rows=table.num_rows, columns=tuple(profiles), target=target, task=task, classes=classes
    )


def wine(folder: Path) -> DatasetProfile:
    """178 rows, 13 numbers, 3 classes."""
    bunch = datasets.load_wine()
    columns = {name: bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    return pack_table(folder, columns | {"kind": [f"wine {label}" for label in bunch.target]}, "kind")


def diabetes(folder: Path) -> DatasetProfile:
    """442 rows, 10 numbers, one made a category; a number as target."""
    bunch = datasets.load_diabetes()
    columns: dict[str, Any] = {name: bunch.data[:, i] for i, name in enumerate(bunch.feature_names)}
    columns["sex"] = ["a" if value > 0 else "b" for value in columns["sex"]]
    return pack_table(folder, columns | {"progression": bunch.target}, "progression")


def digits(folder: Path, rows: int | None = None) -> DatasetProfile:
    """1,797 grey pictures of 8 x 8, 10 classes."""
    folder.mkdir(parents=True, exist_ok=True)
    bunch = datasets.load_digits()
    images, labels = bunch.images[:rows], [str(label) for label in bunch.target[:rows]]
    blobs = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray((image * 15.9).astype(np.uint8)).save(buffer, "PNG")
        blobs.append(buffer.getvalue())
    names = [f"{label}/{number}.png" for number, label in enumerate(labels)]
    sizes = {"width": [8] * len(blobs), "height": [8] * len(blobs)}
    pq.write_table(pa.table({"image": blobs, "label": labels, "name": names, **sizes}), folder / "images.parquet")
    shapes = {f"{side}_{what}": 8 for side in ("width", "height") for what in ("min", "max", "median")}
    return DatasetProfile(
        kind=DataKind.IMAGES,
        rows=len(blobs),
        images=ImagesProfile(
            **shapes,
            channels=1,
            formats=(("PNG", len(blobs)),),
            thumbnails=(),
            channel_mean=(0.3,),
            channel_std=(0.37,),
        ),
        target="label",
        task="image_classification",
        classes=tuple((name, labels.count(name)) for name in sorted(set(labels))),
    )


def program(
    folder: Path, profile: DatasetProfile, *, own_model: str | None = None, alone: bool = False, **spec: Any
) -> Path:
    """Write a program for the profile below `folder`; `spec` holds parts of TaskSpec. `alone` adds the runtime."""
    if own_model is not None:
        spec.setdefault("model", {})["family"] = "own"
    resolved = resolve(TaskSpec.model_validate(spec), profile, HARDWARE)
    files = render(resolved, profile, own_model).files
    for name, text in (files | (runtime_files() if alone else {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def change_spec(folder: Path, **parts: dict[str, Any]) -> None:
    """Overwrite values of spec.yaml."""
    path = folder / "spec.yaml"
    body = yaml.safe_load(path.read_text())
    for name, values in parts.items():
        body[name] = {**body[name], **values}
    path.write_text(yaml.safe_dump(body))


def staged(folder: Path, mode: str = "pipeline", **pipeline: Any) -> Path:
    """Have a program run in stages."""
    path = folder / "spec.yaml"
    wish = {"stages": "auto", "micro_batches": "auto", "schedule": "auto", "recompute": "auto"}
    body = yaml.safe_load(path.read_text()) | {"mode": mode, "pipeline": wish | pipeline}
    path.write_text(yaml.safe_dump(body))
    return folder


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the program's folder with the project's runtime: a new interpreter, which has loaded nothing."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=BARE | {"PYTHONPATH": str(PROJECT)} | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As `python`, but by a process that has torch already, where it says nothing to load it once more."""
    surroundings = BARE | {"PYTHONPATH": str(PROJECT)} | environment
    with TemporaryDirectory() as made:
        output, errors = Path(made) / "stdout", Path(made) / "stderr"
        script = Script(folder, arguments, surroundings, output, errors)
        try:
            code = script.wait(LIMIT_S)
        finally:
            script.kill()
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())
