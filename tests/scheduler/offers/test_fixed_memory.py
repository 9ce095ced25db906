"""Memory that a person fixed for the whole run, and the nodes that have it: alone, or each for its devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.offers.mixtures import mixed_candidates
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Hindrance, Wish
from scheduler.offers.words import NO_HOST_MEMORY
from scheduler.place import place
from tests.scheduler.offers.ways import GIB, NOW_S, cpus, offer, workload
from tests.scheduler.pools import job, node, pool, way


def hosts(*sizes, memory_gib, asked_gib, spans=True):
    """Nodes with so many cores, and a run for which a person fixed memory."""
    return cpus(
        *sizes, memory_gib=0, memory_floor_bytes=asked_gib * GIB, asked_bytes=asked_gib * GIB, spans_nodes=spans,
        nodes=tuple(f"n{at}" for at in range(len(sizes))), hosts_bytes=tuple(size * GIB for size in memory_gib),
    )  # fmt: skip


def test_ways_for_which_no_node_has_the_fixed_memory_are_not_offered():
    groups = [hosts(4, 4, memory_gib=(8, 8), asked_gib=12)]
    ways = {(one.allocation.count, one.allocation.mode): one.has_memory for one in candidates(workload(), groups)}
    assert {count for (count, mode), has in ways.items() if mode == "single" and has} == set()
    assert {count for (count, mode), has in ways.items() if mode == "sync" and has} == set(range(2, 9))
    found = offer([hosts(4, 4, memory_gib=(8, 8), asked_gib=12, spans=False)])
    assert found.chosen is None
    assert {(line.hindrance, line.why) for line in found.lines} == {(Hindrance.MEMORY, NO_HOST_MEMORY)}
    assert found.changes == ("Fix less memory for the run (resources.memory_gib), or leave it open.",)


NODES = st.lists(st.tuples(st.integers(1, 8), st.sampled_from([2, 4, 8, 16])), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(NODES, st.integers(1, 16), st.integers(1, 40), st.sampled_from(["single", "sync"]), st.booleans())
def test_a_gang_has_the_memory_that_is_fixed_for_it_where_the_scheduler_would_start_it(
    nodes, count, asked_gib, mode, spans
):
    sizes, memory_gib = zip(*nodes, strict=True)
    group = hosts(*sizes, memory_gib=memory_gib, asked_gib=asked_gib, spans=spans)
    assume(count <= (group.most if mode == "sync" else max(sizes)))
    view = pool(*(node(f"n{at}", cpus=cores, memory_gib=gib) for at, (cores, gib) in enumerate(nodes)), spans=spans)
    option = replace(way(count, run_s=50.0, memory_gib=asked_gib), mode=mode)
    started = place([job("a", option)], view, NOW_S, policy="fifo").placements
    assert group.has_memory(count, alone=mode == "single") == bool(started)


@pytest.mark.parametrize(("asked_gib", "spans", "there"), [(8, False, {2}), (12, False, set()), (12, True, {2, 3, 4})])
def test_a_mixture_has_the_memory_that_is_fixed_for_it_on_one_node_or_on_each_for_its_devices(asked_gib, spans, there):
    groups = [
        replace(hosts(1, 1, memory_gib=(8, 8), asked_gib=asked_gib, spans=spans), model_name=name) for name in "AB"
    ]
    ways = mixed_candidates(workload(), groups, Wish())
    assert {found.allocation.count for found in ways if found.has_memory} == there
