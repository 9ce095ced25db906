from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduler.place
from scheduler.types import DeviceView, JobView, NodeView, Option, PoolView, WaitCode

GIB = 2**30


def node(name="n1", *, cpus=2, gpus=0, busy=(), level=3, memory_gib=16, held_gib=0, takes_work=True):
    kinds = [("cpu", index) for index in range(cpus)] + [("cuda", index) for index in range(gpus)]
    devices = tuple(
        DeviceView(device_id=f"{name}/{kind}{index}", kind=kind, index=index, free=f"{kind}{index}" not in busy)
        for kind, index in kinds
    )
    return NodeView(
        name=name,
        takes_work=takes_work,
        sandbox_level=level,
        memory_bytes=memory_gib * GIB,
        memory_held_bytes=held_gib * GIB,
        devices=devices,
    )


def job(job_id, *, count=1, kind="cpu", at=0.0, priority=0, memory_gib=0, level=0, mode=""):
    return JobView(
        job_id=job_id,
        submitted_s=at,
        options=(Option(kind=kind, count=count, memory_bytes=memory_gib * GIB, mode=mode),),
        priority=priority,
        minimum_sandbox_level=level,
    )


def place(queue, pool):
    return scheduler.place.place(queue, pool, 0.0, policy="fifo")


def code(decision, job_id):
    return decision.waits[job_id].code


def test_a_gang_gets_all_its_devices_on_one_node_in_order():
    decision = place([job("a", count=2)], PoolView(nodes=(node("n1", cpus=1), node("n2", cpus=3))))
    assert [(p.node, p.device_ids) for p in decision.placements] == [("n2", ("n2/cpu0", "n2/cpu1"))]


def test_the_first_node_that_fits_is_taken():
    decision = place([job("a")], PoolView(nodes=(node("n2"), node("n1"))))
    assert decision.placements[0].node == "n1"


def test_a_gang_is_never_split_over_nodes():
    decision = place([job("a", count=3)], PoolView(nodes=(node("n1"), node("n2"))))
    assert not decision.placements
    assert code(decision, "a") == WaitCode.TOO_MANY_DEVICES
    assert "3 CPU cores" in decision.waits["a"].text


def test_a_gang_for_several_nodes_is_told_what_keeps_them_apart():
    problem = "There is n1 with 0.3.0, n2 with 0.2.0."
    pool = PoolView(nodes=(node("n1"), node("n2")), apart=problem)
    told = place([job("a", count=3), job("alone", count=3, mode="replicated")], pool).waits
    assert problem in told["a"].text and "or several can be used together" in told["a"].remedy
    assert problem not in told["alone"].text, "it is one process"


def test_a_gang_for_more_than_all_nodes_have_is_told_what_there_is():
    problem = "The setting is off."
    told = place([job("a", count=5)], PoolView(nodes=(node("n1"), node("n2")), apart=problem)).waits["a"]
    assert told.text == "It needs 5 CPU cores on one node; the largest that takes work has 2, all together 4."
    assert "several" not in told.remedy


ONE_UP = "Only one node takes work; n2 does not."


@pytest.mark.parametrize(
    ("at", "text", "when"),
    [
        ({}, "n2 is down.", "n2 is up"),
        ({"draining": True}, "n2 is draining.", "n2 drains no longer"),
        (
            {"clock_off": True},
            "n2 is given nothing until the clock there is right (Pool).",
            "the clock of n2 is right",
        ),
        (
            {"twins": True},
            "n2 is given nothing while two machines report as one node (Pool).",
            "one machine alone reports as n2",
        ),
    ],
)
def test_a_gang_that_starts_once_another_node_is_back_is_told_which(at, text, when):
    pool = PoolView(nodes=(node("n1"), replace(node("n2", takes_work=False), **at)), apart=ONE_UP)
    told = place([job("a", count=4)], pool).waits["a"]
    assert told.text == f"It needs 4 CPU cores; the only node that takes work has 2. {text}"
    assert told.remedy.startswith(f"It starts when {when}; or clone it with fewer devices.")
    assert ("dlh pool undrain n2." in told.remedy) is bool(at.get("draining"))
    alone = place([job("a", count=4, mode="replicated")], pool).waits["a"]
    assert "n2" not in alone.words and "on one node" in alone.text and "a larger node is up" in alone.remedy
    never = place([job("a", count=5)], pool).waits["a"]
    assert "n2" not in never.words and "more nodes are up" in never.remedy, "it would not do either"


@pytest.mark.parametrize(
    ("count", "away", "when"),
    [
        (6, 1, "n3 is up"),
        (6, 2, "one of n3 and n4 takes work again"),
        (8, 2, "n3 and n4 take work again"),
        (8, 3, "enough of n3, n4 and n5 take work again"),
        (12, 5, "enough of n3, n4, n5 and others take work again"),
        (8, 1, "more nodes are up"),
    ],
)
def test_a_gang_that_may_span_nodes_is_told_how_many_of_those_away_it_takes(count, away, when):
    gone = [node(f"n{number}", takes_work=False) for number in range(3, 3 + away)]
    told = place([job("a", count=count)], PoolView(nodes=(node("n1"), node("n2"), *gone), spans_nodes=True)).waits["a"]
    assert told.text.startswith(f"It needs {count} CPU cores; the nodes that take work have 4.")
    assert told.remedy == f"It starts when {when}; or clone it with fewer devices."
    assert ("down" in told.text) is ("more" not in when)


def test_a_gang_that_a_setting_and_a_node_that_is_down_keep_waiting_is_told_both():
    off = "The setting is off."
    pool = PoolView(nodes=(node("n1"), node("n2"), node("n3", takes_work=False)), apart=off)
    told = place([job("a", count=6)], pool).waits["a"]
    has = "the largest that takes work has 2, all together 4"
    assert told.text == f"It needs 6 CPU cores on one node; {has}. {off} n3 is down."
    assert told.remedy.startswith("It starts when a larger node is up, or several can be used together and n3 is up;")


def test_first_come_first_served_within_one_priority():
    decision = place([job("late", at=2), job("early", at=1)], PoolView(nodes=(node(cpus=1),)))
    assert [p.job_id for p in decision.placements] == ["early"]


def test_a_higher_priority_goes_first():
    decision = place([job("early", at=1), job("urgent", at=2, priority=5)], PoolView(nodes=(node(cpus=1),)))
    assert [p.job_id for p in decision.placements] == ["urgent"]


def test_a_small_job_does_not_overtake_a_large_one_that_waits_for_the_same_kind():
    pool = PoolView(nodes=(node(cpus=2, busy=("cpu0",)),))
    decision = place([job("large", count=2, at=1), job("small", at=2)], pool)
    assert not decision.placements
    assert code(decision, "large") == WaitCode.DEVICES_BUSY
    assert "starts when 1 more is given back" in decision.waits["large"].words
    assert code(decision, "small") == WaitCode.BEHIND


def test_a_job_for_another_kind_of_device_passes():
    pool = PoolView(nodes=(node(cpus=1, gpus=1, busy=("cpu0",)),))
    decision = place([job("cpu", at=1), job("gpu", kind="cuda", at=2)], pool)
    assert [p.job_id for p in decision.placements] == ["gpu"]


def test_a_job_that_cannot_run_here_holds_back_nobody():
    decision = place([job("giant", count=99, at=1), job("small", at=2)], PoolView(nodes=(node(),)))
    assert [p.job_id for p in decision.placements] == ["small"]
    assert code(decision, "giant") == WaitCode.TOO_MANY_DEVICES


def test_an_empty_pool_says_how_a_node_joins():
    remedy = place([job("a")], PoolView()).waits["a"].remedy
    assert "make run" in remedy and "dlh node join" in remedy


def test_a_node_that_drains_is_named_where_it_has_what_a_job_waits_for():
    drained = replace(node("n1", gpus=1, takes_work=False), draining=True)
    told = place([job("a")], PoolView(nodes=(drained,))).waits["a"]
    assert told.text == "No node takes work. n1 is draining."
    assert told.remedy.endswith("dlh pool undrain n1.") and "make run" not in told.remedy
    told = place([job("a", kind="cuda")], PoolView(nodes=(drained, node("n2")))).waits["a"]
    assert told.code == WaitCode.NO_SUCH_DEVICE and "n1 is draining." in told.text and "undrain n1" in told.remedy


def test_a_node_that_is_down_is_named_where_it_has_what_a_job_waits_for():
    down = node("n1", gpus=1, takes_work=False)
    told = place([job("a")], PoolView(nodes=(down,))).waits["a"]
    assert told.text == "No node takes work. n1 is down."
    start = "Start n1 again: make run where the portal is, dlh node start on another machine."
    assert told.remedy == f"It starts when n1 is up. {start}"
    told = place([job("a", count=4)], PoolView(nodes=(down,))).waits["a"]
    assert told.text.endswith("n1 is down.") and "n1" not in told.remedy, "it would not do"
    assert told.remedy.startswith("It starts when a node with 4 CPU cores is up.") and "dlh node join" in told.remedy
    drained = replace(node("n2", takes_work=False), draining=True)
    told = place([job("a")], PoolView(nodes=(down, drained))).waits["a"]
    assert told.text == "No node takes work. n1 is down. n2 is draining." and "undrain n2" in told.remedy
    assert told.remedy.startswith(f"It starts when one of n1 and n2 takes work again. {start}")
    told = place([job("a", kind="cuda")], PoolView(nodes=(down, node("n2")))).waits["a"]
    assert told.code == WaitCode.NO_SUCH_DEVICE and told.text.endswith("n1 is down.")
    early = replace(node("n3", takes_work=False), clock_off=True)
    told = place([job("a")], PoolView(nodes=(early,))).waits["a"]
    assert "n3 is given nothing until the clock there is right" in told.text
    assert told.remedy == "It starts when the clock of n3 is right."
    told = place([job("a", count=99)], PoolView(nodes=(down, node("n2")))).waits["a"]
    assert "n1" not in told.text, "it would not do either"


def test_who_waits_for_devices_that_are_gone_is_told_to_take_others_by_an_offer():
    told = place([job("a", kind="cuda")], PoolView(nodes=(node(),))).waits["a"]
    assert told.remedy.endswith("or take other devices by an offer: tab Cost, dlh jobs offer.")


def test_each_reason_for_waiting_is_told():
    assert code(place([job("a")], PoolView()), "a") == WaitCode.NO_NODES
    assert code(place([job("a")], PoolView(nodes=(node(takes_work=False),))), "a") == WaitCode.NO_NODES
    assert code(place([job("a", kind="cuda")], PoolView(nodes=(node(),))), "a") == WaitCode.NO_SUCH_DEVICE
    assert code(place([job("a", memory_gib=64)], PoolView(nodes=(node(),))), "a") == WaitCode.NOT_ENOUGH_MEMORY
    assert code(place([job("a", memory_gib=12)], PoolView(nodes=(node(held_gib=8),))), "a") == WaitCode.MEMORY_BUSY
    weak = place([job("a", level=2)], PoolView(nodes=(node(level=1),)))
    assert code(weak, "a") == WaitCode.SANDBOX_TOO_WEAK
    assert "needs sandbox level 2" in weak.waits["a"].text


def test_a_draining_node_gets_nothing():
    decision = place([job("a")], PoolView(nodes=(node("n1", takes_work=False), node("n2"))))
    assert decision.placements[0].node == "n2"


jobs = st.lists(
    st.builds(
        job,
        st.uuids().map(str),
        count=st.integers(1, 5),
        kind=st.sampled_from(["cpu", "cuda"]),
        at=st.floats(0, 100),
        priority=st.integers(-2, 2),
        memory_gib=st.sampled_from([0, 0, 4, 20]),
        level=st.integers(0, 3),
    ),
    max_size=12,
    unique_by=lambda job: job.job_id,
)
busy = st.sets(st.sampled_from(["cpu0", "cpu1", "cpu2", "cuda0", "cuda1"])).map(tuple)
pools = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), busy, st.integers(0, 3), st.sampled_from([2, 16]), st.booleans()),
    max_size=4,
).map(
    lambda rows: PoolView(
        nodes=tuple(
            node(f"n{i}", cpus=c, gpus=g, busy=b, level=level, memory_gib=m, takes_work=t)
            for i, (c, g, b, level, m, t) in enumerate(rows)
        )
    )
)


@given(jobs, pools)
def test_no_device_is_given_twice_and_none_that_is_held(queue, pool):
    devices = {device.device_id: device for node_ in pool.nodes for device in node_.devices}
    given_out = Counter(device for p in place(queue, pool).placements for device in p.device_ids)
    assert all(count == 1 for count in given_out.values())
    assert all(devices[device].free for device in given_out)


@given(jobs, pools)
def test_a_gang_starts_whole_on_one_fitting_node_or_waits_with_a_reason(queue, pool):
    decision = place(queue, pool)
    wanted = {job_.job_id: job_ for job_ in queue}
    by_name = {node_.name: node_ for node_ in pool.nodes}
    placed = {p.job_id for p in decision.placements}
    assert placed | set(decision.waits) == set(wanted)
    assert not placed & set(decision.waits)
    assert all(reason.words.endswith(".") for reason in decision.waits.values())
    for p in decision.placements:
        job_, node_ = wanted[p.job_id], by_name[p.node]
        assert len(set(p.device_ids)) == job_.options[0].count
        assert {device.device_id for device in node_.of_kind(job_.options[0].kind)} >= set(p.device_ids)
        assert node_.takes_work
        assert node_.sandbox_level >= job_.minimum_sandbox_level


@given(jobs, pools)
def test_memory_that_was_asked_for_is_never_promised_twice(queue, pool):
    wanted = {job_.job_id: job_ for job_ in queue}
    promised = Counter()
    for p in place(queue, pool).placements:
        promised[p.node] += wanted[p.job_id].options[0].memory_bytes
    assert all(promised[node_.name] <= node_.memory_bytes for node_ in pool.nodes)


@given(jobs, pools)
def test_nobody_overtakes_a_job_that_could_run_where_he_does_and_waits_for_the_same_kind(queue, pool):
    decision = place(queue, pool)
    placed = {p.job_id: p for p in decision.placements}
    by_name = {node_.name: node_ for node_ in pool.nodes}
    held = []
    for job_ in sorted(queue, key=lambda job_: (-job_.priority, job_.submitted_s, job_.job_id)):
        if job_.job_id in placed:
            taken = by_name[placed[job_.job_id].node]
            rivals = [before for before in held if before.options[0].kind == job_.options[0].kind]
            assert not any(could_ever_run(before, taken) for before in rivals)
        elif code(decision, job_.job_id) in {WaitCode.DEVICES_BUSY, WaitCode.BEHIND}:
            held.append(job_)


def could_ever_run(job_, node_):
    wish = job_.options[0]
    strong, roomy = node_.sandbox_level >= job_.minimum_sandbox_level, node_.memory_bytes >= wish.memory_bytes
    return node_.takes_work and strong and roomy and len(node_.of_kind(wish.kind)) >= wish.count


@given(jobs, pools)
def test_the_decision_does_not_depend_on_the_order_of_its_inputs(queue, pool):
    assert place(queue, pool) == place(queue[::-1], PoolView(nodes=pool.nodes[::-1]))
