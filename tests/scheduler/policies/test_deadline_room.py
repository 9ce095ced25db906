"""Who is paused by `deadline_energy` is told for whom and why: the reason holds for just these two jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.place import place
from scheduler.policies.deadline_room import Room
from tests.scheduler.pools import held_by, job, node, pool, runs, way

DAY_S = 24 * 3600.0
NOW_S = 3 * DAY_S


def change_of(jobs, view, now_s=0.0, **how):
    (change,) = place(jobs, held_by(jobs, view), now_s, policy="deadline_energy", **how).changes
    return change


def test_a_pause_for_a_job_of_higher_priority_names_the_priority_and_the_job():
    view = pool(node(cpus=2))
    lesser = runs(job("lesser", way(1, run_s=600.0), can_pause=True), "n1", "cpu0")
    change = change_of([lesser, job("urgent", way(2, run_s=60.0), at=1.0, priority=50)], view)
    assert change.reason == "It makes room for a job of higher priority."
    assert change.room_for == "urgent"


def test_a_pause_for_a_promise_names_the_promise():
    view = pool(node(cpus=2))
    lesser = runs(job("lesser", way(1, run_s=600.0), can_pause=True, priority=50), "n1", "cpu0", since=-9e3)
    due = job("due", way(2, run_s=60.0), at=1.0, deadline_s=70.0, promised=True, can_pause=True)
    change = change_of([lesser, due], view)
    assert (change.reason, change.room_for) == ("It makes room for a job whose deadline is promised.", "due")


def test_of_several_that_start_instead_none_is_named():
    view = pool(node(cpus=2))
    wide = runs(job("wide", way(2, run_s=600.0), can_pause=True), "n1", "cpu0", "cpu1")
    urgent = [job(name, way(1, run_s=60.0), at=1.0, priority=50) for name in ("u1", "u2")]
    change = change_of([wide, *urgent], view)
    assert (change.reason, change.room_for) == ("It makes room for a job of higher priority.", "")


PAIRS = [
    ({}, {"promised": True}, "It makes room for a job whose deadline is promised."),
    (
        {"promised": True},
        {"promised": True},
        "It makes room for a job whose deadline is promised, too, and goes first.",
    ),
    (
        {},
        {"submitted_s": NOW_S - 2 * DAY_S},
        "It makes room for a job that has waited for more than 24 h.",
    ),
    ({}, {"share": 0.5}, "It makes room for a job whose deadline can still be kept: it has none itself."),
    (
        {"deadline_s": 1.0},
        {"share": 0.5},
        "It makes room for a job whose deadline can still be kept: its own cannot.",
    ),
    ({"share": 0.5}, {"share": 0.2}, "It makes room for a job that needs less of the pool for its deadline."),
    ({"share": 0.2}, {"share": 0.5, "priority": 1}, "It makes room for a job of higher priority."),
    ({}, {"rank": -1}, "The plan has another job use its devices first."),
    ({}, {"submitted_s": NOW_S - 100.0}, "It makes room for a job that was submitted before it."),
    ({"share": 0.5}, {"priority": 1}, "Its deadline leaves time: another job has its devices first."),
    ({"priority": 1}, {"project": "q"}, "It makes room for a job of a project that has not used up its quota."),
    ({"priority": 1}, {}, "The plan has another job use its devices first."),
]


@pytest.mark.parametrize(("of_one", "of_taker", "told"), PAIRS)
def test_what_puts_one_job_before_another_is_told(of_one, of_taker, told):
    jobs, promised, shares = {}, set(), {}
    for name, fields in (("one", dict(of_one)), ("taker", dict(of_taker))):
        if (share := fields.pop("share", None)) is not None:
            shares[name] = share
        if fields.get("promised"):
            promised.add(name)
        jobs[name] = replace(job(name, at=NOW_S - 50.0, project="p"), **fields)
    room = Room(jobs=jobs, promised=promised, shares=shares, latest_s={}, limited={"p"}, now_s=NOW_S, patience_s=DAY_S)
    assert room.why("one", "taker") == told
