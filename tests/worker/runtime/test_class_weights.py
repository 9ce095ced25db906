"""Classes that count alike in the loss, however rare, and what the metrics say of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score

from codegen.profile.types import DatasetProfile
from tests.worker.runtime import samples
from tests.worker.runtime.traces import traced
from worker.runtime.metrics import classification_metrics

RARE_ROWS, ROWS = 160, 8000


def rare_class(folder: Path) -> DatasetProfile:
    """Two clouds that overlap; one row in fifty belongs to the rare one."""
    generator = np.random.default_rng(0)
    is_rare = np.arange(ROWS) % (ROWS // RARE_ROWS) == 0
    values = generator.normal(size=(ROWS, 2)) + 1.2 * is_rare[:, None]
    labels = ["rare" if one else "common" for one in is_rare]
    return samples.pack_table(folder, {"a": values[:, 0], "b": values[:, 1], "kind": labels}, "kind")


def test_balanced_weights_find_a_class_that_is_neglected_without(tmp_path: Path) -> None:
    data = tmp_path / "data"
    profile, recall = rare_class(data), {}
    for weights in ("none", "balanced"):
        training = {"epochs": 15, "class_weights": weights}
        folder = samples.program(tmp_path / weights, profile, training=training, model={"family": "mlp"})
        done = samples.run(folder, "train.py", "--data", str(data), DLH_THREADS="1")
        assert done.returncode == 0, done.stderr[-2000:]
        body = json.loads((folder / "work" / "results" / "results.json").read_text())
        (chart,) = [chart for chart in body["charts"] if chart["id"] == "per_class"]
        recall[weights] = {name: figure for name, _, _, figure, _ in chart["rows"]}
        both = recall[weights].values()
        assert body["metrics"]["test"]["balanced_accuracy"] == pytest.approx(sum(both) / 2)
    assert recall["none"]["rare"] < 0.3 < 0.5 < recall["balanced"]["rare"]


def test_a_program_with_weights_is_traced(tmp_path: Path) -> None:
    profile = rare_class(tmp_path / "data")
    folder = samples.program(tmp_path / "program", profile, training={"class_weights": "balanced"})
    assert traced(folder, tmp_path / "data", 32).flops > 0


def test_balanced_accuracy_is_the_mean_over_the_classes_there_are() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 4, generator=generator)
    targets = torch.randint(0, 3, (60,), generator=generator)  # the fourth class has no rows
    found = classification_metrics(logits, targets)["balanced_accuracy"]
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert found == pytest.approx(balanced_accuracy_score(targets.numpy(), logits.argmax(1).numpy()))
