"""Where data lie already decides between places that are equally good, and where jobs will start can be told."""

from __future__ import annotations

import pytest

from scheduler.admit import admit
from scheduler.data_way import DataWay
from scheduler.place import place
from scheduler.placing.foreseen import FEW, foreseen
from tests.scheduler.pools import job, node, pool, runs, way

POLICIES = ("fifo", "edf", "fair_share", "deadline_energy")
SIZES = (3, 30)
"""Nodes of a small pool, whose places policies look at one by one, and of one where they look them up."""


def nodes_of(decision):
    return {start.job_id: start.nodes for start in decision.placements}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_of_equal_nodes_the_one_with_the_data_is_taken(policy, size):
    there = pool(*(node(f"n{number:02}") for number in range(size)))
    one = job("a", way(2, run_s=600.0))
    assert nodes_of(place([one], there, 0.0, policy=policy)) == {"a": ("n00",)}
    told = job("a", way(2, run_s=600.0), data_on=frozenset({"n02", "elsewhere"}))
    assert nodes_of(place([told], there, 0.0, policy=policy)) == {"a": ("n02",)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_data_neither_break_up_a_large_gap_nor_keep_a_job_waiting(policy, size):
    busy = node("n00", busy=("cpu0",))
    there = pool(busy, *(node(f"n{number:02}") for number in range(1, size)))
    small = job("a", way(1, run_s=600.0), data_on=frozenset({"n02"}))
    assert nodes_of(place([small], there, 0.0, policy=policy)) == {"a": ("n00",)}
    wide = job("a", way(2, run_s=600.0), data_on=frozenset({"n00"}))
    assert nodes_of(place([wide], there, 0.0, policy=policy)) == {"a": ("n01",)}


@pytest.mark.parametrize("policy", POLICIES)
def test_two_jobs_with_the_same_data_share_the_node_that_has_them_only_as_far_as_it_goes(policy):
    there = pool(*(node(f"n{number}") for number in range(4)))
    jobs = [job(name, way(2, run_s=600.0), data_on=frozenset({"n3"})) for name in "ab"]
    assert sorted(nodes_of(place(jobs, there, 0.0, policy=policy)).values()) == [("n0",), ("n3",)]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_over_nodes_goes_to_those_with_its_data(policy):
    there = pool(*(node(f"n{number}") for number in range(6)), spans=True)
    told = job("a", way(4, run_s=600.0), data_on=frozenset({"n2", "n5"}))
    assert nodes_of(place([told], there, 0.0, policy=policy)) == {"a": ("n2", "n5")}
    alone = job("a", way(2, run_s=600.0), data_on=frozenset({"n4"}))
    assert nodes_of(place([alone], there, 0.0, policy=policy)) == {"a": ("n4",)}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_waits_is_foreseen_on_the_node_that_comes_free_first(policy):
    there = pool(*(node(f"n{number}") for number in range(4)))
    running = [
        runs(job(f"r{number}", way(2, run_s=600.0 * (number != 2) + 100.0)), f"n{number}", "cpu0", "cpu1")
        for number in range(4)
    ]
    decision = place([*running, job("w", way(2, run_s=600.0), at=1.0)], there, 2.0, policy=policy)
    assert "w" in decision.waits
    assert foreseen([*running, job("w", way(2))], there, decision) == {"w": ("n2",)}


def test_a_job_is_foreseen_on_all_nodes_where_these_are_few_and_nowhere_where_nobody_can_tell():
    def waiting(*nodes, **more):
        there = pool(*nodes, **more)
        full = [one for one in nodes if one.takes_work and len(one.devices) == 2]
        jobs = [runs(job(f"r-{one.name}", way(2)), one.name, "cpu0", "cpu1") for one in full]
        jobs.append(job("w", way(2), at=1.0, minimum_sandbox_level=2))
        decision = place(jobs, there, 2.0, policy="fifo")
        assert "w" in decision.waits
        return foreseen(jobs, there, decision)

    good = [node(f"n{number}") for number in range(FEW + 1)]
    weak, small, gone = node("weak", level=1), node("small", cpus=1), node("gone", takes_work=False)
    assert waiting(*good[:FEW], weak, small, gone) == {"w": tuple(one.name for one in good[:FEW])}
    assert waiting(*good) == {}


def test_who_starts_once_others_have_left_is_foreseen_where_it_was_placed():
    there = pool(*(node(f"n{number}") for number in range(4)))
    jobs = [runs(job(f"r{number}", way(2)), f"n{number}", "cpu0", "cpu1", leaving=number == 3) for number in range(4)]
    jobs.append(job("w", way(2), at=-1.0))
    decision = place(jobs, there, 0.0, policy="fifo")
    (start,) = [start for start in decision.placements if start.job_id == "w"]
    assert start.waits_for == ("r3",)
    assert foreseen(jobs, there, decision)["w"] == ("n3",)
    assert "w" not in foreseen(jobs, there, decision, starting={"w"})


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_with_nothing_left_but_its_data_to_bring_is_told_its_chance(policy):
    found = []
    for since_s in range(40):
        now_s = 1.8e9 + since_s / 7
        data = DataWay(size_bytes=10**9, bytes_per_s={"n1": 3e6 + since_s})
        one = job("a", way(1, run_s=100.0), at=now_s - 10.0, deadline_s=now_s + 1.0, work_left=0.0, data=data)
        found.append(admit(one, [], pool(node()), now_s, policy=policy))
    assert not any(answer.accepted for answer in found)
