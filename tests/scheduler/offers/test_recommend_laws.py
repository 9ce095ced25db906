"""What holds for offers of any pool, cost, deadline and wish."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.offers.recommend import takes
from scheduler.offers.values import Mark, Wish
from tests.scheduler.offers.ways import GIB, NOW_S, cpus, gpus, offer
from worker.shares import even

UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine must not fail a property."""


POOLS = st.lists(
    st.builds(
        lambda kind, sizes, memory, model: (
            cpus(*sizes, memory_gib=memory) if kind else gpus(*sizes, memory_gib=memory, model=model)
        ),
        st.booleans(),
        st.lists(st.integers(0, 6), min_size=1, max_size=3),
        st.floats(0.1, 4.0),
        st.sampled_from(["A100", "H100"]),
    ),
    max_size=3,
)


COSTS = st.fixed_dictionaries(
    {
        "work_s": st.floats(1.0, 1e4),
        "overhead": st.floats(0.0, 1.0),
        "watts": st.floats(0.0, 300.0),
        "peak_bytes": st.integers(1, 3 * GIB),
        "spread": st.floats(1.0, 2.0),
    }
)


DEADLINES = st.none() | st.floats(-10.0, 2e4)


WISHES = st.builds(
    Wish,
    kind=st.none() | st.sampled_from(["cpu", "cuda"]),
    count=st.none() | st.integers(1, 6),
    mode=st.none() | st.sampled_from(["single", "sync"]),
)


def after(seconds):
    return None if seconds is None else NOW_S + seconds


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES, st.integers(1, 40))
def test_the_recommended_way_is_feasible_and_never_dominated(groups, cost, deadline, wish, batch):
    found = offer(groups, deadline_s=after(deadline), wish=wish, batch=batch, **cost)
    chosen = found.chosen
    if chosen is None:
        assert not any(line.feasible for line in found.lines)
        return
    assert chosen.frontier
    assert chosen.feasible
    assert deadline is None or chosen.latest_s <= NOW_S + deadline
    assert wish.allows(chosen.allocation)
    for line in (line for line in found.lines if takes(line)):
        mine = (chosen.estimate.energy_j.mid, chosen.latest_s)
        theirs = (line.estimate.energy_j.mid, line.latest_s)
        assert not (theirs[0] <= mine[0] and theirs[1] <= mine[1] and theirs != mine)


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES)
def test_fixing_nothing_never_costs_more_energy_than_fixing_something(groups, cost, deadline, wish):
    open_offer = offer(groups, deadline_s=after(deadline), **cost)
    fixed = offer(groups, deadline_s=after(deadline), wish=wish, **cost)
    if fixed.chosen is not None:
        assert open_offer.chosen is not None
        assert open_offer.chosen.estimate.energy_j.mid <= fixed.chosen.estimate.energy_j.mid


@UNHURRIED
@given(POOLS, COSTS, st.floats(0, 2e4), st.floats(0, 2e4))
def test_a_later_deadline_is_never_refused_nor_dearer(groups, cost, first, second):
    early, late = sorted((first, second))
    tight = offer(groups, deadline_s=after(early), **cost).chosen
    loose = offer(groups, deadline_s=after(late), **cost).chosen
    if tight is not None:
        assert loose is not None
        assert loose.estimate.energy_j.mid <= tight.estimate.energy_j.mid


@UNHURRIED
@given(POOLS, COSTS, DEADLINES, WISHES)
def test_every_way_is_free_of_hindrance_or_says_why_and_marks_stand_on_ways_that_can_be_taken(
    groups, cost, deadline, wish
):
    found = offer(groups, deadline_s=after(deadline), wish=wish, **cost)
    for line in found.lines:
        assert (line.hindrance is None) == (line.why == "")
        assert takes(line) or not (line.marks or line.frontier)
    for mark in Mark:
        assert sum(mark in line.marks for line in found.lines) <= 1
    if found.chosen is None:
        assert found.changes


@UNHURRIED
@given(st.integers(1, 5000), st.integers(1, 64))
def test_a_split_keeps_every_row_and_is_even(rows, ranks):
    split = even(rows, ranks)
    assert sum(split) == rows
    assert len(split) == ranks
    assert max(split) - min(split) <= 1
