"""What a plan says of unlike ranks reaches each rank as variables, through JSON and back."""

from __future__ import annotations

import json
from pathlib import Path

from worker.attempt import Attempt
from worker.plan import Limits, RankPlan, RunPaths, RunPlan
from worker.runtime.settings import Settings
from worker.shares import Line, Planned


def plan(*ranks: RankPlan) -> RunPlan:
    """A plan of these ranks, as a node gets it."""
    made = RunPlan(
        job_id="j", token=1, mode="sync", ranks=ranks, job_dir="/j", dataset_dir="/d",
        limits=Limits(memory_bytes=1 << 30, disk_bytes=1 << 30), minimum_sandbox_level=0, own_code=False,
    )  # fmt: skip
    return RunPlan.from_dict(json.loads(made.to_json()))


def rank(number: int, **more: object) -> RankPlan:
    return RankPlan(rank=number, node="n", local_rank=number, device="cpu", threads=1, **more)  # type: ignore[arg-type]


def test_rows_lines_and_slowdown_arrive_at_the_rank() -> None:
    lines = (Line(0.001, 0.002), Line(0.003, 0.006))
    told = plan(rank(0, rows=43, line=lines[0]), rank(1, rows=21, rows_most=30, line=lines[1], slowdown=3.0))
    attempt = Attempt(plan=told, paths=RunPaths(Path("/j")), node="n")
    first, second = (Settings.read([], attempt.rank_environment(one)) for one in told.ranks)
    assert first.split == second.split == Planned(rows=(43, 21), most=(0, 30), lines=lines)
    assert (first.slowdown, second.slowdown) == (1.0, 3.0)


def test_of_like_ranks_memory_and_lines_arrive_and_no_rows() -> None:
    line = Line(0.001, 0.002)
    told = plan(*(rank(number, rows_most=40, line=line) for number in range(2)))
    attempt = Attempt(plan=told, paths=RunPaths(Path("/j")), node="n")
    split = Settings.read([], attempt.rank_environment(told.ranks[1])).split
    assert split == Planned(rows=(0, 0), most=(40, 40), lines=(line, line))
    assert split is not None and split.alike


def test_even_ranks_are_told_nothing() -> None:
    told = plan(rank(0), rank(1))
    environment = Attempt(plan=told, paths=RunPaths(Path("/j")), node="n").rank_environment(told.ranks[1])
    assert not {"DLH_SPLIT", "DLH_SLOWDOWN"} & set(environment)
