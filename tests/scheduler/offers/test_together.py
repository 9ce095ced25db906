"""How many ranks of a way share a node: as many as the scheduler would put on one, and no more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.estimation.prior import prior_for
from scheduler.estimation.ranks import step_time
from scheduler.kinds import mixed_name
from scheduler.offers.mixtures import mixed_candidates
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Wish, estimate_from
from scheduler.place import place
from scheduler.types import Option
from tests.scheduler.made_workloads import workload as net
from tests.scheduler.offers.ways import NOW_S, cpus, offer, workload
from tests.scheduler.pools import job, node, pool, way

SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=5)


def named(*sizes, **more):
    return cpus(*sizes, nodes=tuple(f"n{at}" for at in range(len(sizes))), spans_nodes=True, **more)


def sync_way(group, count):
    (found,) = (
        one.allocation
        for one in candidates(workload(batch=64), [group])
        if one.allocation.count == count and one.allocation.mode == "sync"
    )
    return found


def most_together(placement):
    return max(Counter(device.partition("/")[0] for device in placement.device_ids).values())


@pytest.mark.parametrize("nodes", [16, 32])
def test_a_way_over_nodes_of_one_core_each_is_not_priced_as_if_all_ranks_shared_one(nodes):
    work, model = net(batch=64), prior_for("cpu", "Xeon")
    ways = {one.allocation.count: one.allocation for one in candidates(work, [named(*[1] * nodes)])}
    local_s = step_time(work, ways[nodes], model).local_s
    assert ways[1].mode == "single" and local_s < step_time(work, ways[1], model).local_s * 2 / nodes


@settings(max_examples=200, deadline=None)
@given(SIZES, st.integers(2, 40))
def test_as_many_ranks_share_a_node_as_the_scheduler_puts_on_one_of_an_idle_pool(sizes, count):
    group = named(*sizes)
    assume(count <= group.most)
    together = sync_way(group, count).ranks_together
    view = pool(*(node(f"n{at}", cpus=cores) for at, cores in enumerate(sizes)), spans=True)
    (start,) = place([job("a", way(count, run_s=50.0))], view, NOW_S, policy="fifo").placements
    assert together == most_together(start)
    assert -(-count // len(sizes)) <= together <= max(sizes)


@given(st.integers(2, 40), SIZES, SIZES)
def test_more_nodes_of_the_same_sizes_never_have_more_ranks_share_one(count, sizes, others):
    few, many = named(*sizes), named(*sizes, *(min(size, max(sizes)) for size in others))
    assume(count <= few.most)
    assert sync_way(many, count).ranks_together == sync_way(few, count).ranks_together


@pytest.mark.parametrize("spans", [False, True])
def test_ways_that_fit_on_a_node_are_priced_as_lying_there(spans):
    ways = [one.allocation for one in candidates(workload(), [cpus(4, 2, spans_nodes=spans)])]
    within = [way_ for way_ in ways if way_.count <= 4]
    assert within and all(way_.ranks_together == len(way_.batch_split) for way_ in within)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4))
def test_no_more_ranks_of_a_mixture_share_a_node_than_it_is_priced_for(nodes):
    assume(all(sum(pair) for pair in nodes))
    groups = []
    for place_, name in enumerate("AB"):
        there = {f"n{at}": pair[place_] for at, pair in enumerate(nodes) if pair[place_]}
        if there:
            sizes, names = tuple(there.values()), tuple(there)
            groups.append(replace(cpus(*sizes, nodes=names, spans_nodes=True), model_name=name))
    view = pool(
        *(
            node(f"n{at}", cpus=a + b, models={f"cpu{index}": "A" if index < a else "B" for index in range(a + b)})
            for at, (a, b) in enumerate(nodes)
        ),
        spans=True,
    )
    for found in mixed_candidates(workload(batch=64), groups, Wish()):
        parts = found.allocation.parts
        option = Option(
            kind="cpu", count=found.allocation.count, model_name=mixed_name(parts), parts=parts, rate_per_s=0.02
        )
        (start,) = place([job("a", option)], view, NOW_S, policy="fifo").placements
        assert most_together(start) <= found.allocation.ranks_together


def test_estimates_that_were_kept_before_it_was_told_are_read_as_of_one_node():
    (line, *_) = offer([named(1, 1, 1)], wish=Wish(count=3)).lines
    body = line.estimate.to_dict()
    assert line.allocation.count == 3 and line.allocation.ranks_together == 1
    assert estimate_from(body) == line.estimate
    assert estimate_from(body).allocation.ranks_together == 1
    del body["allocation"]["most_on_node"]
    old = estimate_from(body)
    assert old == line.estimate and old.allocation.ranks_together == 3
