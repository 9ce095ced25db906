"""Sums and stages from GPU to GPU: two ranks on one GPU of which NCCL is told that they are on two hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.runs import (
    CLOSE,
    DEVICE,
    EXACT,
    apart,
    make,
    norm_apart,
    notes,
    paused,
    results,
    trained,
    weights,
)
from tests.gpu.test_ranks import BACKENDS
from tests.worker.runtime import samples

pytestmark = pytest.mark.gpu
BY_LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}


@pytest.fixture(autouse=True)
def real(gpu: dict[str, Any]) -> None:
    """NCCL needs the real one."""


def hosts(count: int) -> list[dict[str, str]]:
    """Variables of each rank."""
    return [{**BY_LOOPBACK, "NCCL_HOSTID": f"host-{rank}"} for rank in range(count)]


@pytest.fixture(scope="module")
def alone(exact: Path) -> Path:
    """Work folder of one process."""
    return trained(exact, exact / "work-alone-nccl", on="cpu")


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_ranks_learn_what_one_process_learns(backend: str, exact: Path, alone: Path, tmp_path: Path) -> None:
    work = trained(exact, tmp_path, on=(DEVICE, DEVICE), backend=backend, own=hosts(2), NCCL_DEBUG="INFO")
    assert apart(weights(work), weights(alone)) < CLOSE
    assert results(work)["metrics"]["val"]["loss"] == pytest.approx(results(alone)["metrics"]["val"]["loss"], rel=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_rounded_gradients_teach_about_the_same(compression: str, backend: str, alone: Path, tmp_path: Path) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT, training={"compression": compression})
    work = trained(program, tmp_path / "work", on=(DEVICE, DEVICE), backend=backend, own=hosts(2))
    assert apart(weights(work), weights(alone)) < 1e-2


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_pause_together_though_they_read_only_now_and_then_what_the_others_wish(
    backend: str, exact: Path, alone: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    more: dict[str, Any] = {"on": (DEVICE, DEVICE), "own": hosts(2), "DLH_SLOWDOWN": "200"}
    paused(exact, work, tmp_path / "requests", backend=backend, **more)
    trained(exact, work, on=DEVICE)
    assert apart(weights(work), weights(alone)) < CLOSE


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalisation_is_shared(backend: str, tmp_path: Path) -> None:
    assert norm_apart(tmp_path, on=(DEVICE, DEVICE), backend=backend, own=hosts(2)) < 10 * CLOSE


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_stages_learn_what_one_process_learns(schedule: str, tmp_path: Path) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT, training={"clip_norm": 0.5})
    one = trained(program, tmp_path / "one", on="cpu", DLH_MODE="single")
    samples.staged(program, micro_batches=4, schedule=schedule)
    two = trained(program, tmp_path / "two", on=(DEVICE, DEVICE), own=hosts(2))
    assert apart(weights(two), weights(one)) < CLOSE
    assert results(two)["metrics"]["val"]["loss"] == pytest.approx(results(one)["metrics"]["val"]["loss"], rel=1e-3)


def test_stages_go_on_from_a_run_alone_and_the_other_way_round(exact: Path, alone: Path, tmp_path: Path) -> None:
    program, work = make(tmp_path / "program", samples.wine, own=EXACT), tmp_path / "work"
    samples.staged(program)
    trained(program, work, "--epochs", "1")
    trained(program, work, "--epochs", "2", on=(DEVICE, DEVICE), own=hosts(2))
    trained(program, work, "--epochs", "3")
    assert apart(weights(work), weights(alone)) < CLOSE
    assert "Continuing from checkpoint" in notes(work)


def test_pipelines_beside_each_other_learn_what_one_process_learns(tmp_path: Path) -> None:
    program = make(tmp_path / "program", samples.wine, own=EXACT)
    one = trained(program, tmp_path / "one", on="cpu", DLH_MODE="single")
    samples.staged(program, stages=2, mode="pipeline+sync")
    four = trained(program, tmp_path / "four", on=(DEVICE,) * 4, own=hosts(4))
    assert apart(weights(four), weights(one)) < CLOSE
