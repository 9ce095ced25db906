"""The way of data to a node that does not have them, counted by itself and for all nodes of a pool at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.data_way import AHEAD_LAG_S, AHEAD_MOST_S, LEAST_S, DataWay, still_to_come_s
from scheduler.placing.data_times import DataTimes
from tests.scheduler.pools import GIB, job, node, pool, runs, way

NAMES = [f"n{number}" for number in range(6)]
WAYS = st.builds(
    DataWay,
    size_bytes=st.integers(0, 100 * GIB),
    bytes_per_s=st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.floats(1e3, 1e9)),
    on=st.frozensets(st.sampled_from([*NAMES, "gone"])),
    arrived=st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.floats(0, 1)),
)


def test_it_is_the_bytes_that_are_not_there_by_the_rate_of_the_node():
    data = DataWay(
        size_bytes=1000, bytes_per_s={"far": 10.0, "has": 10.0, "half": 10.0}, on=frozenset({"has"}),
        arrived={"half": 0.5},
    )  # fmt: skip
    assert [data.to_s(name) for name in ("far", "half", "has", "store")] == [100.0, 50.0, 0.0, 0.0]
    assert data.to_all_s(["has", "half"]) == 50.0 and data.to_all_s([]) == 0.0


def test_what_is_there_in_a_moment_does_not_count():
    assert DataWay(size_bytes=99, bytes_per_s={"n": 100.0}).to_s("n") == 0.0
    assert DataWay(size_bytes=100, bytes_per_s={"n": 100.0}).to_s("n") == LEAST_S


@pytest.mark.parametrize(("size_bytes", "arrived"), [(-1, 0.0), (1, -0.1), (1, 1.1)])
def test_what_is_no_way_is_refused(size_bytes, arrived):
    with pytest.raises(ValueError, match="not data on their way"):
        DataWay(size_bytes=size_bytes, bytes_per_s={}, arrived={"n": arrived})


@pytest.mark.parametrize("bringing_s", [-1.0, float("inf"), float("nan")])
def test_a_job_that_waits_for_its_data_for_no_time_at_all_is_refused(bringing_s):
    with pytest.raises(ValueError, match="for its data"):
        job("a", bringing_s=bringing_s)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_longer_wait_never_leaves_more_to_come_and_a_short_one_leaves_all(data_s, wait_s, more_s):
    left_s = still_to_come_s(data_s, wait_s)
    assert left_s in (0.0, data_s)
    assert still_to_come_s(data_s, wait_s + more_s) <= left_s
    if wait_s < data_s + AHEAD_LAG_S:
        assert left_s == data_s
    if data_s > AHEAD_MOST_S:
        assert left_s == data_s, "nothing is sent ahead for so long"


@given(WAYS)
def test_of_all_nodes_at_once_it_is_what_each_is_told_alone(data):
    times = DataTimes(pool(*(node(name) for name in NAMES)))
    assert times.to_each(data, NAMES).tolist() == pytest.approx([data.to_s(name) for name in NAMES])
    told = job("a", data=data)
    assert [times.to_s(told, way(), name) for name in NAMES] == [data.to_s(name) for name in NAMES]


@given(WAYS)
def test_where_gangs_span_nodes_the_longest_way_to_a_node_with_such_devices_counts(data):
    nodes = [node(name, cpus=0 if name == "n0" else 2, level=2 if name == "n1" else 3) for name in NAMES]
    times = DataTimes(pool(*nodes, spans=True))
    told = job("a", data=data)
    assert times.to_s(told, way(), "level 3") == pytest.approx(max(data.to_s(name) for name in NAMES[2:]))
    assert times.to_s(told, way(), "level 2") == pytest.approx(data.to_s("n1"))
    assert times.to_s(told, way(kind="cuda"), "level 3") == 0.0


def test_a_job_has_its_data_where_it_runs():
    data = DataWay(size_bytes=1000, bytes_per_s={"n0": 1.0, "n1": 1.0})
    times = DataTimes(pool(node("n0"), node("n1")))
    there = runs(job("a", data=data), "n0", "cpu0")
    assert [times.to_s(there, way(), name) for name in ("n0", "n1")] == [0.0, 1000.0]
