"""A deadline that finds no room among smaller jobs gets it from those that can wait, and from no others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.placing.capacity import shown
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.deadline_fit import MOST_LOOKS, MOST_PLANNED, roomiest
from scheduler.policies.deadline_pass import DeadlinePass
from scheduler.policies.deadline_slots import SlotSearch
from scheduler.policies.ways import Rescale
from scheduler.simulate.pool import SimPool
from scheduler.types import JobView, Option
from tests.scheduler.pools import carry_out

POLICY = DeadlineEnergy(rescale=Rescale(fixed_s=0.0, per_doubling_s=0.0))
POOL = SimPool.parse("1x2:A").view


def dated(name, run_s, deadline_s, width, **fields):
    option = Option(kind="cuda", model_name="A", count=width, rate_per_s=1 / run_s, power_w=300.0 * width)
    return JobView(job_id=name, options=(option,), submitted_s=0.0, deadline_s=deadline_s, can_pause=True, **fields)


WIDE = dated("wide", 300.0, 310.0, 2)


def starts(*jobs):
    return {start.job_id for start in place(jobs, POOL, 0.0, policy=POLICY).placements}


def test_a_small_job_that_can_wait_makes_room_for_a_larger_one_that_cannot():
    decision = place([dated("small", 100.0, 1000.0, 1), WIDE], POOL, 0.0, policy=POLICY)
    assert {start.job_id for start in decision.placements} == {"wide"}
    assert decision.expected["small"] == pytest.approx((300.0, 400.0))


def test_the_larger_one_is_not_paused_by_a_promise_to_the_small_one_that_waits_for_it():
    """It was promised in the decision that had it wait, and what is promised goes first in the next one."""
    jobs, pool = [dated("small", 100.0, 1000.0, 1), WIDE], POOL
    for now_s in (0.0, 10.0, 20.0):
        decision = place(jobs, pool, now_s, policy=POLICY)
        assert {*decision.running, *(start.job_id for start in decision.placements)} == {"wide"}
        jobs, pool = carry_out(decision, jobs, pool, now_s)
        jobs[1] = replace(jobs[1], work_left=1.0 - (now_s + 10.0) / 300.0)
    jobs, pool = [jobs[0]], POOL
    decision = place(jobs, pool, 300.0, policy=POLICY)
    assert [start.job_id for start in decision.placements] == ["small"]
    assert decision.promised == {"small"}


def test_a_small_job_that_cannot_wait_either_keeps_its_place():
    assert starts(dated("small", 100.0, 390.0, 1), WIDE) == {"small"}


@pytest.mark.parametrize("order", [{"priority": 1}, {"rank": -1}])
def test_neither_priority_nor_an_order_by_an_admin_gives_way(order):
    assert starts(dated("small", 100.0, 1000.0, 1, **order), WIDE) == {"small"}


def test_nor_does_a_promise():
    """It is planned by its deadline before all that is not promised."""
    assert starts(dated("small", 100.0, 1000.0, 1, promised=True), WIDE) == {"small"}


def test_a_run_that_is_paused_for_it_is_told_why():
    small = dated("small", 100.0, 1000.0, 1)
    jobs, pool = carry_out(place([small], POOL, 0.0, policy=POLICY), [small], POOL, 0.0)
    jobs = [replace(job, promised=False) for job in jobs]
    (change,) = place([*jobs, WIDE], pool, 0.0, policy=POLICY).changes
    assert change.reason == "It makes room for a job whose deadline leaves it less time."


def the_pass(jobs, devices):
    seen = shown(jobs, SimPool.parse(devices).view, 0.0, {})
    return DeadlinePass(POLICY, seen.jobs, seen.capacity, 0.0, {}, {})


def names(jobs):
    return {job.job_id for job in jobs}


JOB = st.tuples(st.sampled_from([1, 2, 4]), st.floats(50.0, 800.0), st.floats(1.0, 4.0), st.sampled_from([0, 0, 0, 1]))


@settings(max_examples=100, deadline=None)
@given(st.lists(JOB, min_size=3, max_size=12), st.integers(0, 3))
def test_whoever_had_a_place_keeps_one(rows, promises):
    jobs = [
        dated(f"j{number:02d}", run_s, slack * run_s, width, priority=priority)
        for number, (width, run_s, slack, priority) in enumerate(rows)
    ]
    before = the_pass(jobs[promises:], "1x4:A")
    kept = names(before.fitting)
    assert kept <= names(roomiest(before).fitting)
    with_promises = [replace(job, promised=True) for job in jobs[:promises]] + jobs[promises:]
    found = the_pass(with_promises, "1x4:A")
    late, kept = found.crowded_out, names(found.fitting)
    found = roomiest(found)
    assert kept <= names(found.fitting) and found.crowded_out == late


@pytest.mark.parametrize(("queued", "looks"), [(50, MOST_LOOKS), (MOST_PLANNED // 2, 2), (MOST_PLANNED + 1, 0)])
def test_the_jobs_that_are_planned_again_are_bounded(monkeypatch, queued, looks):
    """All of them want all devices now, so that one has a place, and no other order has more."""
    found = the_pass([dated(f"j{number:04d}", 100.0, 110.0, 2) for number in range(queued)], "1x2:A")
    tried, again = [], DeadlinePass.lined_up

    def counted(self, jobs):
        tried.append(jobs)
        return again(self, jobs)

    monkeypatch.setattr(DeadlinePass, "lined_up", counted)
    assert roomiest(found) is found
    assert len(tried) == looks


def test_planning_again_ends_with_the_first_that_finds_no_room(monkeypatch):
    """All want all devices now, and the first of them has these: the others are not planned again."""
    found = the_pass([dated(f"j{number:04d}", 100.0, 110.0, 2) for number in range(50)], "1x2:A")
    assert len(found.left) == 49
    asked, in_time = [], SlotSearch.in_time

    def counted(self, job, **fields):
        asked.append(job.job_id)
        return in_time(self, job, **fields)

    monkeypatch.setattr(SlotSearch, "in_time", counted)
    assert roomiest(found) is found
    assert len(asked) == 2 * MOST_LOOKS
