"""Data for tests that read programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.samples import diabetes, digits, wine

PACKERS = {"digits": lambda folder: digits(folder, 300), "wine": wine, "diabetes": diabetes}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Folder and profile of each dataset."""
    root = tmp_path_factory.mktemp("packed")
    return {name: (root / name, pack(root / name)) for name, pack in PACKERS.items()}


@pytest.fixture(scope="module")
def wine_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program for a table, which tests copy before they spoil it."""
    folder = tmp_path_factory.mktemp("wine")
    training = {"epochs": 4, "batch_size": 16, "patience": 0}
    return samples.program(folder, wine(folder / "data"), model={"family": "mlp"}, training=training)
