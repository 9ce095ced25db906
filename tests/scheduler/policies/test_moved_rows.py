"""An admin's order arranges what waits: a row that is moved to the front pauses no run of its priority."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies import names
from scheduler.policies.order import PATIENCE_S, runs_in_front
from scheduler.types import ChangeKind
from tests.scheduler.pools import carry_out, dated, held_by, job, node, pool, runs, scene, way

NOW_S = 10_000.0
every_policy = pytest.mark.parametrize("policy", names())
DUE = {"deadline_s": NOW_S + 9_000.0}
OLD = {"at": NOW_S - PATIENCE_S - 1_000.0}


def paused(decision):
    return {change.job_id for change in decision.changes if change.kind is ChangeKind.PAUSE}


def run_and_rows(**more):
    """A run that is past its least stay, and two jobs that wait: (jobs, pool)."""
    at = more.pop("at", 0.0)
    held = runs(job("runs", way(run_s=500.0), at=at, can_pause=True, **more), "n1", "cpu0", since=at)
    rows = [job(name, way(run_s=1_000.0), at=at + later, **more) for name, later in (("a", 10.0), ("b", 20.0))]
    return [held, *rows], held_by([held], pool(node(cpus=1)))


@every_policy
@pytest.mark.parametrize("more", [{}, DUE, OLD], ids=["undated", "dated", "overdue"])
def test_a_row_that_is_moved_to_the_front_waits_for_a_run_of_its_priority(policy, more):
    (held, a, b), view = run_and_rows(**more)
    assert place([held, a, b], view, NOW_S, policy=policy).running == ("runs",)
    found = place([held, a, replace(b, rank=-1)], view, NOW_S, policy=policy)
    assert found.running == ("runs",) and not found.changes
    moves = policy != "edf_widest"  # it knows no order of an admin
    assert (found.waits["b"].position < found.waits["a"].position) is moves


@pytest.mark.parametrize("more", [{}, DUE], ids=["undated", "dated"])
def test_a_higher_priority_still_pauses_a_run(more):
    (held, a, b), view = run_and_rows(**more)
    found = place([held, a, replace(b, priority=1)], view, NOW_S, policy="deadline_energy")
    assert paused(found) == {"runs"} and [start.job_id for start in found.placements] == ["b"]


def test_a_run_stands_with_the_foremost_of_its_priority_alone():
    held, other = runs(job("held", at=NOW_S), "n1", "cpu0"), runs(job("other", at=NOW_S, priority=1), "n1", "cpu1")
    moved, late = job("moved", at=NOW_S, rank=-2), job("late", at=NOW_S)
    ranks = {one.job_id: one.rank for one in runs_in_front([held, other, moved, late], NOW_S)}
    assert ranks == {"held": -2, "other": 0, "moved": -2, "late": 0}


def test_without_moved_rows_nothing_is_made_anew():
    jobs = [runs(job("held"), "n1", "cpu0"), job("waits")]
    assert runs_in_front(jobs, NOW_S) is jobs


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["deadline_energy", "deadline", "fifo", "edf", "fair_share"]))
def test_no_move_to_the_front_pauses_a_run_of_the_same_priority_that_went_on(seed, policy):
    random = Random(seed)
    jobs, view, quotas = random.choice([scene, dated])(seed)
    jobs = [replace(job_, rank=0, priority=random.choice([0, 1])) for job_ in jobs]
    early = jobs[: len(jobs) // 2]
    running, view = carry_out(place(early, view, 100.0, policy=policy, quotas=quotas), early, view, 100.0)
    jobs = [*running, *jobs[len(jobs) // 2 :]]
    waiting = [job_ for job_ in jobs if not job_.is_running and not job_.promised]
    if not waiting:
        return
    moved = random.choice(waiting)
    before = paused(place(jobs, view, 200.0, policy=policy, quotas=quotas))
    shown = [replace(job_, rank=-1) if job_ is moved else job_ for job_ in jobs]
    after = paused(place(shown, view, 200.0, policy=policy, quotas=quotas))
    alike = {job_.job_id for job_ in jobs if job_.is_running and job_.priority == moved.priority}
    assert not (after - before) & alike
