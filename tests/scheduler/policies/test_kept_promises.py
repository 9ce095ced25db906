"""A promise is kept: exact estimates, no faults, and nobody who comes later goes before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.types import Quota, Reserved
from tests.scheduler.pools import hard_quota, held_by, job, node, pool, runs, way
from tests.scheduler.replays import late, small

QUEUES = ["fifo", "edf", "fair_share"]
NOW_S = 10.0


@pytest.mark.parametrize("policy", QUEUES)
def test_who_is_promised_a_finish_does_not_begin_by_a_way_that_ends_too_late(policy):
    """The narrow way is free first, and both are free when the other jobs end."""
    asked = job("asked", way(3, run_s=46.0), way(4, run_s=25.0), at=5.0, deadline_s=NOW_S + 60.0)
    old = runs(job("old", way(4, run_s=30.0)), "n1", *(f"cpu{number}" for number in range(4)))
    view = pool(node(cpus=4))
    assert admit(asked, [old], held_by([old], view), NOW_S, policy=policy).accepted
    begun = place([replace(asked, promised=True)], view, NOW_S + 30.0, policy=policy)
    assert [(start.job_id, start.option.count) for start in begun.placements] == [("asked", 4)]


@pytest.mark.parametrize("policy", QUEUES)
def test_nor_does_who_has_waited_for_a_day(policy):
    """Patience lets a job pass others, not its own deadline."""
    now_s = 86_400.0 + NOW_S
    asked = job("asked", way(3, run_s=46.0), way(4, run_s=25.0), at=5.0, deadline_s=now_s + 30.0, promised=True)
    begun = place([asked], pool(node(cpus=4)), now_s, policy=policy)
    assert [start.option.count for start in begun.placements] == [4]


@pytest.mark.parametrize("policy", QUEUES)
def test_nor_who_has_a_device_kept_for_its_project(policy):
    keep = (Reserved(start_s=0.0, end_s=1e6, project="p"),)
    view = pool(node(cpus=3, reserved={"cpu0": keep}))
    options = way(1, run_s=100.0), way(3, run_s=30.0)
    asked = job("asked", *options, at=5.0, project="p", deadline_s=NOW_S + 40.0, promised=True)
    begun = place([asked], view, NOW_S, policy=policy)
    assert [start.option.count for start in begun.placements] == [3]


@pytest.mark.parametrize("policy", QUEUES)
def test_who_was_promised_still_borrows_what_nobody_else_wants(policy):
    held = [runs(job("one", way(1, run_s=100.0), project="p"), "n2", "cpu0")]
    view = held_by(held, pool(node("n1", cpus=3), node("n2", cpus=1)))
    asked = job("asked", way(3, run_s=150.0), at=5.0, project="p", deadline_s=NOW_S + 400.0, promised=True)
    quotas = {"p": Quota(devices={"cpu": 3})}
    begun = place([*held, asked], view, NOW_S, policy=policy, quotas=quotas)
    assert [start.job_id for start in begun.placements] == ["asked"]


@pytest.mark.parametrize("policy", QUEUES)
def test_whose_deadline_is_lost_begins_by_the_first_way_that_is_free(policy):
    asked = job("asked", way(3, run_s=46.0), way(4, run_s=25.0), at=5.0, deadline_s=NOW_S + 20.0)
    begun = place([asked], pool(node(cpus=4)), NOW_S, policy=policy)
    assert [start.option.count for start in begun.placements] == [3]


@pytest.mark.parametrize("policy", QUEUES)
def test_it_is_told_the_way_that_it_will_begin_by(policy):
    """The first one that is free, though another one would end sooner: who comes after counts on that."""
    old = runs(job("old", way(4, run_s=30.0)), "n1", *(f"cpu{number}" for number in range(4)))
    waits = job("waits", way(3, run_s=90.0), way(4, run_s=50.0), at=5.0)
    view = pool(node(cpus=4))
    told = place([old, waits], held_by([old], view), NOW_S, policy=policy).expected["waits"]
    assert told == (NOW_S + 30.0, NOW_S + 120.0)
    begun = place([waits], view, NOW_S + 30.0, policy=policy)
    assert begun.placements[0].option == waits.options[0] and begun.expected["waits"] == told


@pytest.mark.parametrize("policy", QUEUES)
def test_devices_are_kept_for_a_promise_that_waits_for_the_quota_of_its_project(policy):
    small_one = runs(job("one", way(1, run_s=100.0), project="p"), "n2", "cpu0")
    asked = job("asked", way(3, run_s=30.0), at=5.0, project="p", deadline_s=NOW_S + 160.0)
    later = job("later", way(2, run_s=140.0), at=6.0, project="q")
    view, how = (
        pool(node("n1", cpus=3), node("n2", cpus=1)),
        {"policy": policy, "quotas": {"p": hard_quota({"cpu": 3})}},
    )
    held = held_by([small_one], view)
    assert admit(asked, [small_one], held, NOW_S, **how).accepted
    decision = place([small_one, replace(asked, promised=True), later], held, NOW_S, **how)
    assert not decision.placements and decision.expected["asked"][1] <= asked.deadline_s
    filler = replace(later, options=(way(2, run_s=60.0),))
    decision = place([small_one, replace(asked, promised=True), filler], held, NOW_S, **how)
    assert [start.job_id for start in decision.placements] == ["later"]


@pytest.mark.parametrize("policy", QUEUES)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@example(298, False, False)
@example(67, False, True)
@example(228, False, True)
@example(5051, True, False)
@example(5109, True, False)
@example(5212, True, False)
def test_a_queue_keeps_its_promises(policy, seed, spans, limited):
    """Where shares count, within a project: one that becomes the poorer one goes first."""
    projects = "p" if policy == "fair_share" else "pq"
    comers, view, quotas = small(seed, spans=spans, limited=limited, projects=projects)
    assert not late(comers, view, policy=policy, quotas=quotas)[0]
