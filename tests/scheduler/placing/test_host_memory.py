"""Gangs that span nodes, and the memory that they ask of each: by the devices that they have there."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.job_view import memory_by_node
from scheduler.place import place
from scheduler.placing.assign import assign
from scheduler.policies import names
from scheduler.types import Plan, Running
from tests.scheduler.pools import GIB, carry_out, held_by, job, node, pool, runs, way

NOW_S = 100.0
WIDE_AND_NARROW = st.tuples(st.integers(2, 8), st.integers(1, 7), st.sampled_from([0, 2, 6, 12, 20, 30]))


def nodes_of(seed):
    random = Random(seed)
    sizes = [(random.choice([1, 2, 4, 8]), random.choice([2, 4, 8, 16])) for _ in range(random.randint(1, 4))]
    return [node(f"n{at}", cpus=cpus, memory_gib=memory_gib) for at, (cpus, memory_gib) in enumerate(sizes)]


def spread(wide, narrow, *, memory_gib, nodes):
    """A job on cores of several nodes, that could do with fewer."""
    devices = tuple(f"{name}/cpu{index}" for name, count in nodes.items() for index in range(count))
    options = way(wide, run_s=50.0, memory_gib=memory_gib), way(narrow, run_s=90.0, memory_gib=memory_gib)
    running = Running(
        option=options[0], nodes=tuple(nodes), device_ids=devices, started_s=0.0, last_change_s=0.0,
        counts=tuple(nodes.values()),
    )  # fmt: skip
    return job("a", *options, can_pause=True, running=running)


def asked(done, jobs):
    """Node -> bytes that all jobs ask of it once the decision is carried out."""
    found = Counter()
    moved = {item.job_id for item in done.changes if item.option is not None}
    for one in jobs:
        if one.job_id in done.running and one.job_id not in moved and one.running is not None:
            found.update(one.running.memory_on)
    for item in (*done.placements, *(change for change in done.changes if change.option is not None)):
        counts = Counter(device.partition("/")[0] for device in item.device_ids)
        found.update(memory_by_node(item.option.memory_bytes, counts))
    return found


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.lists(WIDE_AND_NARROW, min_size=1, max_size=8))
def test_no_node_is_asked_for_more_memory_than_it_has(seed, sizes):
    """Jobs that start, grow, shrink and go on, whatever a plan would have them do."""
    random, view = Random(seed), pool(*nodes_of(seed), spans=True)
    jobs = [
        job(f"j{at}", way(wide, run_s=50.0, memory_gib=gib), way(narrow, run_s=90.0, memory_gib=gib), can_pause=True)
        for at, (wide, narrow, gib) in enumerate(sizes)
    ]
    early = jobs[: random.randint(0, len(jobs))]
    running, view = carry_out(place(early, view, NOW_S, policy="fifo"), early, view, NOW_S)
    jobs = [*running, *jobs[len(early) :]]
    plan = Plan(allotments={one.job_id: random.choice(one.options) for one in jobs if random.random() < 0.9})
    found = asked(assign(jobs, view, plan, NOW_S), jobs)
    assert all(found[one.name] <= one.memory_bytes for one in view.nodes)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 16), st.integers(1, 40), st.sampled_from(names()))
def test_a_gang_starts_where_the_nodes_have_memory_for_as_many_devices(seed, count, memory_gib, policy):
    nodes, option = nodes_of(seed), way(count, run_s=50.0, memory_gib=memory_gib)
    fitting = sum(min(len(one.devices), option.devices_in(one.memory_bytes)) for one in nodes)
    decision = place([job("a", option)], pool(*nodes, spans=True), NOW_S, policy=policy)
    assert bool(decision.placements) == (fitting >= count)


def test_of_a_node_with_memory_for_fewer_of_its_devices_a_gang_takes_those():
    view = pool(node("n1", cpus=8, memory_gib=4), node("n2", cpus=8, memory_gib=4), spans=True)
    (start,) = place([job("a", way(8, memory_gib=8))], view, NOW_S, policy="fifo").placements
    assert Counter(device.partition("/")[0] for device in start.device_ids) == {"n1": 4, "n2": 4}


@pytest.mark.parametrize(("memory_gib", "left"), [(8, {"n1": 2}), (16, {"n1": 1, "n2": 1}), (40, {"n1": 2, "n2": 2})])
def test_a_job_that_shrinks_keeps_the_devices_where_there_is_memory_for_all_that_it_asks(memory_gib, left):
    nodes = [node(name, cpus=2, memory_gib=20 if memory_gib == 40 else 8) for name in ("n1", "n2")]
    wide = spread(4, 1 if memory_gib == 40 else 2, memory_gib=memory_gib, nodes={"n1": 2, "n2": 2})
    view = held_by([wide], pool(*nodes, spans=True))
    done = assign([wide], view, Plan(allotments={"a": wide.options[1]}), NOW_S)
    kept = done.changes[0].device_ids if done.changes else wide.running.device_ids
    assert Counter(device.partition("/")[0] for device in kept) == left


def test_what_a_job_takes_along_when_it_shrinks_is_free_for_nobody_and_what_it_leaves_is_waited_for():
    view = pool(node("n1", cpus=4, memory_gib=16), node("n2", cpus=2, memory_gib=8), spans=True)
    wide = spread(4, 2, memory_gib=12, nodes={"n1": 2, "n2": 2})
    others = [job(name, way(2, memory_gib=6, run_s=50.0), at=1.0) for name in ("b", "c")]
    plan = Plan(allotments={"a": wide.options[1], **{one.job_id: one.options[0] for one in others}})
    done = assign([wide, *others], held_by([wide], view), plan, NOW_S)
    starts = {start.job_id: (start.nodes, start.waits_for) for start in done.placements}
    assert starts == {"b": (("n2",), ("a",))}, "n1 has 4 GiB left beside the 12 GiB of the job that shrank"
    assert done.unplaced == ["c"]
    assert asked(done, [wide, *others]) == {"n1": 12 * GIB, "n2": 6 * GIB}


def test_memory_that_a_job_leaves_behind_is_waited_for_on_a_device_that_is_free():
    view = pool(node("n1", cpus=3, memory_gib=8), node("n2", cpus=4, memory_gib=8))
    options = way(3, run_s=50.0, memory_gib=6), way(1, run_s=90.0, memory_gib=6)
    grows = runs(job("a", *options, can_pause=True), "n1", "cpu0", option=options[1])
    there = runs(job("c", way(1, run_s=50.0), at=1.0), "n1", "cpu1")
    comes = job("b", way(1, run_s=50.0, memory_gib=6), at=1.0)
    plan = Plan(allotments={"a": options[0], "b": comes.options[0], "c": there.options[0]})
    done = assign([grows, there, comes], held_by([grows, there], view), plan, NOW_S)
    assert [change.nodes for change in done.changes] == [("n2",)]
    (start,) = done.placements
    assert (start.nodes, start.waits_for) == (("n1",), ("a",)), "it has not given its memory back yet"
