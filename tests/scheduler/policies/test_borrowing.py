"""Who can only start above the quota of its project is told when, and nothing is kept for it."""

from __future__ import annotations

import pytest

from scheduler.place import place
from scheduler.policies import names
from scheduler.types import Quota
from tests.scheduler.policies.test_deadline_energy import counts, planned, view
from tests.scheduler.policies.test_queueing import decide, started
from tests.scheduler.pools import hard_quota, held_by, job, node, pool, runs, way


def test_who_waits_to_borrow_is_told_when_as_everybody_is():
    lent = {"p": Quota(devices={"cuda": 1})}
    owner = view("owner", 1000.0, widths=(4,), submitted_s=-1.0)
    wide = [view(name, 500.0, widths=(4,), project="p", submitted_s=at) for at, name in enumerate(("a", "b"))]
    expected = planned([owner, *wide], quotas=lent).expected
    assert expected["a"][0] == expected["owner"][1]
    assert expected["b"][0] >= expected["a"][1] > expected["a"][0]
    assert "a" not in planned([owner, *wide], quotas={"p": hard_quota({"cuda": 1})}).expected


def test_what_is_told_to_a_borrower_keeps_nothing_for_it():
    lent = {"p": Quota(devices={"cuda": 0})}
    jobs = [view("owner", 1000.0, widths=(3,), submitted_s=-1.0), view("a", 500.0, widths=(4,), project="p")]
    later = view("later", 5000.0, widths=(1,), submitted_s=5.0)
    assert counts(planned([*jobs, later], quotas=lent)) == {"owner": 3, "later": 1}


@pytest.mark.parametrize("policy", [name for name in names() if name != "edf_widest"])  # never borrows
def test_of_two_kinds_only_the_one_that_is_not_hard_is_borrowed(policy):
    quotas = {"p": hard_quota({"cpu": 1, "cuda": 1}, ["cpu"])}
    wide = [job(kind, way(2, kind=kind, run_s=50), project="p", can_pause=True) for kind in ("cpu", "cuda")]
    decision = decide(wide, pool(node(cpus=2, gpus=2)), policy=policy, quotas=quotas)
    assert started(decision) == {"cuda"}
    assert decision.waits["cpu"].code == "quota_too_small"


@pytest.mark.parametrize("policy", ["fifo", "fair_share"])
def test_so_is_who_waits_in_a_queue(policy):
    there = pool(node(cpus=2))
    old = runs(job("old", way(2, run_s=100), project="q"), "n1", "cpu0", "cpu1")
    quotas = {"p": Quota(devices={"cpu": 1})}
    waiting = [job(f"p{at}", way(2, run_s=50), project="p", at=float(at)) for at in (1, 2)]
    decision = decide([old, *waiting], there, policy=policy, quotas=quotas)
    assert decision.expected["p1"] == (110.0, 160.0)
    assert decision.expected["p2"] == (160.0, 210.0)
    assert "put back" in decision.waits["p1"].remedy


@pytest.mark.parametrize("policy", names())
def test_what_a_project_holds_on_a_drained_node_counts_against_its_quota(policy):
    view = pool(node("n1", cpus=2), node("n2", cpus=2, takes_work=False))
    held = runs(job("held", way(2, run_s=600.0), project="a", can_pause=True), "n2", "cpu0", "cpu1")
    jobs = [held, job("waits", way(1, run_s=600.0), at=5.0, project="a")]
    decision = place(jobs, held_by(jobs, view), 10.0, policy=policy, quotas={"a": hard_quota({"cpu": 2})})
    assert not decision.placements and decision.waits["waits"].code == "quota_used"


@pytest.mark.parametrize("policy", names())
def test_a_run_that_has_made_all_its_steps_holds_its_share_of_a_quota_until_it_ends(policy):
    held = runs(job("held", way(1, run_s=600.0), project="a", can_pause=True, work_left=0.0), "n1", "cpu0")
    jobs = [held, job("waits", way(1, run_s=600.0), at=5.0, project="a")]
    view = held_by(jobs, pool(node("n1", cpus=2)))
    assert not place(jobs, view, 10.0, policy=policy, quotas={"a": hard_quota({"cpu": 1})}).placements
