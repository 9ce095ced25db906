"""The rival of `bench_quality` on the parts and windows that the program itself made."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

READ_PARTS = """
import json, sys
from pathlib import Path
import data
from worker.runtime.spec import load_spec
dataset = data.load(load_spec("spec.yaml"), Path("data"))
print(json.dumps({name: getattr(dataset, name).rows.tolist() for name in ("train", "val", "test")}))
"""


READ_WINDOWS = """
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
import data
from worker.runtime.spec import load_spec
dataset = data.load(load_spec("spec.yaml"), Path("data"))
for name, table in dataset.known.items():
    part = getattr(dataset, name)
    figures = pa.table({"value": part.values.numpy(), "base": part.base.numpy()})
    pq.write_table(table, f"{name}.inputs.parquet")
    pq.write_table(figures, f"{name}.figures.parquet")
"""


def rival_forecasts(folder: Path) -> tuple[float, float]:
    """Mean absolute errors of the rival on the program's own windows: (training alone, with validation)."""
    subprocess.run([sys.executable, "-c", READ_WINDOWS], cwd=folder, check=True)
    inputs, values, base = {}, {}, {}
    for part in ("train", "val", "test"):
        table = pq.read_table(folder / f"{part}.inputs.parquet")
        inputs[part] = np.stack([column.to_numpy().astype(float) for column in table.columns], axis=1)
        figures = pq.read_table(folder / f"{part}.figures.parquet")
        values[part], base[part] = figures["value"].to_numpy(), figures["base"].to_numpy()
    errors = []
    for known in (("train",), ("train", "val")):
        learned = np.concatenate([values[part] - base[part] for part in known])
        model = HistGradientBoostingRegressor(random_state=0)
        model.fit(np.concatenate([inputs[part] for part in known]), learned)
        errors.append(float(np.abs(model.predict(inputs["test"]) + base["test"] - values["test"]).mean()))
    return errors[0], errors[1]


def rival_scores(folder: Path, spec: dict[str, Any]) -> tuple[float, float]:
    """The rival on the program's own parts: (training rows only, with validation rows)."""
    if spec["task"] == "forecast":
        return rival_forecasts(folder)
    out = subprocess.run([sys.executable, "-c", READ_PARTS], cwd=folder, capture_output=True, text=True, check=True)
    rows = {name: np.array(part) for name, part in json.loads(out.stdout).items()}
    if spec["shape"].get("texts"):
        inputs, targets = rival_texts(folder, spec)
        model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000))
    else:
        inputs, targets, categorical = rival_inputs(folder, spec)
        kind = HistGradientBoostingRegressor if spec["task"] == "tabular_regression" else HistGradientBoostingClassifier
        model = kind(random_state=0, categorical_features=categorical)
    scores = []
    for known in (rows["train"], np.concatenate([rows["train"], rows["val"]])):
        model.fit(inputs[known], targets[known])
        scores.append(float(model.score(inputs[rows["test"]], targets[rows["test"]])))
    return scores[0], scores[1]


def rival_texts(folder: Path, spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """(all texts of a row in one [N], targets [N])."""
    table, shape = pq.read_table(folder / "data/table.parquet"), spec["shape"]
    columns = [[text or "" for text in table[name].to_pylist()] for name in shape["texts"]]
    return np.array(list(map(" ".join, zip(*columns, strict=True)))), np.array(table[shape["target"]].to_pylist())


def rival_inputs(folder: Path, spec: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, list[bool] | None]:
    """(inputs [N, columns], targets [N], which columns are categories)."""
    if spec["task"] == "image_classification":
        table = pq.read_table(folder / "data/images.parquet")
        mode = "L" if spec["shape"]["channels"] == 1 else "RGB"
        pictures = [np.asarray(Image.open(io.BytesIO(blob)).convert(mode)) for blob in table["image"].to_pylist()]
        return np.stack(pictures).reshape(len(pictures), -1), np.array(table["label"].to_pylist()), None
    table = pq.read_table(folder / "data/table.parquet")
    shape = spec["shape"]
    columns = [table[name].to_numpy(zero_copy_only=False).astype(float) for name in shape["numeric"]]
    for name in shape["categorical"]:
        texts = np.array([str(value) for value in table[name].to_pylist()])
        columns.append(np.unique(texts, return_inverse=True)[1].astype(float))
    flags = [False] * len(shape["numeric"]) + [True] * len(shape["categorical"])
    return np.stack(columns, axis=1), np.array(table[shape["target"]].to_pylist()), flags
