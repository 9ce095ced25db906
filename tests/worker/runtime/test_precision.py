"""What layers compute in: by the device that trains, not the current one, and by the spec."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks
from worker.runtime.device import Rounding

OLD, NEW = torch.device("cuda", 0), torch.device("cuda", 1)


@pytest.fixture
def a_v100_and_an_a100(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the V100 is the current device; torch emulates bfloat16 there."""
    capabilities = {None: (7, 0), OLD: (7, 0), NEW: (8, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capabilities[device])
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)


@pytest.mark.usefixtures("a_v100_and_an_a100")
@pytest.mark.parametrize(
    ("device", "precision", "told"),
    [
        (OLD, "auto", "float32"),
        (NEW, "auto", "bfloat16"),
        (torch.device("cpu"), "auto", "float32"),
        (OLD, "bf16", "bfloat16"),
        (NEW, "float32", "float32"),
    ],
)
def test_only_devices_built_for_bfloat16_compute_in_it_unless_the_spec_says_so(
    device: torch.device, precision: str, told: str
) -> None:
    rounding = Rounding(device, precision)
    assert (rounding.name, rounding.exact) == (told, told == "float32")


def test_layers_compute_in_bfloat16_until_exact_figures_are_wanted() -> None:
    layer, rows = torch.nn.Linear(2, 2), torch.ones(1, 2)
    rounding = Rounding(torch.device("cpu"), "bf16")
    with rounding:
        assert layer(rows).dtype == torch.bfloat16
    rounding.exact = True
    with rounding:
        assert layer(rows).dtype == torch.float32


@pytest.mark.ranks
@pytest.mark.parametrize("mode", ["single", "sync", "async", "pipeline"])
def test_a_run_says_in_its_opening_line_what_it_computes_in(tmp_path: Path, mode: str) -> None:
    training = {"epochs": 1, "batch_size": 16, "precision": "bf16"}
    profile, size = samples.digits(tmp_path / "data", rows=100), 1 if mode == "single" else 2
    model, resources = {"family": "cnn", "size": "small"}, {"count": 1}
    program = samples.program(tmp_path / "program", profile, training=training, model=model, resources=resources)
    backend = "torch" if mode == "pipeline" else "horovod"
    ranks = Ranks(program, size, backend=backend, DLH_DATA=str(tmp_path / "data"), DLH_MODE=mode)
    assert set(ranks.wait()) == {0}, ranks.log(0)
    assert ", in bfloat16" in ranks.log(0)
