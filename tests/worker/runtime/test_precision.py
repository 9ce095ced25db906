"""What layers compute in: by the devices that train, not the current one, and by the spec."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from scheduler.estimation.device_table import figures_for
from tests.worker.runtime import samples
from tests.worker.runtime.lone import Lone
from tests.worker.runtime.ranks import Ranks
from worker.runtime.collective import Group
from worker.runtime.modes.replicated import Replicated
from worker.runtime.precision import Abilities, Rounding, choose
from worker.runtime.spec import as_spec

GPUS = {
    "Tesla V100": (7, 0), "A100": (8, 0), "Tesla T4": (7, 5), "Tesla P100": (6, 0), "Tesla P40": (6, 1), "K80": (3, 7),
}  # fmt: skip
V100, A100, T4, P100, P40, K80 = (torch.device("cuda", number) for number in range(len(GPUS)))
CPU = torch.device("cpu")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the V100 is the current device; torch emulates bfloat16 there."""
    names = list(GPUS)

    def name_of(device: torch.device | None = None) -> str:
        return names[0 if device is None else device.index or 0]

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: GPUS[name_of(device)])
    monkeypatch.setattr(torch.cuda, "get_device_name", name_of)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("device", "precision", "told", "why"),
    [
        (A100, "auto", "bfloat16", "auto: A100 is built for it"),
        (V100, "auto", "float16", "auto: Tesla V100 is not built for bfloat16"),
        (T4, "auto", "float16", "auto: Tesla T4 is not built for bfloat16"),
        (P100, "auto", "float32", "auto: Tesla P100 is not built for 16 bits"),
        (P40, "auto", "float32", "auto: Tesla P40 is not built for 16 bits"),
        (K80, "auto", "float32", "auto: K80 is not built for 16 bits"),
        (CPU, "auto", "float32", "auto: a processor is not built for 16 bits"),
        (V100, "bf16", "bfloat16", "by the spec, though Tesla V100 is not built for it"),
        (A100, "fp16", "float16", "by the spec"),
        (CPU, "fp16", "float16", "by the spec, though a processor is not built for it"),
        (A100, "float32", "float32", "by the spec"),
    ],
)
def test_a_device_computes_in_the_16_bits_that_it_is_built_for_unless_the_spec_says_otherwise(
    device: torch.device, precision: str, told: str, why: str
) -> None:
    rounding = Rounding(device, precision)
    assert (rounding.name, rounding.why, rounding.exact) == (told, why, told == "float32")
    assert rounding.needs_scale == (told == "float16")


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("wanted", ["auto", "float32", "bf16", "fp16"])
@pytest.mark.parametrize("device", [V100, A100, T4, P100, CPU], ids=str)
def test_estimates_expect_products_in_what_a_run_computes_them_in(
    device: torch.device, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")  # as `set_up_torch` does for a GPU
    name = list(GPUS)[device.index or 0] if device.type == "cuda" else "a core"
    assert Rounding(device, wanted).products == figures_for(device.type, name).computes_in(wanted)


@pytest.mark.usefixtures("gpus")
def test_a_program_that_wants_its_float32_exact_has_nothing_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    assert Rounding(A100, "float32").products == "float32"


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ((A100, A100), ("bfloat16", "auto: A100 is built for it")),
        ((A100, V100), ("float16", "auto: Tesla V100 is not built for bfloat16")),
        ((A100, P40), ("float32", "auto: Tesla P40 is not built for 16 bits")),
        ((CPU, A100), ("float32", "auto: a processor is not built for 16 bits")),
    ],
)
def test_unlike_ranks_agree_on_what_all_of_them_are_built_for(
    devices: tuple[torch.device, torch.device], told: tuple[str, str]
) -> None:
    meeting, bodies = Barrier(2, timeout=30), dict[int, torch.Tensor]()

    class Meeting(Lone):
        """Two threads as ranks."""

        def __init__(self, rank: int) -> None:
            self.rank = rank

        def gather(self, tensor: torch.Tensor) -> torch.Tensor:
            bodies[self.rank] = tensor
            meeting.wait()
            return torch.cat([bodies[0], bodies[1]])

    def agreed(rank: int) -> tuple[str, str]:
        rounding = Rounding(devices[rank])
        rounding.agree(cast(Group, Meeting(rank)))
        return rounding.name, rounding.why

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(agreed, range(2))) == [told, told]


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("wanted", "told"), [("auto", "float16"), ("bf16", "bfloat16")], ids=["by the devices", "by the spec"]
)
def test_replicas_on_unlike_gpus_compute_in_what_all_of_them_are_built_for(
    wanted: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    rounding, spec = Rounding(A100, wanted), as_spec({"training": {}, "resources": {"count": 2}})
    run = SimpleNamespace(spec=spec, world_size=1, device=A100, autocast=rounding)
    Replicated(cast(Any, run), 1)
    assert rounding.name == told


def test_bfloat16_which_needs_no_scale_goes_before_float16() -> None:
    able, older = Abilities("new", ("bf16", "fp16")), Abilities("old", ("fp16",))
    assert [choose("auto", ranks)[0] for ranks in ([able], [able, older], [older])] == ["bf16", "fp16", "fp16"]


@pytest.mark.parametrize(("precision", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_layers_compute_in_16_bits_until_exact_figures_are_wanted(precision: str, kind: torch.dtype) -> None:
    layer, rows = torch.nn.Linear(2, 2), torch.ones(1, 2)
    rounding = Rounding(CPU, precision)
    with rounding:
        assert layer(rows).dtype == kind
    rounding.exact = True
    with rounding:
        assert layer(rows).dtype == torch.float32


@pytest.mark.ranks
@pytest.mark.parametrize(("precision", "told"), [("bf16", "bfloat16"), ("fp16", "float16 with a loss scale")])
@pytest.mark.parametrize("mode", ["single", "sync", "async", "pipeline"])
def test_a_run_says_in_its_opening_line_and_its_results_what_it_computes_in_and_why(
    tmp_path: Path, mode: str, precision: str, told: str
) -> None:
    training = {"epochs": 1, "batch_size": 16, "precision": precision}
    profile, size = samples.digits(tmp_path / "data", rows=100), 1 if mode == "single" else 2
    model, resources = {"family": "cnn", "size": "small"}, {"count": 1}
    program = samples.program(tmp_path / "program", profile, training=training, model=model, resources=resources)
    backend = "torch" if mode == "pipeline" else "horovod"
    ranks = Ranks(program, size, backend=backend, DLH_DATA=str(tmp_path / "data"), DLH_MODE=mode)
    assert set(ranks.wait()) == {0}, ranks.log(0)
    words = f"{told} (by the spec, though a processor is not built for it)"
    assert f", in {words}" in ranks.log(0)
    body = json.loads((program / "work" / "results" / "results.json").read_text())
    assert body["environment"]["precision"] == words
    assert ("skipped_steps" in body["timing"]) == (precision == "fp16")
