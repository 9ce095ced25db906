"""The memory of a gang over several nodes: each node has its own, for the ranks that lie there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.estimate import estimate
from scheduler.estimation.prior import prior_for
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.mixtures import mixed_candidates
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Wish
from tests.scheduler.made_workloads import workload
from tests.scheduler.offers.ways import GIB, cpus

XEON = prior_for("cpu", "Xeon")
WORK = workload(batch=64)


def group(*sizes: int, share_gib: float, floor_gib: float, asked_gib: float = 0.0, first: int = 0) -> DeviceGroup:
    """Nodes with so many cores each; who fixes memory fixes it for the whole gang."""
    asked = int(asked_gib * GIB)
    return cpus(
        *sizes, memory_gib=0 if asked else share_gib, memory_floor_bytes=asked or int(floor_gib * GIB),
        asked_bytes=asked, hosts_bytes=(1 << 50,) * len(sizes), idle_bytes=GIB // 8, spans_nodes=True,
        nodes=tuple(f"n{first + at}" for at in range(len(sizes))),
    )  # fmt: skip


def gang(of: DeviceGroup, count: int) -> Candidate:
    (found,) = (
        way
        for way in candidates(WORK, [of])
        if way.allocation.count == count and way.allocation.mode == "sync" and not way.allocation.parts
    )
    return found


@pytest.mark.parametrize(("sizes", "count", "rank_gib"), [((4,), 4, 0.75), ((2, 2), 4, 1.5), ((1, 1, 1, 1), 4, 3.0)])
def test_the_least_that_a_job_gets_of_a_host_is_for_the_ranks_on_it(sizes, count, rank_gib) -> None:
    nodes = group(*sizes, share_gib=0.5, floor_gib=3)
    assert gang(nodes, count).memory_limit_bytes == rank_gib * GIB - nodes.idle_bytes


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (3, 1), (1, 1, 1, 1)])
def test_memory_that_is_fixed_for_a_gang_is_shared_out_evenly_wherever_its_ranks_lie(sizes) -> None:
    nodes = group(*sizes, share_gib=0, floor_gib=0, asked_gib=8)
    assert gang(nodes, 4).memory_limit_bytes == 2 * GIB - nodes.idle_bytes


GIBS = st.sampled_from([0.125, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0])


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), GIBS, GIBS, st.sampled_from([0.0, 1.0, 4.0]),
    st.integers(1, 64),
)  # fmt: skip
def test_a_gang_over_two_nodes_never_needs_more_on_a_node_than_the_same_ranks_on_one(
    first, second, over, share_gib, floor_gib, asked_gib, filters
) -> None:
    count = max(first, second) + min(over, first, second)
    work, figures = workload(batch=64, filters=filters), {"share_gib": share_gib, "floor_gib": floor_gib}
    near, far = (gang(group(*sizes, **figures, asked_gib=asked_gib), count) for sizes in ((count,), (first, second)))
    assert far.memory_limit_bytes >= near.memory_limit_bytes
    one, two = (estimate(work, way.allocation, XEON, memory_limit_bytes=way.memory_limit_bytes) for way in (near, far))
    assert two.peak_bytes == one.peak_bytes, "a rank holds what it holds wherever it lies"
    assert two.fits or not one.fits
    needs = [ranks * two.peak_bytes.high for ranks in (max(first, second), count - max(first, second))]
    assert all(need <= count * one.peak_bytes.high for need in needs)
    assert two.start_s <= one.start_s and two.step_s.mid <= one.step_s.mid


def mixture(*groups: DeviceGroup) -> Candidate:
    """Of one core of each."""
    named = [replace(one, model_name=name) for one, name in zip(groups, "AB", strict=True)]
    (found,) = (way for way in mixed_candidates(WORK, named, Wish()) if way.allocation.count == 2)
    return found


def test_unlike_cores_on_two_nodes_have_what_the_tighter_node_allows_a_rank() -> None:
    wide, tight = group(2, share_gib=4, floor_gib=1), group(2, share_gib=2, floor_gib=1, first=1)
    apart = mixture(replace(wide, sizes=(1,)), replace(tight, sizes=(1,)))
    assert apart.over_nodes == ("n0", "n1")
    assert apart.part_limits_bytes == (2 * GIB - wide.idle_bytes,) * 2
    together = mixture(wide, replace(wide, memory_bytes=2 * GIB))
    assert not together.over_nodes
    assert together.part_limits_bytes == (4 * GIB - wide.idle_bytes, 2 * GIB - wide.idle_bytes)


def test_unlike_cores_on_two_nodes_have_the_least_of_either_host() -> None:
    each = [group(1, share_gib=0.5, floor_gib=3, first=first) for first in (0, 1)]
    assert mixture(*each).part_limits_bytes == (3 * GIB - each[0].idle_bytes,) * 2
    near = [group(1, share_gib=0.5, floor_gib=3) for _ in range(2)]
    assert mixture(*near).part_limits_bytes == (int(1.5 * GIB) - near[0].idle_bytes,) * 2
