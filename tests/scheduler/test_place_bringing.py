"""Data that have to be brought first count: in what is expected, in what is promised, and in where a deadline holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.data_way import AHEAD_LAG_S, HERE, DataWay, Travel
from scheduler.place import place
from scheduler.types import Reserved
from tests.scheduler.pools import job, node, pool, runs, way

POLICIES = ("fifo", "edf", "fair_share", "deadline_energy")
SPREAD = 1.5
SIZES = (3, 30)
"""Nodes of a small pool, whose places policies look at one by one, and of one where they look them up."""


def names(size):
    return [f"n{number:02}" for number in range(size)]


def data_of(size, *, on=(), seconds=1000.0, spread=1.0):
    """So long to each node of a pool that has not got them."""
    rates, spreads = dict.fromkeys(names(size), 1000 / seconds), dict.fromkeys(names(size), spread)
    return DataWay(size_bytes=1000, bytes_per_s=rates, spread=spreads, on=frozenset(on))


def asked(data, *ways, **more):
    return job("a", *(ways or (way(2, run_s=600.0),)), data=data, data_on=data.on, **more)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_finish_that_is_expected_holds_the_way_of_the_data(policy, size):
    there = pool(*map(node, names(size)))
    decision = place([asked(data_of(size))], there, 0.0, policy=policy)
    assert decision.expected["a"] == pytest.approx((0.0, 1600.0))
    decision = place([asked(data_of(size, on=["n02"]))], there, 0.0, policy=policy)
    assert decision.placements[0].node == "n02" and decision.expected["a"] == pytest.approx((0.0, 600.0))


@pytest.mark.parametrize("policy", POLICIES)
def test_of_a_gang_over_nodes_the_longest_way_counts(policy):
    there = pool(*map(node, names(4)), spans=True)
    decision = place([asked(data_of(4), way(6, run_s=600.0))], there, 0.0, policy=policy)
    assert decision.expected["a"] == pytest.approx((0.0, 1600.0))


@pytest.mark.parametrize("size", SIZES)
def test_a_deadline_that_only_the_node_with_the_data_keeps_is_promised_and_kept_there(size):
    full = [node(name, busy=("cpu0",)) for name in names(size)[:-2]]
    there = pool(*full, *map(node, names(size)[-2:]))
    one = asked(data_of(size, on=[names(size)[-1]]), way(1, run_s=600.0), deadline_s=1000.0)
    assert admit(one, [], there, 0.0).accepted
    (start,) = place([replace(one, promised=True)], there, 0.0).placements
    assert start.node == names(size)[-1], "although others are fuller"
    without = replace(one, data=data_of(size), data_on=frozenset())
    found = admit(without, [], there, 0.0)
    assert not found.accepted and found.earliest_finish_s > 1600.0
    assert "17 min of that to bring its data there" in found.text
    assert not any("fewer epochs" in help_ for help_ in found.changes_that_would_help), "no epoch would be in time"
    assert admit(replace(without, deadline_s=found.earliest_finish_s), [], there, 0.0).accepted


@pytest.mark.parametrize("size", SIZES)
def test_a_quick_line_is_taken_where_a_slow_one_would_be_late(size):
    rates = {name: 1.0 if name != names(size)[1] else 100.0 for name in names(size)}
    full = [node(name, busy=("cpu0",)) for name in names(size) if name != names(size)[1]]
    one = asked(DataWay(size_bytes=1000, bytes_per_s=rates), way(1, run_s=600.0), deadline_s=900.0)
    assert admit(one, [], pool(*full, node(names(size)[1])), 0.0).accepted


@pytest.mark.parametrize("policy", POLICIES)
def test_no_job_waits_for_a_node_with_its_data(policy):
    there = pool(node("n00"), node("n01"))
    busy = runs(job("r", way(2, run_s=100.0)), "n00", "cpu0", "cpu1")
    one = asked(data_of(2, on=["n00"]), at=1.0)
    assert [start.node for start in place([busy, one], there, 2.0, policy=policy).placements] == ["n01"]


def test_the_earliest_finish_is_told_where_it_ends_first_not_where_it_starts_first():
    there = pool(node("n00"), node("n01"))
    busy = runs(job("r", way(2, run_s=300.0)), "n00", "cpu0", "cpu1")
    one = asked(data_of(2, on=["n00"]), deadline_s=500.0)
    found = admit(one, [busy], there, 0.0)
    assert not found.accepted and found.earliest_finish_s < 1000.0
    in_time = replace(one, deadline_s=found.earliest_finish_s)
    assert admit(in_time, [busy], there, 0.0).accepted
    (told,) = promisable(one, [busy], there, 0.0).values()
    assert (told.end_s, told.data, told.node) == (pytest.approx(found.earliest_finish_s), HERE, "n00")


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_starts_that_would_still_fetch_its_data_when_a_reservation_begins(policy):
    kept = (Reserved(start_s=1000.0, end_s=5000.0),)
    there = pool(node("n00", reserved={"cpu0": kept, "cpu1": kept}))
    assert place([asked(data_of(1, seconds=100.0))], there, 0.0, policy=policy).placements
    assert not place([asked(data_of(1))], there, 0.0, policy=policy).placements


def test_what_is_likely_sent_ahead_of_a_late_start_is_expected_to_be_there_and_not_promised():
    there = pool(node("n00"))
    wait_s = 2000.0 + AHEAD_LAG_S
    one = asked(data_of(1), at=1.0)
    for left_s, data_s in ((wait_s + 1, 0.0), (wait_s - 10, 1000.0)):
        busy = runs(job("r", way(2, run_s=left_s)), "n00", "cpu0", "cpu1")
        start_s, finish_s = place([busy, one], there, 0.0).expected["a"]
        assert finish_s - start_s == pytest.approx(600.0 + data_s)
        (told,) = promisable(one, [busy], there, 0.0).values()
        assert told.end_s - told.start_s > 1600.0


@pytest.mark.parametrize("policy", POLICIES)
def test_who_has_its_devices_and_fetches_still_holds_them_for_longer(policy):
    there = pool(node("n00"))
    fetching = job("r", way(2, run_s=600.0), data=data_of(1), bringing=Travel(400.0, 500.0))
    fetching = runs(fetching, "n00", "cpu0", "cpu1")
    decision = place([fetching, job("w", way(2, run_s=60.0), at=1.0)], there, 2.0, policy=policy)
    assert decision.expected["r"][1] == pytest.approx(1002.0)
    assert decision.expected["w"][0] >= 1102.0


def test_the_upper_end_of_a_run_is_no_upper_end_of_the_way_of_its_data():
    """Else who fetches would hold its devices for longer than was planned, and break a promise given behind it."""
    there = pool(node("n00"))
    first = job("a", way(2, run_s=600.0), data=data_of(1), slowdown=2.0, deadline_s=2300.0, promised=True)
    behind = job("b", way(2, run_s=100.0), at=1.0, deadline_s=2400.0, promised=True)
    starts_s = place([first, behind], there, 0.0).expected["b"][0]
    fetching = runs(replace(first, bringing=Travel(900.0, 900.0)), "n00", "cpu0", "cpu1")
    decision = place([fetching, behind], there, 100.0)
    assert not decision.warnings and decision.expected["b"][0] <= starts_s


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("spread", "upper_s"), [(1.0, 2200.0), (SPREAD, 2700.0)])
def test_a_deadline_is_held_against_the_upper_ends_of_the_way_of_the_data_and_of_the_run(policy, spread, upper_s):
    there = pool(node("n00"))
    for deadline_s, accepted in ((upper_s + 100.0, True), (upper_s - 100.0, False)):
        one = asked(data_of(1, spread=spread), deadline_s=deadline_s, slowdown=2.0)
        found = admit(one, [], there, 0.0, policy=policy)
        assert found.accepted == accepted
        assert found.earliest_finish_s == pytest.approx(upper_s, abs=10.0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_finish_that_is_expected_holds_the_middle_of_the_way_and_who_comes_after_waits_for_its_upper_end(
    policy, size
):
    there = pool(*map(node, names(size)))
    data = data_of(size, spread=SPREAD)
    first = [job(f"j{number}", way(2, run_s=600.0), at=number, data=data) for number in range(size)]
    decision = place([*first, job("w", way(2, run_s=60.0), at=size)], there, size, policy=policy)
    assert {decision.data[f"j{number}"] for number in range(size)} == {(1000.0, 1500.0)}
    assert {decision.expected[f"j{number}"][1] for number in range(size)} == {size + 1600.0}
    assert decision.expected["w"][0] == pytest.approx(size + 2100.0, abs=10.0)


def test_on_a_line_that_varies_more_a_late_job_is_on_time_less_certainly():
    there = pool(node("n00"))
    late = asked(data_of(1), deadline_s=1650.0, slowdown=1.2)
    sure, unsure = (admit(replace(late, data=data_of(1, spread=spread)), [], there, 0.0) for spread in (1.0, 4.0))
    assert 0.5 < unsure.chance < sure.chance < 0.9


def test_edf_widest_expects_the_finish_with_the_way_of_the_data():
    decision = place([asked(data_of(1, spread=SPREAD))], pool(node("n00")), 0.0, policy="edf_widest")
    assert decision.expected["a"] == pytest.approx((0.0, 1600.0))
    assert decision.data["a"] == (1000.0, 1500.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_of_what_is_expected_the_way_of_the_data_is_told_until_a_job_has_its_devices(policy):
    there = pool(node("n00"))
    one = asked(data_of(1))
    assert place([one], there, 0.0, policy=policy).data == {"a": (1000.0, 1000.0)}
    assert not place([replace(one, data=None)], there, 0.0, policy=policy).data.get("a")
    assert place([runs(one, "n00", "cpu0", "cpu1")], there, 0.0, policy=policy).data.get("a", HERE) == HERE


def test_who_gets_more_devices_than_it_asks_for_is_expected_with_the_way_of_its_data_all_the_same():
    one = asked(data_of(1), way(1, run_s=600.0), way(2, run_s=300.0), can_pause=True)
    decision = place([one], pool(node("n00")), 0.0)
    assert decision.placements[0].option.count == 2
    assert decision.expected["a"] == (0.0, 1300.0) and decision.data == {"a": (1000.0, 1000.0)}


def test_a_mixture_is_held_against_its_deadline_with_its_data():
    models = {"cpu0": "A", "cpu1": "B"}
    there = pool(node("n00", models=models), node("n01", models=models))
    both = replace(way(2, run_s=600.0, model="1 x A + 1 x B"), parts=(("A", 1), ("B", 1)), mode="sync")
    near = asked(data_of(2, on=["n01"]), both, deadline_s=1000.0)
    assert admit(near, [], there, 0.0).accepted
    assert [start.node for start in place([replace(near, promised=True)], there, 0.0).placements] == ["n01"]
    assert not admit(asked(data_of(2), both, deadline_s=1000.0), [], there, 0.0).accepted


WAYS = st.builds(
    DataWay,
    size_bytes=st.sampled_from([0, 1000, 10_000]),
    bytes_per_s=st.dictionaries(st.sampled_from(names(12)), st.sampled_from([1.0, 5.0, 1000.0])),
    on=st.frozensets(st.sampled_from(names(12))),
    spread=st.dictionaries(st.sampled_from(names(12)), st.sampled_from([1.0, 1.5, 4.0])),
)


@settings(max_examples=60, deadline=None)
@given(
    data=WAYS,
    size=st.sampled_from([2, 12]),
    policy=st.sampled_from(POLICIES),
    spans=st.booleans(),
    waits=st.lists(st.tuples(st.integers(1, 2), st.sampled_from([60.0, 600.0])), min_size=1, max_size=30),
)
def test_whoever_starts_is_expected_to_end_no_sooner_than_its_data_and_its_run_take(data, size, policy, spans, waits):
    there = pool(*map(node, names(size)), spans=spans)
    jobs = [
        job(f"j{number}", way(count, run_s=run_s), at=-number, data=data, data_on=data.on)
        for number, (count, run_s) in enumerate(waits)
    ]
    decision = place(jobs, there, 0.0, policy=policy)
    for start in decision.placements:
        needs_s = data.to_all(start.nodes).mid_s + start.option.run_s
        assert decision.expected[start.job_id][1] >= needs_s - 1e-6


@settings(max_examples=60, deadline=None)
@given(data=WAYS, size=st.sampled_from([2, 12]), busy=st.lists(st.sampled_from([60.0, 3000.0]), max_size=12))
def test_what_is_promised_of_a_way_is_admitted_and_a_second_less_is_not(data, size, busy):
    there = pool(*map(node, names(size)))
    pairs = zip(names(size), busy, strict=False)
    held = [runs(job(f"r{name}", way(2, run_s=left_s)), name, "cpu0", "cpu1") for name, left_s in pairs]
    one = asked(data, way(1, run_s=600.0), way(2, run_s=400.0))
    for option, told in promisable(one, held, there, 0.0).items():
        assert told.data == data.to(told.node)
        for margin_s in (-1.0, 1.0):
            by = replace(one, options=(option,), deadline_s=told.end_s + margin_s)
            assert admit(by, held, there, 0.0).accepted == (margin_s > 0)
