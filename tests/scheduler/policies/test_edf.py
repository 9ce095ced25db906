"""Policy `edf`: what is due first goes first, and everybody is told when they start."""

from __future__ import annotations

from dataclasses import replace

from scheduler.admit import admit
from scheduler.place import place
from scheduler.types import ChangeKind, Quota
from tests.scheduler.pools import carry_out, held_by, job, node, pool, way

NOW_S = 100.0
HOUR_S = 3600.0


def decided(jobs, view, quotas=None):
    return place(jobs, view, NOW_S, policy="edf", quotas=quotas or {})


def running(jobs, view):
    """The jobs once they have started on the idle pool."""
    return carry_out(decided(jobs, view), jobs, view, NOW_S)


def started(decision):
    return {start.job_id for start in decision.placements}


def test_the_earliest_deadline_starts_first():
    view = pool(node(cpus=1))
    late = job("late", way(1, run_s=60), at=0.0, deadline_s=NOW_S + 900)
    early = job("early", way(1, run_s=60), at=1.0, deadline_s=NOW_S + 300)
    assert started(decided([late, early, job("none", way(1, run_s=60), at=0.0)], view)) == {"early"}


def test_an_earlier_deadline_pauses_a_later_one_but_not_a_promise():
    view = pool(node(cpus=1))
    late = job("late", way(1, run_s=600), at=0.0, deadline_s=NOW_S + HOUR_S, can_pause=True)
    jobs, held = running([late], view)
    early = job("early", way(1, run_s=60), at=1.0, deadline_s=NOW_S + 300)
    changes = decided([*jobs, early], held).changes
    assert [(change.job_id, change.kind) for change in changes] == [("late", ChangeKind.PAUSE)]
    promised = [replace(one, promised=True) for one in jobs]
    assert not decided([*promised, early], held).changes


def test_a_deadline_behind_running_jobs_is_promised_with_the_finish_that_can_be_kept():
    view = pool(node(cpus=1))
    jobs, held = running([job("runs", way(1, run_s=HOUR_S), at=0.0)], view)
    tomorrow = job("new", way(1, run_s=60), at=1.0, deadline_s=NOW_S + 24 * HOUR_S)
    told = admit(tomorrow, jobs, held, NOW_S, policy="edf")
    assert told.accepted and told.finish_s is not None and told.finish_s > NOW_S + HOUR_S
    soon = replace(tomorrow, deadline_s=NOW_S + 600)
    refused = admit(soon, jobs, held, NOW_S, policy="edf")
    assert not refused.accepted and refused.earliest_finish_s is not None


def test_an_admins_order_comes_before_the_deadline():
    view = pool(node(cpus=1))
    early = job("early", way(1, run_s=60), at=0.0, deadline_s=NOW_S + 300)
    preferred = job("preferred", way(1, run_s=60), at=1.0, rank=-1)
    assert started(decided([early, preferred], view)) == {"preferred"}


def test_a_job_above_its_quota_borrows_what_nobody_needs():
    view = pool(node(cpus=2))
    wide = job("wide", way(2, run_s=60), at=0.0, project="p")
    assert started(decided([wide], view, {"p": Quota(devices={"cpu": 1})})) == {"wide"}


def test_what_runs_is_told_with_its_end():
    view = pool(node(cpus=1))
    jobs, held = running([job("runs", way(1, run_s=60), at=0.0)], view)
    assert held_by(jobs, view) == held
    waiting = job("waits", way(1, run_s=60), at=1.0)
    assert set(decided([*jobs, waiting], held).expected) == {"runs", "waits"}
