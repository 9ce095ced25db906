"""What only a real GPU shows. Where there is none, every test here is skipped, and says so.

`TEST_DEVICE=cpu` has the processor stand in for the GPU, to try the tests themselves: those that need the real
one are skipped then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.runs import DEVICE, EXACT, make
from tests.untested import untested
from tests.worker.runtime import samples
from worker import devices
from worker.sandbox import abilities

NO_GPU = untested("GPUs", "torch finds none here")
NO_NVML = untested("GPUs", "NVML, the driver's own library, does not answer")
NOT_REAL = untested("a real GPU", "the processor stands in for it")


def missing() -> str:
    """Why nothing here can be tested; empty where it can be."""
    if DEVICE == "cpu":
        return ""
    if not torch.cuda.is_available():
        return NO_GPU
    return "" if any(found["kind"] == "cuda" for found in devices.devices()) else NO_NVML


@pytest.fixture(scope="session", autouse=True)
def something_to_test() -> None:
    """Skips before anything is made for a test."""
    if problem := missing():
        pytest.skip(problem)


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The GPU, or what stands in for it."""
    return torch.device(DEVICE)


@pytest.fixture(scope="session")
def gpu() -> dict[str, Any]:
    """The entry of `devices.devices()` for the GPU that torch drives; there is none where another device stands in."""
    if DEVICE == "cpu":
        pytest.skip(NOT_REAL)
    uuid = f"GPU-{torch.cuda.get_device_properties(DEVICE).uuid}"
    found = [entry for entry in devices.devices() if entry.get("uuid") == uuid]
    assert len(found) == 1, "NVML knows this GPU by another name than torch does"
    return found[0]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose weights depend on nothing but its rows and their order, whatever computes them."""
    return make(tmp_path_factory.mktemp("exact"), samples.wine, own=EXACT)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`DLH_HOME` of this test, below folders that other user ids may pass through, as pytest's are not."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        monkeypatch.setenv("DLH_HOME", f"{above}/var")
        abilities.ingredients.cache_clear()
        yield Path(above, "var")
    abilities.ingredients.cache_clear()
