"""A gang that may not lie on several nodes, in a pool where others may: it waits until one node has its devices."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.place import place
from tests.scheduler.pools import held_by, job, node, pool, runs, way

NOW_S = 10.0
POLICIES = ["fifo", "edf", "fair_share", "deadline_energy"]
WIDE = job("wide", replace(way(2, run_s=100.0), mode="single"), at=1.0, can_pause=True)


def two_nodes(**more):
    """One core of each of two nodes is free; what runs there takes 1,000 s."""
    held = [runs(job(name, way(3, run_s=1000.0), **more), name, "cpu0", "cpu1", "cpu2") for name in ("n1", "n2")]
    return held, held_by(held, pool(node("n1", cpus=4), node("n2", cpus=4), spans=True))


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_told_when_one_node_has_its_devices(policy):
    held, view = two_nodes()
    decision = place([*held, WIDE], view, NOW_S, policy=policy)
    assert not decision.placements and decision.expected["wide"] == (NOW_S + 1000.0, NOW_S + 1100.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_promised_nothing_on_devices_that_lie_apart(policy):
    held, view = two_nodes()
    soon = admit(replace(WIDE, deadline_s=500.0), held, view, NOW_S, policy=policy)
    assert not soon.accepted and soon.earliest_finish_s >= NOW_S + 1100.0
    later = admit(replace(WIDE, deadline_s=soon.earliest_told_s), held, view, NOW_S, policy=policy)
    assert later.accepted
    told = promisable(WIDE, held, view, NOW_S, policy=policy)
    assert told is None or [one.start_s for one in told.values()] == [NOW_S + 1000.0]
    gang = replace(WIDE, options=(replace(WIDE.options[0], mode="sync"),), deadline_s=500.0)
    assert admit(gang, held, view, NOW_S, policy=policy).accepted, "one with a process for each may lie apart"


def test_who_can_be_paused_for_a_promise_is_not_waited_for():
    held, view = two_nodes(can_pause=True)
    assert admit(replace(WIDE, deadline_s=500.0), held, view, NOW_S).accepted
    firm = [replace(one, promised=True, deadline_s=1300.0) for one in held]
    assert not admit(replace(WIDE, deadline_s=500.0), firm, view, NOW_S).accepted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_what_is_promised_could_begin_by_then_where_nobody_else_waits(seed, policy):
    random = Random(seed)
    nodes = [node(f"n{at}", cpus=random.randint(1, 4)) for at in range(random.randint(1, 3))]
    held = []
    for one in nodes:
        cores = [f"cpu{at}" for at in range(len(one.devices)) if random.random() < 0.6]
        option = way(1, run_s=random.choice([50.0, 400.0]))
        held += [runs(job(f"{one.name}{core}", option), one.name, core) for core in cores]
    asked = replace(
        WIDE, options=(replace(way(random.randint(2, 4), run_s=100.0), mode="single"),),
        deadline_s=random.choice([130.0, 250.0, 700.0]),
    )  # fmt: skip
    view = held_by(held, pool(*nodes, spans=True))
    if not admit(asked, held, view, NOW_S, policy=policy).accepted:
        return
    for at_s in (NOW_S + 50.0, NOW_S + 400.0):
        there = [one for one in held if NOW_S + one.options[0].run_s > at_s]
        decision = place([*there, asked], held_by(there, pool(*nodes, spans=True)), at_s, policy=policy)
        if decision.placements:
            break
    now = place([*held, asked], view, NOW_S, policy=policy)
    start_s = NOW_S if now.placements else at_s
    assert decision.placements and start_s + 100.0 <= asked.deadline_s
