"""A made calibration that ships with the harness."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.calibration import shipped
from harness.calibration.shipped import Provenance, Shipped
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.fit import fit_device_model
from tests.scheduler.made_workloads import points

SOURCE, HERE = "Lending core", "core"
"""The device that was measured, and what the made nodes have."""


def points_of(name: str, count: int, seed: int = 0) -> Sequence[CalibrationPoint]:
    return [replace(made, model_name=name) for made in points(count, seed=seed)]


@cache
def _body() -> str:
    model = fit_device_model(points_of(SOURCE, 40, seed=1))
    told = Provenance(
        measured_on="2030-01-31", software="Python 3, torch 2", conditions="An idle machine.", points=40, sha256=""
    )
    return json.dumps(Shipped(provenance=told, model=model).to_dict())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    """What ships is one calibration of `SOURCE`."""
    made = tmp_path / "measured"
    made.mkdir()
    (made / "lending.json").write_text(_body())
    monkeypatch.setattr(shipped, "FOLDER", made)
    settings.SHIPPED_CALIBRATIONS = True
    return made
