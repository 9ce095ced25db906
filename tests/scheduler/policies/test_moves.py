"""A run goes on only on devices that it holds: where others need just these it moves, and a promise is kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.types import ChangeKind, Reserved
from tests.scheduler.pools import carry_out, held_by, job, node, pool, runs, way

HOUR_S = 3600.0
NOW_S = 1e6


def kept(from_s=-HOUR_S, until_s=1000 * HOUR_S, project="p"):
    return (Reserved(start_s=NOW_S + from_s, end_s=NOW_S + until_s, project=project),)


def ran(name, node_name, *devices, hours=20.0, project="p", can_pause=True):
    view = job(name, way(len(devices), run_s=hours * HOUR_S), at=NOW_S - HOUR_S, project=project, can_pause=can_pause)
    return runs(view, node_name, *devices, since=NOW_S - HOUR_S)


def wish(count=1, *, project="q", hours=2.0, promised=True):
    due_s = NOW_S + hours * HOUR_S
    return job("b", way(count, run_s=HOUR_S), at=NOW_S, project=project, deadline_s=due_s, promised=promised)


def paused(decision):
    return [change.job_id for change in decision.changes if change.kind is ChangeKind.PAUSE]


@pytest.mark.parametrize("spans", [False, True])
def test_a_run_leaves_its_device_to_a_promise_and_goes_on_on_what_is_kept_for_its_project(spans):
    own = ran("a", "n1", "cpu1")
    there = held_by([own], pool(node(cpus=2, reserved={"cpu0": kept()}), spans=spans))
    assert admit(wish(promised=False), [own], there, NOW_S).accepted
    found = place([own, wish()], there, NOW_S)
    assert paused(found) == ["a"]
    assert [(start.job_id, start.device_ids) for start in found.placements] == [("b", ("n1/cpu1",))]
    assert found.expected["a"][0] == NOW_S
    assert "other devices" in found.changes[0].reason
    jobs, there = carry_out(found, [own, wish()], there, NOW_S)
    then = place(jobs, there, NOW_S)
    assert [(start.job_id, start.device_ids) for start in then.placements] == [("a", ("n1/cpu0",))]


def test_a_run_moves_to_another_node_where_a_promised_gang_needs_its_own():
    jobs = [ran("a", "n1", "cpu0"), ran("c", "n2", "cpu0")]
    there = held_by(jobs, pool(node("n1", cpus=2), node("n2", cpus=2)))
    assert admit(wish(2, promised=False), jobs, there, NOW_S).accepted
    found = place([*jobs, wish(2)], there, NOW_S)
    (start,) = found.placements
    assert start.job_id == "b" and list(start.waits_for) == paused(found)
    assert len(paused(found)) == 1


def test_nobody_moves_where_a_promise_finds_other_devices():
    own = ran("a", "n1", "cpu0")
    there = held_by([own], pool(node("n1", cpus=1), node("n2", cpus=1)))
    found = place([own, wish()], there, NOW_S)
    assert not found.changes and [start.nodes for start in found.placements] == [("n2",)]


def test_a_run_on_a_kept_device_takes_nothing_from_a_promise_that_is_planned_there():
    own = ran("a", "n1", "cpu0")
    first = job("f", way(run_s=HOUR_S), at=NOW_S, project="p", deadline_s=NOW_S + 2 * HOUR_S, promised=True)
    there = held_by([own], pool(node(cpus=2, reserved={"cpu0": kept()})))
    found = place([own, first, wish(hours=1.5)], there, NOW_S)
    assert not found.warnings
    started = {start.job_id for start in found.placements}
    assert started == {"b", "f"} and paused(found) == ["a"]


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share", "deadline_energy"])
def test_a_gang_over_nodes_goes_on_where_none_may_begin_any_more(policy):
    gang = ran("a", "n1", "cpu0", "cpu1")
    running = replace(gang.running, nodes=("n1", "n2"), device_ids=("n1/cpu0", "n2/cpu0"), counts=(1, 1))
    gang, single = replace(gang, running=running), job("s", way(run_s=HOUR_S), at=NOW_S, project="q")
    there = held_by([gang], pool(node("n1", cpus=1), node("n2", cpus=1)))
    found = place([gang, single], there, NOW_S, policy=policy)
    assert found.running == ("a",) and not found.changes
    assert set(found.waits) == {"s"} and found.expected["s"][0] == NOW_S + 20 * HOUR_S


def _keeps(random):
    draw = random.random()
    if draw < 0.4:
        return kept(until_s=random.choice([1, 168]) * HOUR_S) if draw < 0.3 else kept(random.choice([0.5, 2]) * HOUR_S)
    return ()


def scene(seed):
    """(what runs and waits, the pool): reservations, gangs and single jobs of two projects."""
    random = Random(seed)
    names = ["n1", "n2"][: random.choice([1, 2])]
    size = random.choice([2, 3, 4])
    nodes = [node(name, cpus=size, reserved={f"cpu{i}": _keeps(random) for i in range(size)}) for name in names]
    free = {name: [f"cpu{index}" for index in range(size)] for name in names}
    jobs = []
    for number in range(random.choice([1, 2, 3])):
        name = random.choice(names)
        held = random.sample(free[name], min(len(free[name]), random.choice([1, 2])))
        free[name] = [device for device in free[name] if device not in held]
        if held:
            hours, able = random.choice([1, 5, 20]), random.random() < 0.8
            jobs.append(ran(f"r{number}", name, *held, hours=hours, project=random.choice("pq"), can_pause=able))
    for number in range(random.choice([0, 1, 2])):
        one = way(random.choice([1, 2]), run_s=random.choice([1, 5]) * HOUR_S)
        jobs.append(job(f"w{number}", one, at=NOW_S - HOUR_S, project=random.choice("pq")))
    new = wish(random.choice([1, 2]), project=random.choice("pq"), hours=random.choice([2, 4, 8]), promised=False)
    return jobs, replace(new, slowdown=1.3), held_by(jobs, pool(*nodes, spans=random.random() < 0.3))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_promised_has_its_place_in_the_next_decision(seed):
    jobs, new, there = scene(seed)
    if not admit(new, jobs, there, NOW_S).accepted:
        return
    found = place([*jobs, replace(new, promised=True)], there, NOW_S)
    assert not found.warnings
    assert "b" in {start.job_id for start in found.placements} or found.expected["b"][1] <= new.deadline_s
