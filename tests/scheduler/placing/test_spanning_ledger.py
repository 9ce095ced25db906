"""Queues of a pool whose gangs may span nodes, where some jobs stay on one: every start and promise names its nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduler.place import place
from scheduler.types import Reserved
from tests.scheduler.pools import hard_quota, held_by, job, node, pool, runs, way

NOW_S = 1000.0
DAYS_S = 200_000.0
every_queue = pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])


def alone(job_id, *options, **more):
    return job(job_id, *(replace(option, mode="single") for option in options), **more)


def gang(job_id, *options, **more):
    return job(job_id, *(replace(option, mode="sync") for option in options), **more)


def mixture(*parts, run_s=100.0, memory_gib=0):
    count = sum(width for _, width in parts)
    return replace(way(count, run_s=run_s, model="X + Y", memory_gib=memory_gib), parts=parts)


def of(models, name, **more):
    """A node with a core of each of these models."""
    return node(name, cpus=len(models), models={f"cpu{at}": model for at, model in enumerate(models)}, **more)


def spanning(*nodes, held=()):
    return held_by(held, pool(*nodes, spans=True))


def decide(jobs, view, policy, now_s=NOW_S, **how):
    """(job that starts -> devices on each node, the decision)."""
    decision = place(jobs, view, now_s, policy=policy, **how)
    started = {
        start.job_id: Counter(device.partition("/")[0] for device in start.device_ids) for start in decision.placements
    }
    return started, decision


@every_queue
def test_a_gang_lies_on_two_nodes_beside_a_job_that_needs_all_of_one(policy):
    view = spanning(node("n1", cpus=4), node("n2", cpus=2), node("n3", cpus=3))
    jobs = [alone("one", way(4, run_s=50.0), at=1.0), gang("wide", way(5, run_s=50.0), at=2.0)]
    assert decide(jobs, view, policy)[0] == {"one": {"n1": 4}, "wide": {"n2": 2, "n3": 3}}


@every_queue
def test_nodes_of_the_weakest_sandbox_level_take_work(policy):
    view = spanning(node("n1", cpus=2, level=0), node("n2", cpus=2, level=0), node("n3", cpus=4, level=3))
    jobs = [gang("wide", way(4, run_s=50.0), at=1.0), alone("one", way(4, run_s=50.0), at=2.0)]
    assert decide(jobs, view, policy)[0] == {"wide": {"n1": 2, "n2": 2}, "one": {"n3": 4}}


@every_queue
def test_each_node_gives_a_gang_no_more_devices_than_it_has_memory_for(policy):
    view = spanning(node("n1", cpus=3, memory_gib=2), node("n2", cpus=3, memory_gib=6))
    jobs = [gang("wide", way(4, run_s=50.0, memory_gib=8), at=1.0), alone("one", way(2, run_s=50.0), at=2.0)]
    assert decide(jobs, view, policy)[0] == {"wide": {"n1": 1, "n2": 3}, "one": {"n1": 2}}


@every_queue
def test_a_gang_is_promised_the_first_moment_with_memory_beside_the_devices(policy):
    first = runs(alone("first", way(1, run_s=40.0, memory_gib=4)), "n1", "cpu0", since=NOW_S)
    second = runs(alone("second", way(1, run_s=90.0, memory_gib=4)), "n2", "cpu0", since=NOW_S)
    held = [first, second]
    view = spanning(node("n1", cpus=3, memory_gib=4), node("n2", cpus=3, memory_gib=4), held=held)
    jobs = [*held, gang("wide", way(4, run_s=50.0, memory_gib=8), at=1.0), alone("one", way(3, run_s=9.0), at=2.0)]
    started, decision = decide(jobs, view, policy)
    assert not started and decision.expected["wide"] == (NOW_S + 90.0, NOW_S + 140.0)


@every_queue
def test_a_mixture_lies_where_it_was_planned_beside_a_job_that_needs_the_other_node(policy):
    """Its two X fit the smaller node, which leaves the larger one."""
    view = spanning(of("XXXX", "n1"), of("XX", "n2"), of("YY", "n3"))
    jobs = [job("mix", mixture(("X", 2), ("Y", 1)), at=1.0), alone("one", way(4, run_s=50.0, model="X"), at=2.0)]
    assert decide(jobs, view, policy)[0] == {"mix": {"n2": 2, "n3": 1}, "one": {"n1": 4}}


@every_queue
def test_the_parts_of_a_mixture_share_the_memory_of_a_node_as_planned(policy):
    """All but one lie on one node, which has memory for two."""
    view = spanning(of("YXXY", "n1"), of("Y", "n2"))
    jobs = [job("mix", mixture(("X", 1), ("Y", 2), memory_gib=20), at=1.0), alone("one", way(2, run_s=50.0), at=2.0)]
    assert decide(jobs, view, policy)[0] == {"mix": {"n1": 2, "n2": 1}, "one": {"n1": 2}}


@every_queue
def test_a_mixture_is_promised_what_it_could_have_before_its_quota_lets_it_start(policy):
    """By then a later X is free, on the node whose memory its Y needs."""
    old = runs(job("old", way(1, run_s=100.0, model="X"), project="q"), "n2", "cpu0")
    mine = runs(job("mine", way(1, run_s=300.0, model="Z"), project="p"), "n3", "cpu0")
    nodes = of("X", "n1", memory_gib=8), of("XY", "n2", memory_gib=4), of("ZZZ", "n3")
    mix = job("mix", mixture(("X", 1), ("Y", 1), memory_gib=8), project="p")
    jobs = [old, mine, mix, alone("one", way(2, run_s=50.0), at=DAYS_S - 1.0)]
    view = spanning(*nodes, held=[old, mine])
    started, decision = decide(jobs, view, policy, DAYS_S, quotas={"p": hard_quota({"cpu": 2})})
    assert started == {"one": {"n3": 2}} and decision.expected["mix"] == (DAYS_S + 300.0, DAYS_S + 400.0)


@every_queue
def test_a_mixture_that_no_nodes_have_the_memory_for_keeps_nobody_waiting(policy):
    """There is enough for two devices, and none where its Y is."""
    nodes = of("X", "n1", memory_gib=8), of("X", "n2", memory_gib=8), of("Y", "n3", memory_gib=2), of("ZZ", "n4")
    mix = job("mix", mixture(("X", 1), ("Y", 1), memory_gib=8))
    jobs = [
        mix,
        alone("one", way(2, run_s=50.0, model="Z"), at=1.0),
        job("small", way(1, run_s=5e3, model="X"), at=2.0),
    ]
    started, decision = decide(jobs, spanning(*nodes), policy, DAYS_S)
    assert started.keys() == {"one", "small"} and decision.waits["mix"].code == "not_enough_memory"


@every_queue
def test_a_gang_begins_on_what_is_kept_for_its_project_on_several_nodes(policy):
    kept = {f"cpu{at}": (Reserved(start_s=0.0, end_s=NOW_S + 500.0, project="p"),) for at in range(2)}
    view = spanning(node("n1", cpus=2, reserved=kept), node("n2", cpus=2, reserved=kept), node("n3", cpus=4))
    jobs = [
        gang("first", way(4, run_s=50.0), project="q", at=1.0),
        alone("one", way(2, run_s=50.0), project="q", at=2.0),
        gang("own", way(4, run_s=50.0), project="p", at=3.0),
    ]
    assert decide(jobs, view, policy)[0] == {"first": {"n3": 4}, "own": {"n1": 2, "n2": 2}}


@every_queue
def test_jobs_on_several_nodes_make_room_for_a_gang_and_no_more_of_them_than_it_needs(policy):
    held = [
        runs(alone(f"on_{name}", way(2, run_s=500.0), can_pause=True, priority=-1), name, "cpu0", "cpu1")
        for name in ("n1", "n2", "n3")
    ]
    view = spanning(*(node(name, cpus=2) for name in ("n1", "n2", "n3")), held=held)
    started, decision = decide([*held, gang("wide", way(4, run_s=50.0), at=1.0, priority=1)], view, policy)
    paused = {change.job_id for change in decision.changes}
    assert len(paused) == 2 and {f"on_{name}" for name in started["wide"]} == paused


@every_queue
def test_a_gang_starts_on_nodes_where_it_was_lost_least(policy):
    view = spanning(*(node(f"n{at}", cpus=2) for at in range(1, 5)))
    lost = gang("lost", way(4, run_s=50.0), at=1.0, avoid={"n1": 2, "n3": 1})
    started, _ = decide([lost, alone("one", way(2, run_s=50.0), at=2.0)], view, policy)
    assert started["lost"] == {"n2": 2, "n4": 2} and started.keys() == {"lost", "one"}


@every_queue
@pytest.mark.parametrize(("run_s", "starts"), [(90.0, True), (110.0, False)])
def test_nobody_runs_past_the_start_of_an_overdue_gang_on_a_node_that_it_could_use(policy, run_s, starts):
    """Not even where it is not planned: it may be put there."""
    busy = runs(alone("busy", way(2, run_s=100.0)), "n1", "cpu0", "cpu1", since=DAYS_S)
    view = spanning(*(node(name, cpus=2) for name in ("n1", "n2", "n3")), held=[busy])
    jobs = [busy, gang("overdue", way(5, run_s=50.0)), alone("later", way(2, run_s=run_s), at=DAYS_S - 1.0)]
    started, decision = decide(jobs, view, policy, DAYS_S)
    assert ("later" in started) is starts and decision.expected["overdue"][0] == DAYS_S + 100.0
