"""The way of data to a node that does not have them, counted by itself and for all nodes of a pool at once."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.data_way import (
    AHEAD_LAG_S,
    AHEAD_MOST_S,
    ASSUMED_SPREAD,
    FEW_SPREAD,
    HERE,
    LEAST_S,
    DataWay,
    Travel,
    spread_of,
    still_to_come,
)
from scheduler.placing.data_times import DataTimes
from tests.scheduler.pools import GIB, job, node, pool, runs, way

NAMES = [f"n{number}" for number in range(6)]
WAYS = st.builds(
    DataWay,
    size_bytes=st.integers(0, 100 * GIB),
    bytes_per_s=st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.floats(1e3, 1e9)),
    on=st.frozensets(st.sampled_from([*NAMES, "gone"])),
    arrived=st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.floats(0, 1)),
    spread=st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.floats(1, 9)),
)


def test_it_is_the_bytes_that_are_not_there_by_the_rate_of_the_node():
    data = DataWay(
        size_bytes=1000, bytes_per_s={"far": 10.0, "has": 10.0, "half": 10.0}, on=frozenset({"has"}),
        arrived={"half": 0.5},
    )  # fmt: skip
    assert [data.to_s(name) for name in ("far", "half", "has", "store")] == [100.0, 50.0, 0.0, 0.0]
    assert data.to_all(["has", "half"]) == (50.0, 50.0) and data.to_all([]) == HERE


def test_its_range_is_that_of_the_line_by_ratio_and_over_nodes_that_of_the_slowest_at_each_end():
    data = DataWay(size_bytes=1000, bytes_per_s={"a": 10.0, "b": 5.0}, spread={"a": 4.0, "b": 1.5})
    assert (data.to("a"), data.to("b"), data.to("store")) == ((100.0, 400.0), (200.0, 300.0), HERE)
    assert data.to("a").low_s == pytest.approx(25.0) and HERE.low_s == 0.0
    assert data.to_all(["a", "b"]) == (200.0, 400.0)
    assert data.to("a").after(150.0) == (0.0, 250.0) and data.to("a").after(500.0) == HERE
    assert (data.to("a").range_s.low, data.to("a").after(150.0).range_s.low) == (pytest.approx(25.0), 0.0)


def test_a_line_varies_as_far_as_one_fetch_was_from_the_others_and_widely_where_few_or_none_were_made():
    assert spread_of([]) == ASSUMED_SPREAD
    assert spread_of([7.0]) == spread_of([7.0, 7.0]) == FEW_SPREAD < ASSUMED_SPREAD
    assert spread_of([1.0, 8.0]) == pytest.approx(8.0)
    assert spread_of([5.0] * 5) == 1.0
    assert spread_of([10.0, 10.0, 10.0, 10.0, 1.0]) == pytest.approx(10.0), "a slow night is part of it"


def test_four_of_five_ways_over_a_line_that_was_measured_stay_in_their_range():
    """And nine of ten below its upper end, which is what is promised by."""
    drawn, inside, below, rounds = random.Random(1), 0, 0, 4000
    for _ in range(rounds):
        width = drawn.choice([0.05, 0.3, 1.0])
        *known, last = (math.exp(drawn.gauss(0.0, width)) for _ in range(6))
        data = DataWay(size_bytes=1000, bytes_per_s={"n": median(known)}, spread={"n": spread_of(known)})
        way, took_s = data.to("n"), 1000 / last
        inside += way.low_s <= took_s <= way.high_s
        below += took_s <= way.high_s
    assert 0.78 <= inside / rounds <= 0.9
    assert below / rounds >= 0.89


def test_what_is_there_in_a_moment_does_not_count():
    assert DataWay(size_bytes=99, bytes_per_s={"n": 100.0}).to_s("n") == 0.0
    assert DataWay(size_bytes=100, bytes_per_s={"n": 100.0}).to_s("n") == LEAST_S


@pytest.mark.parametrize(("size_bytes", "arrived"), [(-1, 0.0), (1, -0.1), (1, 1.1)])
def test_what_is_no_way_is_refused(size_bytes, arrived):
    with pytest.raises(ValueError, match="not data on their way"):
        DataWay(size_bytes=size_bytes, bytes_per_s={}, arrived={"n": arrived})


@pytest.mark.parametrize("ends_s", [(-1.0, 1.0), (1.0, 0.5), (1.0, float("inf")), (float("nan"), float("nan"))])
def test_a_job_that_waits_for_its_data_for_no_time_at_all_is_refused(ends_s):
    with pytest.raises(ValueError, match="for its data"):
        job("a", bringing=Travel(*ends_s))


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_longer_wait_never_leaves_more_to_come_and_a_short_one_leaves_all(data_s, wait_s, more_s):
    whole = Travel(data_s, 2.0 * data_s)
    left = still_to_come(whole, wait_s)
    assert left in (HERE, whole)
    assert still_to_come(whole, wait_s + more_s) <= left
    if wait_s < data_s + AHEAD_LAG_S:
        assert left == whole
    if data_s > AHEAD_MOST_S:
        assert left == whole, "nothing is sent ahead for so long"


@given(WAYS)
def test_of_all_nodes_at_once_it_is_what_each_is_told_alone(data):
    times = DataTimes(pool(*(node(name) for name in NAMES)))
    assert times.high_to_each(data, NAMES).tolist() == pytest.approx([data.to(name).high_s for name in NAMES])
    told = job("a", data=data)
    assert [times.to(told, way(), name) for name in NAMES] == [data.to(name) for name in NAMES]


@given(WAYS)
def test_where_gangs_span_nodes_the_longest_way_to_a_node_with_such_devices_counts(data):
    nodes = [node(name, cpus=0 if name == "n0" else 2, level=2 if name == "n1" else 3) for name in NAMES]
    times = DataTimes(pool(*nodes, spans=True))
    told = job("a", data=data)
    assert times.to(told, way(), "level 3") == pytest.approx(data.to_all(NAMES[2:]))
    assert times.to(told, way(), "level 2") == pytest.approx(data.to("n1"))
    assert times.to(told, way(kind="cuda"), "level 3") == HERE


def test_a_job_has_its_data_where_it_runs():
    data = DataWay(size_bytes=1000, bytes_per_s={"n0": 1.0, "n1": 1.0})
    times = DataTimes(pool(node("n0"), node("n1")))
    there = runs(job("a", data=data), "n0", "cpu0")
    assert [times.to(there, way(), name) for name in ("n0", "n1")] == [HERE, (1000.0, 1000.0)]
