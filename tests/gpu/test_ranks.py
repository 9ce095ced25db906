"""Ranks on one GPU, and on a GPU and a processor: together they learn what one process learns."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.runs import (
    BATCH,
    CLOSE,
    DEVICE,
    EXACT,
    apart,
    changed,
    checkpoints,
    failure,
    make,
    norm_apart,
    notes,
    paused,
    results,
    started,
    trained,
    weights,
)  # fmt: skip
from tests.untested import untested
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events
from worker.plan import EXIT_REPORTED
from worker.shares import Line, Planned

pytestmark = pytest.mark.gpu
NO_HOROVOD = untested("Horovod on GPUs", "it is not installed")
BACKENDS = [
    pytest.param("horovod", marks=pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason=NO_HOROVOD)),
    "torch",
]
PLACES = [(DEVICE, DEVICE), (DEVICE, "cpu"), ("cpu", DEVICE)]
IDS = ["a GPU for both", "a GPU first", "a GPU second"]


@pytest.fixture(scope="module")
def alone(exact: Path) -> Path:
    """Work folder of one process."""
    return trained(exact, exact / "work-alone", on="cpu")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("places", PLACES, ids=IDS)
def test_two_ranks_learn_what_one_process_learns(
    places: tuple[str, str], backend: str, exact: Path, alone: Path, tmp_path: Path
) -> None:
    work = trained(exact, tmp_path, on=places, backend=backend)
    assert apart(weights(work), weights(alone)) < CLOSE
    assert results(work)["metrics"]["val"]["loss"] == pytest.approx(results(alone)["metrics"]["val"]["loss"], rel=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_three_ranks_share_a_gpu_and_a_processor(backend: str, exact: Path, alone: Path, tmp_path: Path) -> None:
    work = trained(exact, tmp_path, on=(DEVICE, "cpu", DEVICE), backend=backend)
    assert apart(weights(work), weights(alone)) < CLOSE


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_rounded_gradients_teach_about_the_same(compression: str, backend: str, alone: Path, tmp_path: Path) -> None:
    training = {"compression": compression}
    program = make(tmp_path / "program", samples.wine, own=EXACT, training=training)
    work = trained(program, tmp_path / "work", on=(DEVICE, "cpu"), backend=backend)
    assert apart(weights(work), weights(alone)) < 1e-2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compression", ["none", "fp16"])
@pytest.mark.parametrize("places", PLACES, ids=IDS)
def test_float16_teaches_about_the_same(
    places: tuple[str, str], compression: str, backend: str, alone: Path, tmp_path: Path
) -> None:
    training = {"precision": "fp16", "compression": compression}
    program = make(tmp_path / "program", samples.wine, own=EXACT, training=training)
    work = trained(program, tmp_path / "work", on=places, backend=backend)
    assert apart(weights(work), weights(alone)) < 1e-2
    assert checkpoints(work)[-1]["loss_scale"]["scaler"]["scale"] > 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gpu_beside_a_processor_computes_in_float32_as_that_does(
    backend: str, gpu: dict[str, Any], tmp_path: Path
) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT, training={"precision": "auto", "epochs": 1})
    for place, places in enumerate(((DEVICE, "cpu"), ("cpu", DEVICE))):
        ranks = started(program, tmp_path / str(place), on=places, backend=backend)
        assert ranks.wait() == [0, 0], ranks.log()
        assert ", in float32 (auto: a processor is not built for 16 bits)" in ranks.log()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [(11, 5), (4, 12)], ids=["most on the GPU", "most on the processor"])
def test_an_uneven_split_between_a_gpu_and_a_processor_weighs_gradients_by_rows(
    rows: tuple[int, int], backend: str, exact: Path, alone: Path, tmp_path: Path
) -> None:
    assert sum(rows) == BATCH
    planned = Planned(rows=rows, lines=(Line(0.0, 0.001), Line(0.0, 0.001)), correct=False)
    work = trained(exact, tmp_path, on=(DEVICE, "cpu"), backend=backend, DLH_SPLIT=planned.to_json())
    assert apart(weights(work), weights(alone)) < CLOSE
    for rank in (0, 1):
        assert set(told(work, rank, "rows")) == {float(rows[rank])}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_split_that_is_corrected_keeps_to_the_same_course(
    backend: str, exact: Path, alone: Path, tmp_path: Path
) -> None:
    planned = Planned(rows=(9, 7), lines=(Line(0.0, 0.0001), Line(0.0, 0.0001)))
    own = {"DLH_SPLIT": planned.to_json(), "DLH_SLOWDOWN": "3"}
    work = trained(exact, tmp_path, on=(DEVICE, "cpu"), backend=backend, **own)
    assert apart(weights(work), weights(alone)) < CLOSE


def told(work: Path, rank: int, name: str) -> list[float]:
    """Values of one curve of a rank."""
    values: list[dict[str, Any]] = [event["data"].get("values", {}) for event in events(work, rank)]
    return [value[f"rank{rank}/{name}"] for value in values if f"rank{rank}/{name}" in value]


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_on_unlike_devices_pause_together_and_go_on_as_one_process(
    backend: str, exact: Path, alone: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    place = "        optimizer.zero_grad"
    slow = changed(exact, tmp_path / "slow", place, f"        __import__('time').sleep(0.1)\n{place}")
    paused(slow, work, tmp_path / "requests", on=(DEVICE, "cpu"), backend=backend)
    trained(exact, work, on=DEVICE)
    assert apart(weights(work), weights(alone)) < CLOSE


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalisation_is_shared_between_a_gpu_and_a_processor(backend: str, tmp_path: Path) -> None:
    assert norm_apart(tmp_path, on=(DEVICE, "cpu"), backend=backend) < 10 * CLOSE


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("places", "backup"), [((DEVICE, DEVICE), None), ((DEVICE, "cpu"), None), ((DEVICE, "cpu"), 1)],
    ids=["a GPU for both", "a GPU and a processor", "in step"],
)  # fmt: skip
def test_parameter_servers_take_gradients_of_gpus(
    places: tuple[str, str], backup: int | None, backend: str, tmp_path: Path
) -> None:
    training = {"epochs": 6, "optimizer": "adamw", "learning_rate": 0.01, "ema": 0.9}
    program = make(tmp_path / "program", samples.wine, own=EXACT, training=training)
    if backup is not None:
        samples.change_spec(program, training={"backup": backup})
    work = trained(program, tmp_path / "work", on=places, backend=backend, DLH_MODE="async")
    assert results(work)["metrics"]["val"]["accuracy"] > 0.7
    state = checkpoints(work)[-1]["parts"]["optimizer"]["state"]
    assert state and all(tensor.isfinite().all() for entry in state.values() for tensor in entry.values())


def test_a_run_with_parameter_servers_goes_on_alone(tmp_path: Path) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT, training={"epochs": 4, "optimizer": "adamw"})
    work = trained(program, tmp_path / "work", "--epochs", "2", on=(DEVICE, "cpu"), DLH_MODE="async")
    trained(program, work, on=DEVICE)
    assert "Continuing from checkpoint" in notes(work)


@pytest.mark.parametrize("places", PLACES, ids=IDS)
def test_stages_that_share_a_gpu_or_have_none_beside_it_are_refused(
    places: tuple[str, str], gpu: dict[str, Any], tmp_path: Path
) -> None:
    program = samples.staged(make(tmp_path / "program", samples.wine, own=EXACT))
    ranks = started(program, tmp_path / "work", on=places)
    assert ranks.wait(120) == [EXIT_REPORTED] * 2, ranks.log() + ranks.log(1)
    assert "a GPU of its own" in failure(tmp_path / "work")["message"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_fault_of_a_gpu_is_told_by_its_rank_and_the_other_one_ends(backend: str, tmp_path: Path) -> None:
    spoilt = EXACT.replace(
        "        return self.layers(numeric)",
        "        if self.training and numeric.device.type == 'cuda':\n"
        "            numeric = numeric[:, torch.full_like(numeric[0], 99).long()]\n"
        "        return self.layers(numeric)",
    ).replace("'cuda'", repr(torch.device(DEVICE).type))
    program = make(tmp_path / "program", samples.wine, own=spoilt)
    ranks = started(program, tmp_path / "work", on=(DEVICE, "cpu"), backend=backend)
    assert ranks.processes[0].wait(120) == EXIT_REPORTED, ranks.log()
    ranks.kill()
