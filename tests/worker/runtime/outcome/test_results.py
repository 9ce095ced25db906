"""The results of a run are on the disk when it says that it is done."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from torch import nn

from worker.runtime.data import Dataset, Part
from worker.runtime.outcome.results import _said_rows, _write_json, save_weights, unsaid_notes


def test_what_a_run_leaves_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flushed(fd: int) -> None:
        done.append(f"flush {Path(f'/proc/self/fd/{fd}').readlink().name}")
        fsync(fd)

    def placed(source: Path, target: Path) -> None:
        done.append(f"place {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", placed)
    _write_json(tmp_path / "results.json", {"metrics": {}})
    save_weights(nn.Linear(2, 1), tmp_path / "model.safetensors")
    wanted = []
    for name in ("results.json", "model.safetensors"):
        wanted += [f"flush .{name}", f"place {name}", f"flush {tmp_path.name}"]
    assert done == wanted


def test_what_is_known_of_the_rows_that_charts_leave_out_is_left_out_with_them() -> None:
    part = Part((torch.zeros(3, 1),), torch.zeros(3), torch.tensor([4, 5, 6]), values=torch.arange(3).double())
    moments = pa.table({"series": ["a", "b", "c"], "steps ahead": [1, 2, 3]})
    dataset = Dataset(part, part, part, moments={"val": moments, "test": moments})
    outputs = torch.tensor([[1.0], [torch.inf], [2.0]])
    left, said, table, known = _said_rows("test", part, outputs, pa.table({"x": [7, 8, 9]}), dataset)
    assert left.rows.tolist() == [4, 6] and left.values is not None and left.values.tolist() == [0.0, 2.0]
    assert said.tolist() == [[1.0], [2.0]] and table["x"].to_pylist() == [7, 9]
    assert known.moments["test"]["series"].to_pylist() == ["a", "c"] and known.moments["val"] is moments
    (note,) = unsaid_notes({"test": part, "val": part.take(slice(0, 0))}, {"test": outputs, "val": torch.zeros(0, 1)})
    assert note.startswith("For 1 row of 3 to test") and "row 6 of the data" in note


def test_a_class_that_is_ruled_out_by_minus_infinity_is_said_all_the_same() -> None:
    part = Part((torch.zeros(2, 1),), torch.tensor([0, 1]), torch.arange(2))
    outputs = torch.tensor([[-torch.inf, 1.0], [0.5, -torch.inf]])
    assert unsaid_notes({"test": part}, {"test": outputs}) == []
