"""A job that was lost on some nodes starts on others where it can, and never waits for them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies import names
from tests.scheduler.pools import held_by, job, node, pool, runs, scene, way

NOW_S = 200.0
every_policy = pytest.mark.parametrize("policy", names())


def nodes_for(view, *options, policy="fifo", **more):
    """Where the job starts."""
    (start,) = place([job("j", *options, **more)], view, NOW_S, policy=policy).placements
    return start.nodes


def gang(count):
    return replace(way(count), mode="sync")


@every_policy
def test_it_starts_where_it_was_lost_least(policy):
    view = pool(node("n1", cpus=1), node("n2", cpus=2), node("n3", cpus=4))
    for lost, where in [({}, "n1"), ({"n1": 1}, "n2"), ({"n1": 1, "n2": 2}, "n3"), ({"n1": 1, "n2": 2, "n3": 3}, "n1")]:
        assert nodes_for(view, way(run_s=50.0), policy=policy, avoid=lost) == (where,), lost


@every_policy
def test_in_a_pool_of_many_nodes_it_passes_over_all_where_it_was_lost(policy):
    view = pool(*(node(f"n{at:02}", cpus=2) for at in range(20)))
    lost = {f"n{at:02}": 1 for at in range(19)}
    assert nodes_for(view, way(2, run_s=50.0), policy=policy, avoid=lost) == ("n19",)


@every_policy
@pytest.mark.parametrize("spans", [False, True])
def test_it_goes_back_rather_than_wait(policy, spans):
    busy = node("n2", cpus=1, busy=("cpu0",))
    assert nodes_for(pool(node("n1", cpus=1), busy, spans=spans), way(), policy=policy, avoid={"n1": 2}) == ("n1",)


def test_it_goes_back_rather_than_wait_for_who_leaves_another_node():
    view = pool(node("n1", cpus=1), node("n2", cpus=1), spans=True)
    leaver = runs(job("old", way()), "n2", "cpu0", leaving=True)
    jobs = [leaver, job("j", gang(1), at=1.0, priority=1, avoid={"n1": 1})]
    starts = {start.job_id: start for start in place(jobs, held_by([leaver], view), NOW_S, policy="fifo").placements}
    assert (starts["j"].nodes, starts["j"].waits_for) == (("n1",), ())


@every_policy
def test_nobody_is_paused_for_it_while_a_node_is_free(policy):
    view = pool(node("n1", cpus=1), node("n2", cpus=1))
    lesser = runs(job("lesser", way(run_s=900.0), can_pause=True), "n2", "cpu0")
    wish = job("j", way(run_s=50.0), at=1.0, priority=5, avoid={"n1": 1})
    decision = place([lesser, wish], held_by([lesser], view), NOW_S, policy=policy)
    assert [start.nodes for start in decision.placements] == [("n1",)] and not decision.changes


@every_policy
def test_a_third_node_takes_over_from_a_pair_that_lost_each_other(policy):
    view = pool(*(node(name, cpus=1) for name in ("n1", "n2", "n3")), spans=True)
    assert nodes_for(view, gang(2), policy=policy) == ("n1", "n2")
    assert set(nodes_for(view, gang(2), policy=policy, avoid={"n1": 1, "n2": 1})) == {"n1", "n3"}
    assert set(nodes_for(view, gang(2), policy=policy, avoid={"n1": 2, "n2": 1, "n3": 1})) == {"n2", "n3"}


@every_policy
def test_a_pair_is_replaced_from_another_rack_too(policy):
    racks = [node("n1", cpus=1, near="a"), node("n2", cpus=1, near="a"), node("n3", cpus=1, near="b")]
    lost = {"n1": 1, "n2": 1}
    assert nodes_for(pool(*racks, spans=True), gang(2), policy=policy) == ("n1", "n2")
    assert set(nodes_for(pool(*racks, spans=True), gang(2), policy=policy, avoid=lost)) == {"n1", "n3"}
    fresh = [*racks, node("n4", cpus=1, near="b")]
    assert nodes_for(pool(*fresh, spans=True), gang(2), policy=policy, avoid=lost) == ("n3", "n4")


def test_a_gang_lies_apart_rather_than_where_it_was_lost_and_only_if_it_may():
    view = pool(node("n1", cpus=2), node("n2", cpus=1), node("n3", cpus=1), spans=True)
    assert nodes_for(view, gang(2), avoid={"n1": 1}) == ("n2", "n3")
    assert nodes_for(view, replace(way(2), mode="replicated"), avoid={"n1": 1}) == ("n1",)


@every_policy
@pytest.mark.parametrize("spans", [False, True])
def test_a_mixture_goes_elsewhere_as_well(policy, spans):
    models = {"cpu0": "A", "cpu1": "B"}
    view = pool(*(node(name, cpus=2, models=models) for name in ("n1", "n2")), spans=spans)
    mixed = replace(way(2, run_s=50.0, model="mixed: 1 A + 1 B"), parts=(("A", 1), ("B", 1)), mode="sync")
    assert nodes_for(view, mixed, policy=policy, avoid={"n1": 1}) == ("n2",)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(names()))
def test_one_job_starts_at_once_wherever_it_was_lost(seed, policy):
    (wish, *_), view, quotas = scene(seed)
    random = Random(seed)
    lost = {node_.name: random.randint(1, 3) for node_ in view.nodes if random.random() < 0.5}
    without, told = (
        place([replace(wish, avoid=avoid)], view, NOW_S, policy=policy, quotas=quotas).placements
        for avoid in ({}, lost)
    )
    assert told or not without

    def worst(starts):
        return max((lost.get(name, 0) for start in starts for name in start.nodes), default=0)

    assert not without or worst(told) <= worst(without)
