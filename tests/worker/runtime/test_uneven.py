"""Ranks on unlike devices: the same model as one process learns, rows by speed, corrected while it runs and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks, events
from worker.plan import EXIT_PAUSED
from worker.shares import Line, Planned

pytestmark = pytest.mark.ranks
BATCH = 16


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step takes half a millisecond per row, whatever else the machine does; slowed ranks take that longer."""
    folder = tmp_path_factory.mktemp("uneven")
    training = {"epochs": 12, "batch_size": BATCH, "patience": 0, "ema": 0, "optimizer": "sgd", "learning_rate": 0.02}
    training["class_weights"] = "balanced"
    slow = "        if self.training:\n            time.sleep(0.0005 * len(numeric))\n"
    own = "import time\n" + samples.EXACT_NET.replace("        return self", f"{slow}        return self")
    return samples.program(folder, samples.wine(folder / "data"), own_model=own, training=training)


@pytest.fixture(scope="module")
def alone(program: Path) -> dict[str, torch.Tensor]:
    """What one process learns."""
    ranks = Ranks(program, 1, DLH_WORK=str(program / "alone"))
    assert ranks.wait() == [0], ranks.log()
    return load_file(program / "alone" / "results" / "model.safetensors")


def told(work: Path, rank: int, name: str) -> list[float]:
    """Values of one curve of a rank."""
    values: list[dict[str, Any]] = [event["data"].get("values", {}) for event in events(work, rank)]
    return [value[f"rank{rank}/{name}"] for value in values if f"rank{rank}/{name}" in value]


def splits(work: Path) -> list[dict[str, Any]]:
    """Corrections that the run told."""
    return [event["data"] for event in events(work) if event["kind"] == "note" and "split" in event["data"]]


def same(work: Path, alone: dict[str, torch.Tensor]) -> None:
    for name, tensor in load_file(work / "results" / "model.safetensors").items():
        assert float((tensor - alone[name]).norm() / alone[name].norm()) <= 1e-4


def test_a_planned_split_is_corrected_and_a_paused_run_goes_on_with_what_it_had_learnt(
    program: Path, alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    requests = tmp_path / "requests"
    requests.mkdir()
    planned = Planned(rows=(9, 7), lines=(Line(0.0, 0.0005), Line(0.0, 0.0005)))
    more = {"DLH_WORK": str(tmp_path), "DLH_SPLIT": planned.to_json(), "DLH_REQUESTS": str(requests)}
    slow: list[dict[str, str]] = [{}, {"DLH_SLOWDOWN": "3"}]
    ranks = Ranks(program, 2, own=slow, **more)
    ranks.until(lambda: splits(tmp_path))
    (requests / "pause").touch()
    assert ranks.wait() == [EXIT_PAUSED, EXIT_PAUSED], ranks.log()
    (first, *_) = splits(tmp_path)
    assert first["split"]["before"] == [9, 7]
    assert first["split"]["after"][0] > first["split"]["after"][1]
    assert "Rank 1 worked" in first["message"]
    learnt = splits(tmp_path)[-1]["split"]["after"]
    assert set(told(tmp_path, 0, "rows")) <= {9.0, *(float(one["split"]["after"][0]) for one in splits(tmp_path))}

    (requests / "pause").unlink()
    again = Ranks(program, 2, own=slow, **more)
    assert again.wait() == [0, 0], again.log()
    later = splits(tmp_path)[1:]
    assert all(correction["split"]["before"] != [9, 7] for correction in later)
    assert sum(learnt) == BATCH
    same(tmp_path, alone)
    assert all(0.0 <= share <= 1.0 for share in told(tmp_path, 0, "idle_share"))
