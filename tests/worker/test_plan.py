"""What follows from a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.attempt import Attempt
from worker.plan import Limits, RankPlan, RunPaths, RunPlan


def plan(mode: str, backend: str, device: str) -> RunPlan:
    """A rank on each of two nodes."""
    ranks = tuple(
        RankPlan(rank=rank, node=node, local_rank=0, device=device, threads=1) for rank, node in enumerate("ab")
    )
    return RunPlan(
        job_id="j", token=1, mode=mode, ranks=ranks, job_dir="/j", dataset_dir="/d", backend=backend,
        limits=Limits(memory_bytes=1 << 30, disk_bytes=1 << 30), minimum_sandbox_level=0, own_code=False,
        addresses={"a": "127.0.0.1", "b": "127.0.0.1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "backend", "device", "notice"),
    [
        ("sync", "horovod", "cpu", True),
        ("sync", "torch", "cpu", False),
        ("async", "horovod", "cpu", False),
        ("sync", "horovod", "cuda:0", False),
        ("pipeline", "torch", "cpu", False),
    ],
)
def test_ranks_give_up_those_that_are_cut_off_in_sums_by_gloo_alone(
    mode: str, backend: str, device: str, notice: bool
) -> None:
    assert plan(mode, backend, device).notices_cuts is notice


@pytest.mark.parametrize(("mode", "asks"), [("sync", False), ("async", True)])
def test_nodes_whose_ranks_notice_no_cut_ask_the_others(mode: str, asks: bool) -> None:
    attempt = Attempt(plan(mode, "horovod", "cpu"), RunPaths(Path("/j")), "a")
    assert attempt.launch_config(0, {0: (1, 2)}).asks_others is asks
