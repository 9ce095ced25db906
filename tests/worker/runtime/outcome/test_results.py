"""The results of a run are on the disk when it says that it is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch import nn

from worker.runtime.outcome.results import _write_json, save_weights


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
