"""What a plan refuses at once, against asking every site."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.placing.capacity import shown
from scheduler.policies import names
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_groups import FEW
from scheduler.types import Reserved
from tests.scheduler.pools import held_by, job, node, pool, runs, way

NOW_S = 100.0
TAKES = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "A", "B"]), st.integers(1, 99)), max_size=30)


def sites_of(sizes, spans):
    models = {f"cpu{index}": "A" for index in range(8)}
    nodes = [node(f"n{number}", cpus=size, models=models) for number, size in enumerate(sizes)]
    return GangSites(shown([], pool(*nodes, spans=spans), NOW_S, {}).capacity, [], {}, NOW_S)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=2 * FEW), st.booleans(), TAKES)
def test_a_gang_that_is_refused_at_once_finds_no_room_and_one_that_fits_is_never_refused(sizes, spans, takes):
    sites = sites_of(sizes, spans)
    free = [sum(sizes)] if spans else list(sizes)
    for count, model, run_s in takes:
        wish = job("j", way(count, run_s=float(run_s), model=model))
        (option,) = wish.options
        fits = model != "B" and max(free) >= count
        slot = sites.find(wish, option, float(run_s), NOW_S)
        assert (slot is not None) == fits
        assert sites.may_start_now(option) or not fits
        if slot is not None:
            sites.take(wish, slot)
            free[0 if spans else int(slot.site.name[1:])] -= count


def test_what_is_lent_is_free_for_nobody_else_and_hurts_no_plan():
    sites = sites_of([4], spans=False)
    wish = job("j", way(2, run_s=50.0))
    slot = sites.find(wish, wish.options[0], 50.0, NOW_S)
    sites.take(wish, slot)
    assert sites.room_to_grow(wish, slot, 2, 10.0) and not sites.room_to_grow(wish, slot, 3, 10.0)
    sites.grow(wish, slot, 1)
    assert sites.room_to_grow(wish, slot, 1, 10.0) and not sites.room_to_grow(wish, slot, 2, 10.0)
    later = sites.find(replace(wish, job_id="k"), way(4, run_s=1.0), 1.0, math.inf)
    assert later.start_s == NOW_S + 50.0


def larger(**more):
    """More nodes than are looked at one by one, and one that differs."""
    return pool(*(node(f"n{number}") for number in range(FEW + 1)), node("z", **more))


@pytest.mark.parametrize("policy", names())
@pytest.mark.parametrize("held_gib", [0, 1])
def test_the_one_node_of_many_that_has_the_memory_is_found(policy, held_gib):
    wish = job("j", way(1, run_s=50.0, memory_gib=32), deadline_s=NOW_S + 100.0)
    there = larger(memory_gib=64, held_gib=held_gib)
    assert admit(wish, [], there, NOW_S, policy=policy).accepted
    assert [start.nodes for start in place([wish], there, NOW_S, policy=policy).placements] == [("z",)]


@pytest.mark.parametrize("busy", [False, True])
def test_a_node_whose_memory_is_held_by_others_is_passed_over(busy):
    full = [node(f"n{number}", held_gib=15, memory_gib=16) for number in range(FEW + 1)]
    there = pool(*full, node("z", memory_gib=16))
    ends_s = NOW_S + 30.0
    other = [runs(job("k", way(2, run_s=30.0)), "z", "cpu0", "cpu1", since=NOW_S)] if busy else []
    wish = job("j", way(1, run_s=50.0, memory_gib=8), deadline_s=NOW_S + 100.0)
    assert admit(wish, other, there, NOW_S).accepted
    found = place([*other, wish], there, NOW_S)
    assert found.expected["j"][0] == ends_s if busy else found.placements[0].nodes == ("z",)


def test_a_run_that_no_reserved_node_is_open_for_begins_on_the_one_of_many_that_nobody_reserves():
    day_s = 86_400.0
    first = (Reserved(start_s=NOW_S + 0.1 * day_s, end_s=NOW_S + day_s),)
    then = (Reserved(start_s=NOW_S + day_s, end_s=NOW_S + 2 * day_s),)
    kept = [node(f"n{number}", reserved={"cpu0": first, "cpu1": then}) for number in range(FEW)]
    wish = job("j", way(1, run_s=1.2 * day_s), deadline_s=NOW_S + 1.5 * day_s)
    assert admit(wish, [], pool(*kept, node("z")), NOW_S).accepted
    assert [start.nodes for start in place([wish], pool(*kept, node("z")), NOW_S).placements] == [("z",)]


def test_where_gangs_span_nodes_what_they_ask_of_their_memory_is_planned_with():
    first, second = (job(name, way(2, run_s=50.0, memory_gib=20)) for name in "ab")
    there = pool(node("n1", cpus=4), node("n2", cpus=4), spans=True)
    sites = GangSites(shown([first, second], there, NOW_S, {}).capacity, [], {}, NOW_S)
    (option,) = first.options
    sites.take(first, sites.find(first, option, 50.0, NOW_S))
    assert sites.find(second, option, 50.0, NOW_S) is None, "32 GiB hold no two gangs of 20 GiB"
    assert sites.find(second, option, 50.0, math.inf).start_s == NOW_S + 50.0


def test_a_gang_over_nodes_goes_on_with_the_memory_that_it_holds():
    option = way(4, run_s=50.0, memory_gib=32)
    wide = runs(job("a", option), "n1", "cpu0", "cpu1")
    devices = (*wide.running.device_ids, "n2/cpu0", "n2/cpu1")
    held = replace(wide, running=replace(wide.running, nodes=("n1", "n2"), device_ids=devices, counts=(2, 2)))
    there = held_by([held], pool(node("n1", cpus=4), node("n2", cpus=4), spans=True))
    sites = GangSites(shown([held], there, NOW_S, {}).capacity, [held], {}, NOW_S)
    assert sites.find(held, option, 50.0, NOW_S).goes_on
    sites.hold(held, NOW_S + 50.0)
    other = job("b", way(2, run_s=20.0, memory_gib=1))
    assert sites.find(other, other.options[0], 20.0, math.inf).start_s == NOW_S + 50.0
