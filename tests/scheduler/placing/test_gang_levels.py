"""Why a gang waits where nodes have several sandbox levels: it lies on nodes of one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from tests.scheduler.pools import held_by, job, node, pool, runs, scene, way

NOW_S = 1000.0
POLICIES = ["fifo", "deadline_energy"]
MIXTURE = replace(way(3, model="X + Y"), parts=(("X", 2), ("Y", 1)))


def waits(jobs, *nodes, policy="fifo"):
    view = held_by(jobs, pool(*nodes, spans=True))
    return place(jobs, view, NOW_S, policy=policy).waits["wide"]


def wide(option, level=0):
    return job("wide", option, minimum_sandbox_level=level)


def of(model, name, count, level, **more):
    return node(name, cpus=count, level=level, models={f"cpu{index}": model for index in range(count)}, **more)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_that_only_nodes_of_two_sandbox_levels_could_run_together_is_not_said_to_wait_for_jobs(policy):
    nodes = (node("n1", cpus=2, level=1), node("n2", cpus=3, level=3))
    told = waits([wide(way(5, run_s=60.0))], *nodes, policy=policy)
    assert told.code == "too_many_devices" and told.text.endswith(
        "It needs 5 CPU cores on nodes of one sandbox level; there are 2 on those of level 1 and 3 on those of level 3."
    )
    assert told.remedy == "It starts when more nodes of one level are up; or clone it with fewer devices."


def test_a_gang_whose_level_is_busy_is_told_so_though_enough_devices_of_two_levels_are_free():
    nodes = (node("n1", cpus=2, level=1), node("n2", cpus=3, level=3))
    busy = [runs(job(name, way(1, run_s=300.0)), *at) for name, *at in (("one", "n1", "cpu0"), ("two", "n2", "cpu0"))]
    told = waits([*busy, wide(way(3))], *nodes)
    assert told.code == "devices_busy" and told.text.endswith("It needs 3 CPU cores; 2 are free.")
    assert told.remedy == "It starts when 1 more is given back."


def test_one_device_of_a_level_is_told_as_one():
    told = waits([wide(way(3))], node("n1", cpus=1, level=1), node("n2", cpus=2, level=3))
    assert told.text.endswith("; there is 1 on those of level 1 and 2 on those of level 3.")


@pytest.mark.parametrize(("memory_gib", "room"), [(8, 0), (5, 1)])
def test_a_gang_whose_level_has_the_devices_and_too_little_memory_is_told_of_the_memory(memory_gib, room):
    nodes = (node("n1", cpus=4, level=1, memory_gib=64), node("n2", cpus=4, level=2, memory_gib=3))
    told = waits([wide(way(2, memory_gib=memory_gib), level=2)], *nodes)
    assert told.code == "not_enough_memory" and told.remedy == "Clone it with less memory."
    assert told.text.endswith(f"per device; the nodes of sandbox level 2 have memory for {room} of 2.")


def test_a_mixture_that_lacks_a_model_is_told_of_the_node_that_would_bring_it():
    nodes = (of("X", "n1", 2, 1), of("X", "n2", 2, 3), of("Y", "n3", 1, 3, takes_work=False))
    told = waits([wide(MIXTURE)], *nodes)
    assert told.text.endswith("It needs 3 CPU cores (X + Y); the nodes that take work have 2. n3 is down.")
    assert told.remedy.startswith("It starts when n3 is up;")


def test_a_mixture_whose_models_are_on_two_levels_is_told_so():
    told = waits([wide(MIXTURE)], of("X", "n1", 2, 1), of("Y", "n2", 2, 3))
    assert told.text.endswith("; there are 2 on those of level 1 and 1 on those of level 3.")


def test_a_mixture_that_has_to_lie_on_one_node_is_told_that_the_node_which_has_all_of_it_is_busy():
    pair = replace(way(2, model="X + Y"), parts=(("X", 1), ("Y", 1)))
    both = node("n2", cpus=2, models={"cpu0": "X", "cpu1": "Y"})
    small = runs(job("small", way(1, model="X")), "n2", "cpu0")
    told = waits([small, wide(pair, level=3)], of("X", "n1", 1, 3), both)
    assert told.code == "devices_busy" and told.holders == ("small",)
    assert told.text.endswith("It needs 2 CPU cores (X + Y) on one node; n2 has 1 free.")


def test_a_node_that_is_down_is_named_where_its_level_would_have_enough_with_it():
    nodes = (node("n1", cpus=2, level=1), node("n2", cpus=3, level=3), node("n3", cpus=3, level=1, takes_work=False))
    told = waits([wide(way(5))], *nodes)
    assert told.text.endswith("there are 2 on those of level 1 and 3 on those of level 3. n3 is down.")
    assert told.remedy == "It starts when n3 is up; or clone it with fewer devices."


def test_a_node_that_is_down_is_not_waited_for_where_only_all_levels_together_would_have_enough_with_it():
    nodes = (node("n1", cpus=2, level=1), node("n2", cpus=2, level=3), node("n3", cpus=1, level=3, takes_work=False))
    told = waits([wide(way(5))], *nodes)
    assert told.text.endswith("It needs 5 CPU cores; the nodes that take work have 4.")
    assert told.remedy == "It starts when more nodes are up; or clone it with fewer devices."


def test_nodes_that_are_down_are_counted_each_beside_those_of_its_level():
    up = (node("n1", cpus=2, level=1), node("n2", cpus=3, level=3))
    for cpus, then in (((3, 2), "one of n3 and n4 takes work again"), ((3, 1), "n3 is up")):
        down = [node(f"n{3 + at}", cpus=cpus[at], level=(1, 3)[at], takes_work=False) for at in (0, 1)]
        assert waits([wide(way(5))], *up, *down).remedy.startswith(f"It starts when {then};")
    halves = [node(f"n{number}", cpus=1, level=3, takes_work=False) for number in (4, 5)]
    assert "when n4 and n5 take work again;" in waits([wide(way(5))], *up, *halves).remedy
    other = node("n3", cpus=3, level=1, takes_work=False)
    assert "when enough of n3, n4 and n5 take work again;" in waits([wide(way(5))], *up, other, *halves).remedy


@pytest.mark.parametrize(("gpus", "level", "helps"), [(1, 1, True), (1, 3, False), (2, 3, True)])
def test_a_gpu_that_its_node_does_not_see_is_waited_for_where_its_level_has_the_others(gpus, level, helps):
    one = replace(node("n1", cpus=0, gpus=gpus, level=level), unseen=(("cuda", ""),))
    told = waits([wide(way(3, kind="cuda"))], one, node("n2", cpus=0, gpus=1, level=1))
    assert ("It starts when n1 sees it again, or" in told.remedy) is helps
    assert ("n1 does not see 1 GPU" in told.text) is helps


def test_a_gang_is_told_of_the_level_that_has_memory_beside_its_free_devices():
    nodes = (node("n1", cpus=8, level=1), node("n2", cpus=4), node("n3", cpus=2))
    large = runs(job("large", way(2, run_s=300.0, memory_gib=16)), "n1", "cpu0", "cpu1")
    other = runs(job("other", way(2, run_s=300.0)), "n3", "cpu0", "cpu1")
    before = job("before", way(5), at=-60.0, minimum_sandbox_level=2)
    told = waits([large, other, before, wide(way(4, memory_gib=8))], *nodes)
    assert told.code == "behind" and told.text.endswith("4 CPU cores are free, but kept for jobs before it.")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_a_node_that_is_said_to_let_a_gang_start_leaves_it_no_lack_of_devices(seed, policy):
    jobs, view, _ = scene(seed)
    view = replace(view, spans_nodes=True)
    for name, told in place(jobs, view, NOW_S, policy=policy).waits.items():
        assert "; there are ." not in told.text
        for down in (one for one in view.nodes if f"It starts when {one.name} is up" in told.remedy):
            up = replace(view, nodes=tuple(replace(one, takes_work=True) if one is down else one for one in view.nodes))
            after = place(jobs, up, NOW_S, policy=policy).waits.get(name)
            assert after is None or after.code not in {"too_many_devices", "no_such_device", "no_nodes"}
