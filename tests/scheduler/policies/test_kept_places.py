"""Under the policies that serve a queue, a promise is kept against whoever comes later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.policies.order import kept_places
from tests.scheduler.pools import carry_out, job, node, pool, way

JOBS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, 0, 3])), max_size=8)
"""Of each when it was submitted, and how much later it was promised."""


@given(JOBS)
def test_who_came_after_a_promise_stands_behind_it_and_nobody_else_is_moved(told):
    queue = [
        job(f"j{at}", at=float(when), **({} if more is None else {"promised": True, "promised_s": float(when + more)}))
        for at, (when, more) in enumerate(told)
    ]
    kept = kept_places(queue)
    assert sorted(kept, key=queue.index) == queue
    for at, one in enumerate(kept):
        if one.promised:
            assert all(other.counts_from_s <= one.counts_from_s for other in kept[:at])
    for at, one in enumerate(queue):
        for other in queue[:at]:
            if kept.index(other) > kept.index(one):
                promised = [each for each in queue[queue.index(other) :] if each.promised]
                assert any(other.counts_from_s > each.counts_from_s for each in promised)


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
def test_who_was_before_a_promised_job_is_not_held_up_by_one_that_came_later(policy):
    view = pool(node(cpus=2))
    before = job("before", way(2, run_s=1_000.0), at=5.0, priority=5)
    promised = job("promised", way(2, run_s=5_000.0), at=10.0, deadline_s=1e5, promised=True)
    later = job("later", way(2, run_s=1_000.0), at=20.0, priority=9)
    runs = job("runs", way(2, run_s=1_000.0), can_pause=False)
    held, idle = carry_out(place([runs], view, 0.0, policy=policy), [runs], view, 0.0)
    starts = {
        name: times[0]
        for name, times in place([*held, before, promised, later], idle, 30.0, policy=policy).expected.items()
    }
    assert starts["before"] < starts["promised"] < starts["later"]


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
def test_one_that_is_promised_late_takes_no_place_of_an_earlier_promise(policy):
    view = pool(node(cpus=2))
    runs = job("runs", way(2, run_s=1_000.0), can_pause=False)
    held, idle = carry_out(place([runs], view, 0.0, policy=policy), [runs], view, 0.0)
    first = job("first", way(2, run_s=1_000.0), at=20.0, priority=9, deadline_s=2_600.0, promised=True)
    asked = job("asked", way(2, run_s=5_000.0), at=5.0, deadline_s=20_000.0)
    assert admit(asked, [*held, first], idle, 60.0, policy=policy).accepted
    promised = replace(asked, promised=True, promised_s=60.0)
    found = place([*held, first, promised], idle, 61.0, policy=policy).expected
    assert found["first"][1] < 2_600.0 < found["asked"][1]


@pytest.mark.parametrize("policy", ["fifo", "edf"])
def test_a_promise_that_is_asked_for_again_keeps_its_place(policy):
    view = pool(node(cpus=2))
    runs = job("runs", way(2, run_s=1_000.0), can_pause=False)
    held, idle = carry_out(place([runs], view, 0.0, policy=policy), [runs], view, 0.0)
    promised = job("promised", way(2, run_s=1_000.0), at=10.0, deadline_s=3_000.0, promised=True, promised_s=10.0)
    later = job("later", way(2, run_s=9_000.0), at=20.0, priority=9)
    assert admit(promised, [*held, later], idle, 60.0, policy=policy).accepted
    assert not admit(replace(promised, promised=False), [*held, later], idle, 60.0, policy="fifo").accepted


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
@pytest.mark.parametrize(
    "later",
    [{"priority": 9}, {"deadline_s": 6_000.0}, {"project": "poor"}, {"priority": 9, "deadline_s": 6_000.0}],
)
def test_a_promised_job_starts_when_it_was_told_whoever_comes_later(policy, later):
    view = pool(node(cpus=2))
    runs = job("runs", way(2, run_s=1_000.0), project="rich", can_pause=False)
    held, idle = carry_out(place([runs], view, 0.0, policy=policy), [runs], view, 0.0)
    promised = job("promised", way(2, run_s=1_000.0), at=1.0, project="rich", deadline_s=7_000.0, promised=True)
    told = place([*held, promised], idle, 2.0, policy=policy).expected["promised"]
    later_job = job("later", way(2, run_s=5_000.0), at=2.0, **({"project": "rich"} | later))
    decision = place([*held, promised, later_job], idle, 3.0, policy=policy)
    assert decision.expected["promised"] == pytest.approx(told, abs=2.0)
    assert decision.expected["later"][0] >= told[1] - 2.0
