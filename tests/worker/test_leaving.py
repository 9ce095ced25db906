"""How long a node that is shut down waits for its runs, and which of them it asks to save."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.attempt import Attempt
from worker.home import stop_save_s
from worker.plan import Limits, RankPlan, RunPaths, RunPlan


def test_a_run_has_half_a_minute_to_save_unless_the_operator_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DLH_STOP_SAVE_S", raising=False)
    assert stop_save_s() == 30.0
    for text, save_s in (("", 30.0), ("0", 0.0), ("2.5", 2.5)):
        monkeypatch.setenv("DLH_STOP_SAVE_S", text)
        assert stop_save_s() == save_s


@pytest.mark.parametrize("text", ["30s", "-5", "nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DLH_STOP_SAVE_S", text)
    with pytest.raises(ValueError, match=f"DLH_STOP_SAVE_S must be a number of seconds, 0 or more, not '{text}'"):
        stop_save_s()


@pytest.mark.parametrize(
    ("node", "least", "elsewhere", "is_dispensable"),
    [
        *[("b", 2, None, True), ("b", 3, None, False), ("b", 0, None, False), ("a", 1, None, False)],
        *[("b", 2, 1, False), ("b", 1, 1, True), ("b", 1, 0, False)],
    ],
)
def test_an_elastic_run_goes_on_without_a_node_that_is_not_its_first_where_enough_ranks_remain(
    tmp_path: Path, node: str, least: int, elsewhere: int | None, *, is_dispensable: bool
) -> None:
    ranks = tuple(
        RankPlan(rank=rank, node="ab"[rank // 2], local_rank=rank % 2, device="cpu", threads=1) for rank in range(4)
    )
    plan = RunPlan(
        job_id="job1", token=1, mode="sync", job_dir=str(tmp_path), dataset_dir=str(tmp_path), ranks=ranks, least=least,
        limits=Limits(memory_bytes=1, disk_bytes=1), minimum_sandbox_level=0, own_code=False,
    )  # fmt: skip
    assert Attempt(plan, RunPaths(tmp_path), node).is_dispensable(elsewhere) is is_dispensable
