"""When a run without progress is ended: once its ranks have said where they stand, and others before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.attempt import Attempt
from worker.cause import Seen
from worker.plan import Limits, RankPlan, RunPaths, RunPlan
from worker.warden import OTHERS_S, PAUSE_FILE, STACKS_MOST_S, STACKS_S, Warden

STALL_S = 10.0
HEAD = "Stack (most recent call first):"
STUCK = [HEAD, '  File "/x/program/train.py", line 3 in dream']
WAITS = [HEAD, '  File "/x/worker/runtime/collective.py", line 107 in wait']


@pytest.fixture
def tails() -> dict[int, list[str]]:
    """What the two ranks here have printed; another one is elsewhere."""
    return {0: [], 1: []}


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


@pytest.fixture
def begun(tmp_path: Path, paths: RunPaths, tails: dict[int, list[str]]) -> Warden:
    """Nothing has happened yet."""
    plan = RunPlan(
        job_id="j", token=1, mode="sync", job_dir=str(tmp_path), dataset_dir=str(tmp_path), minimum_sandbox_level=0,
        limits=Limits(memory_bytes=1 << 30, disk_bytes=1 << 30, stall_s=STALL_S), own_code=False,
        ranks=tuple(
            RankPlan(rank=rank, node=node, local_rank=0, device="cpu", threads=1) for rank, node in enumerate("aab")
        ),
    )  # fmt: skip
    paths.requests(1).mkdir(parents=True)
    return Warden(Attempt(plan, paths, "a"), Seen(1 << 30, 1 << 30, several_nodes=True), 0.0, lambda: tails)


@pytest.fixture
def warden(begun: Warden) -> Warden:
    """It has just found that nothing goes on, at `STALL_S`."""
    begun.check(STALL_S + 1.0, 0)
    assert begun.seen.verdict and not begun.ends(STALL_S + 1.0, fenced=False)
    return begun


def ended_after(warden: Warden) -> float:
    """Seconds from the verdict to the end."""
    waited_s = 0.0
    while not warden.ends(STALL_S + 1.0 + waited_s, fenced=False):
        waited_s += 0.5
    return waited_s


def test_a_rank_that_stands_still_ends_the_run_as_soon_as_all_have_said_where_they_stand(
    warden: Warden, tails: dict[int, list[str]]
) -> None:
    tails[0], tails[1] = WAITS, STUCK
    assert ended_after(warden) == STACKS_S


def test_a_rank_that_has_not_said_where_it_stands_is_given_more_time(
    warden: Warden, tails: dict[int, list[str]]
) -> None:
    tails[0] = WAITS
    assert not warden.ends(STALL_S + 1.0 + 2 * STACKS_S, fenced=False)
    tails[1] = STUCK
    assert warden.ends(STALL_S + 1.0 + 2 * STACKS_S, fenced=False)


def test_ranks_that_say_nothing_are_not_waited_for_without_end(warden: Warden) -> None:
    assert ended_after(warden) == STACKS_MOST_S


def test_where_all_wait_for_ranks_elsewhere_the_others_have_the_first_word(
    warden: Warden, tails: dict[int, list[str]]
) -> None:
    tails[0] = tails[1] = WAITS
    assert ended_after(warden) == STACKS_S + OTHERS_S


def test_ranks_that_were_asked_to_save_before_they_leave_do_so_though_others_could_do_without_them_by_now(
    begun: Warden, paths: RunPaths
) -> None:
    asked = paths.requests(1) / PAUSE_FILE
    begun.leave(gains=True, overdue=False)
    assert asked.exists()
    begun.leave(gains=False, overdue=False)
    assert not begun.ends(1.0, fenced=False), "those on other nodes may be saving with them"
    begun.leave(gains=False, overdue=True)
    assert begun.ends(1.0, fenced=False)


def test_ranks_of_a_node_that_leaves_are_ended_at_once_where_saving_gains_nothing(
    begun: Warden, paths: RunPaths
) -> None:
    begun.leave(gains=False, overdue=False)
    assert begun.ends(1.0, fenced=False) and not (paths.requests(1) / PAUSE_FILE).exists()
