"""What holds for every decision in a pool whose gangs may span nodes, where some jobs have to stay on one."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies import names
from tests.scheduler.pools import carry_out, comes_to_rest, mixed, moded, weak

NOW_S = 200.0
policies = st.sampled_from(names())
seeds = st.integers(0, 2**32)
scenes = st.sampled_from([moded, mixed, weak])


@settings(max_examples=200, deadline=None)
@given(scenes, seeds, policies)
def test_who_has_to_stay_on_one_node_does_and_nobody_shares_a_device(scene_of, seed, policy):
    jobs, view, quotas = scene_of(seed)
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    by_id = {job_.job_id: job_ for job_ in jobs}
    given_out = [device for start in decision.placements for device in start.device_ids]
    assert len(given_out) == len(set(given_out))
    for start in decision.placements:
        assert len(start.device_ids) == start.option.count
        may_span = start.option.may_span(by_id[start.job_id].minimum_sandbox_level, view.span_level)
        assert may_span or len(start.nodes) == 1


@settings(max_examples=200, deadline=None)
@given(scenes, seeds, policies)
@example(moded, 1888, "fifo")
@example(mixed, 619, "fifo")
def test_such_decisions_come_to_rest(scene_of, seed, policy):
    jobs, view, quotas = scene_of(seed)
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas=quotas), "it pauses and starts for ever"


@settings(max_examples=100, deadline=None)
@given(scenes, seeds, policies)
def test_memory_of_a_node_is_not_given_out_twice(scene_of, seed, policy):
    jobs, view, quotas = scene_of(seed)
    jobs, after = carry_out(place(jobs, view, NOW_S, policy=policy, quotas=quotas), jobs, view, NOW_S)
    assert all(node_.memory_held_bytes <= node_.memory_bytes for node_ in after.nodes)
