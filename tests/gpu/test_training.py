"""Programs of every family train on a GPU, in what it computes fastest, and learn what a processor learns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from codegen.profile.types import DatasetProfile
from tests.gpu.runs import (
    CLOSE,
    CLOSE_TF32,
    EXACT,
    NET,
    SAME,
    apart,
    checkpoints,
    failure,
    make,
    own_code,
    results,
    started,
    trained,
    weights,
)  # fmt: skip
from tests.worker.runtime import samples
from worker.runtime.device import choose_device
from worker.runtime.loss_scale import LossScale
from worker.runtime.loss_scale import trained as trained_weights
from worker.runtime.modes.replicated import Rounded
from worker.runtime.precision import Rounding

pytestmark = pytest.mark.gpu
Pack = Callable[[Path], DatasetProfile]


def digits(folder: Path) -> DatasetProfile:
    """Few pictures."""
    return samples.digits(folder, 150)


FAMILIES: list[tuple[str, Pack, dict[str, Any]]] = [
    ("mlp", samples.wine, {}),
    ("mlp", samples.diabetes, {}),
    ("resmlp", samples.diabetes, {"ema": 0.9, "optimizer": "adamw", "learning_rate": 0.002}),
    ("ft_transformer", samples.wine, {"optimizer": "adamw", "learning_rate": 0.002}),
    ("cnn", digits, {"augment": "shift"}),
    ("resnet", digits, {"augment": "shift_flip", "accumulate": 2}),
    ("convnext", digits, {"clip_norm": 1.0, "class_weights": "balanced"}),
]


@pytest.mark.parametrize("precision", ["auto", "float32", "fp16"])
@pytest.mark.parametrize(("family", "pack", "training"), FAMILIES, ids=[f"{f}-{p.__name__}" for f, p, _ in FAMILIES])
def test_every_family_trains_and_says_on_what(
    family: str, pack: Pack, training: dict[str, Any], precision: str, device: torch.device, tmp_path: Path
) -> None:
    training = {"epochs": 2, "precision": precision, "augment": "none", **training}
    program = make(tmp_path / "program", pack, model={"family": family, "size": "small"}, training=training)
    told = results(trained(program, tmp_path / "work"))
    assert all(math.isfinite(values["loss"]) for values in told["metrics"].values())
    assert told["environment"]["device"] == str(device)
    if device.type == "cuda":
        assert told["environment"]["gpu"] == torch.cuda.get_device_name(device)
        assert 0 < told["timing"]["peak_bytes"] < torch.cuda.get_device_properties(device).total_memory / 10
    assert told["charts"]


@pytest.mark.parametrize(
    ("precision", "told"),
    [("auto", "bfloat16"), ("bf16", "bfloat16"), ("float32", "float32"), ("fp16", "float16 with a loss scale")],
)
def test_layers_compute_in_bfloat16_unless_the_spec_says_otherwise(
    precision: str, told: str, gpu: dict[str, Any], device: torch.device, tmp_path: Path
) -> None:
    layer, rows = torch.nn.Linear(2, 2, device=device), torch.ones(1, 2, device=device)
    with Rounding(device, precision):
        assert str(layer(rows).dtype) == f"torch.{told.split()[0]}"
    program = make(tmp_path / "program", samples.wine, own=NET, training={"epochs": 1, "precision": precision})
    ranks = started(program, tmp_path / "work")
    assert ranks.wait() == [0]
    assert f", in {told}" in ranks.log()


@pytest.mark.parametrize(("precision", "kind"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_a_replica_in_a_thread_of_its_own_computes_in_what_the_spec_says(
    precision: str, kind: torch.dtype, device: torch.device
) -> None:
    layer, rows = torch.nn.Linear(2, 2, device=device), torch.ones(1, 2, device=device)
    with ThreadPoolExecutor(1) as pool:
        outputs = pool.submit(Rounded(layer, Rounding(device, precision).anew), rows).result()
    assert outputs.dtype == kind


def test_a_step_whose_gradients_overflow_in_float16_moves_nothing(device: torch.device) -> None:
    layer, rows = torch.nn.Linear(4, 1, device=device), torch.ones(2, 4, device=device)
    scale, before = LossScale(device, needed=True), layer.weight.detach().clone()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
    for _ in range(20):
        optimizer.zero_grad()
        scale.open(trained_weights(layer, {}))
        with Rounding(device, "fp16"):
            loss = layer(rows).float().mean() * 100.0
        torch.autograd.backward(scale.scale(loss))
        scale.unscale()
        optimizer.step()
        if not scale.overflowed:
            break
        assert torch.equal(layer.weight, before)
    assert 3 < scale.skipped < 20 and layer.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, torch.full_like(layer.weight, 100.0), rtol=1e-3, atol=0.0)
    assert not torch.equal(layer.weight, before)


def test_in_float32_without_tf32_a_gpu_learns_what_a_processor_learns(exact: Path, tmp_path: Path) -> None:
    here, there = trained(exact, tmp_path / "here"), trained(exact, tmp_path / "there", on="cpu")
    assert apart(weights(here), weights(there)) < CLOSE
    assert results(here)["metrics"]["val"]["loss"] == pytest.approx(results(there)["metrics"]["val"]["loss"], rel=1e-3)


@pytest.mark.parametrize("precision", ["float32", "auto", "fp16"])
def test_as_rounded_as_programs_are_a_gpu_learns_about_what_a_processor_learns(precision: str, tmp_path: Path) -> None:
    program = make(tmp_path / "program", samples.wine, own=NET, training={"precision": precision})
    here, there = trained(program, tmp_path / "here"), trained(program, tmp_path / "there", on="cpu")
    assert apart(weights(here), weights(there)) < (CLOSE_TF32 if precision == "float32" else 5 * CLOSE_TF32)


@pytest.mark.parametrize("family", ["mlp", "cnn"])
def test_the_same_seed_gives_the_same_weights(family: str, tmp_path: Path) -> None:
    pack, training = (samples.wine, {}) if family == "mlp" else (digits, {"augment": "shift"})
    model = {"family": family, "size": "small", "params": {"dropout": 0.3}}
    program = make(tmp_path / "program", pack, model=model, training={"epochs": 2, "ema": 0.9, **training})
    one, again = (weights(trained(program, tmp_path / name)) for name in ("one", "again"))
    if family == "mlp":
        assert apart(one, again) < SAME
    else:  # gradients of convolutions are added up in no fixed order, and small differences grow
        samples.change_spec(program, training={"seed": 2})
        assert apart(one, again) < apart(one, weights(trained(program, tmp_path / "other"))) / 3


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    runs = []
    for seed in (1, 2):
        folder = make(tmp_path / f"program-{seed}", samples.wine, own=EXACT, training={"epochs": 1, "seed": seed})
        runs.append(weights(trained(folder, tmp_path / f"work-{seed}")))
    assert apart(*runs) > 0.1


@pytest.mark.parametrize("where", ["build", "forward", "both"])
def test_a_program_may_move_itself_to_the_gpu(where: str, gpu: dict[str, Any], tmp_path: Path) -> None:
    own = EXACT
    if where != "build":
        own = own_code(own, "        numeric = numeric.cuda()")
    if where != "forward":
        own = own.replace("spec.shape.outputs)", "spec.shape.outputs).cuda()")
    work = trained(make(tmp_path / "program", samples.wine, own=own, training={"epochs": 1}), tmp_path / "work")
    assert results(work)["environment"]["gpu"] == gpu["model_name"]


@pytest.mark.parametrize(("mode", "spec"), [("replicated", {}), ("single", {"accumulate": 3})])
def test_replicas_and_micro_batches_learn_what_a_whole_batch_teaches(
    mode: str, spec: dict[str, Any], exact: Path, tmp_path: Path
) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT, training=spec)
    whole = trained(exact, tmp_path / "whole")
    assert apart(weights(trained(program, tmp_path / "other", DLH_MODE=mode)), weights(whole)) < CLOSE


def test_a_gpu_that_is_not_there_is_told(exact: Path, tmp_path: Path) -> None:
    ranks = started(exact, tmp_path, on="cuda:77")
    assert ranks.wait() != [0]
    told = failure(tmp_path)
    assert told["code"] == "data_error" and "cuda:77" in told["message"]


def test_the_device_is_chosen_by_what_is_there(device: torch.device) -> None:
    assert choose_device("auto") == device
    assert choose_device(device.type) == device


def test_weights_learnt_on_a_gpu_lie_in_files_as_those_of_a_processor(exact: Path, tmp_path: Path) -> None:
    here, there = trained(exact, tmp_path / "here"), trained(exact, tmp_path / "there", on="cpu")
    kinds = [{name: (tensor.dtype, tensor.device.type) for name, tensor in weights(work).items()}
             for work in (here, there)]  # fmt: skip
    assert kinds[0] == kinds[1]
    assert [state["position"]["step"] for state in checkpoints(here)] == [
        state["position"]["step"] for state in checkpoints(there)
    ]


@pytest.mark.parametrize("precision", ["auto", "float32", "fp16"])
def test_results_of_a_gpu_are_what_a_processor_predicts(precision: str, tmp_path: Path) -> None:
    model = {"family": "mlp", "size": "small"}
    program = make(tmp_path, samples.diabetes, model=model, training={"epochs": 1, "precision": precision})
    work = trained(program, tmp_path / "work")
    told = pq.read_table(work / "results" / "predictions.parquet")["predicted"].to_pylist()[:20]
    pq.write_table(pq.read_table(program / "data" / "table.parquet").slice(0, 20), tmp_path / "rows.parquet")
    given = ("--input", str(tmp_path / "rows.parquet"), "--output", str(tmp_path / "output.json"))
    done = samples.run(program, "predict.py", *given)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "output.json").read_text())["rows"]
    assert [row[1] for row in rows] == pytest.approx(told, rel=1e-5)
