"""Pipelines that nobody asked for: which are ways, which are worth a line, and what they are compared by."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.values import Interval
from scheduler.offers.recommend import candidates, recommend
from scheduler.offers.staged import is_unasked, why_staged, without_vain
from scheduler.offers.values import Wish
from scheduler.offers.words import devices_words
from scheduler.workload import Piece
from tests.scheduler.offers.ways import NOW_S, cpus, priced, workload

ANY = Wish()


def cut(pieces: int = 5, **more):
    return replace(workload(**more), pieces=(Piece(parameter_bytes=800.0, output_bytes=64.0),) * pieces)


def staged(work, count: int, wish: Wish = ANY):
    ways = [way.allocation for way in candidates(work, [cpus(count)], wish=wish) if way.allocation.count == count]
    return sorted((way.mode, way.stages) for way in ways if way.mode.startswith("pipeline"))


def test_pipelines_are_ways_as_deep_as_the_program_has_pieces():
    assert staged(cut(), 4) == [("pipeline", 4), ("pipeline+sync", 2)]
    assert staged(cut(3), 4) == [("pipeline+sync", 2)]
    assert staged(cut(9), 16) == [("pipeline+sync", 2), ("pipeline+sync", 4), ("pipeline+sync", 8)]
    assert staged(cut(), 1) == staged(workload(), 4) == staged(cut(0), 4) == []


def test_two_ways_of_several_pipelines_differ_in_words():
    ways = [way.allocation for way in candidates(cut(9), [cpus(16)], wish=Wish(count=16))]
    words = [devices_words(way) for way in ways if way.mode == "pipeline+sync" and way.count == 16]
    assert words == [f"16 CPU cores (Xeon), several pipelines of {stages} stages" for stages in (2, 4, 8)]


def test_named_stages_count_where_the_mode_is_open():
    assert staged(cut(), 6, Wish(stages=3)) == [("pipeline+sync", 3)]
    assert staged(cut(), 3, Wish(stages=3)) == [("pipeline", 3)]


def test_another_mode_that_is_named_leaves_no_pipeline():
    assert staged(cut(), 4, Wish(mode="sync")) == staged(cut(), 4, Wish(whole=True)) == []


def priced_as(way, factor: float, half: float):
    """A pipeline that takes `factor` of the time of the whole model on the same devices."""
    cost = priced(way)
    if not is_unasked(way.allocation, ANY):
        return cost
    run = cost.run_s.scaled(factor)
    run = Interval(low=run.low / half, mid=run.mid, high=run.high * half)
    return replace(cost, run_s=run, energy_j=run.scaled(cost.power_w))


def recommended(wish: Wish, cost_of, deadline_s: float | None = None):
    """The offer of 4 devices, each way at its cost."""
    ways = candidates(cut(), [cpus(4)], wish=wish)
    estimates = {way.allocation: cost_of(way) for way in ways}
    return recommend(
        without_vain(ways, estimates, wish), estimate_of=lambda way: estimates[way.allocation],
        start_of=lambda *_: NOW_S, now_s=NOW_S, deadline_s=deadline_s, wish=wish,
    )  # fmt: skip


def offer(factor: float, half: float = 1.1, count: int | None = 4, deadline_s: float | None = None):
    return recommended(Wish(count=count), lambda way: priced_as(way, factor, half), deadline_s)


def test_a_pipeline_is_offered_where_its_upper_end_lies_below_the_middle_of_the_whole_model():
    # its upper end is 1.2 x 1.1 of its middle
    assert offer(0.7).chosen.allocation.mode.startswith("pipeline")
    assert all(not is_unasked(line.allocation, ANY) for line in offer(0.8).lines)


def test_the_offer_says_why_the_model_is_cut():
    found = offer(0.5)
    text = why_staged(found.chosen, found.lines, found.wish)
    assert text.startswith("The model is cut into ") and "with the whole model on each" in text
    whole = next(line for line in found.lines if line.allocation.mode == "sync")
    assert why_staged(whole, found.lines, found.wish) == ""


def unlike(run: float, energy: float, half: float = 1.1):
    """An offer of 4 devices whose pipelines take so much of the time and of the energy of the whole model there."""

    def cost_of(way):
        cost = priced(way)
        if not is_unasked(way.allocation, ANY):
            return cost
        ranges = (cost.run_s.scaled(run), cost.energy_j.scaled(energy))
        run_s, energy_j = (
            Interval(low=one.mid / half, mid=one.mid, high=one.mid * half, level=one.level) for one in ranges
        )
        return replace(cost, run_s=run_s, energy_j=energy_j)

    return recommended(Wish(count=4), cost_of)


def test_a_pipeline_that_is_better_by_its_energy_says_so_and_tells_no_time():
    found = unlike(run=1.3, energy=0.5)
    text = why_staged(found.chosen, found.lines, found.wish)
    assert found.chosen.allocation.mode.startswith("pipeline")
    assert text.endswith("the run takes about 0.264 Wh, and 0.528 Wh with the whole model on each.")


def test_lines_stand_in_the_order_by_which_they_are_compared_and_a_pipeline_says_by_what():
    found = unlike(run=0.3, energy=0.9, half=2.0)
    modes = [line.allocation.mode for line in found.lines if line.feasible]
    assert found.chosen == found.lines[0] and modes[0] in {"single", "sync"}
    assert modes[-1].startswith("pipeline")
    pipelines = [line for line in found.lines if line.feasible and is_unasked(line.allocation, found.wish)]
    assert all("upper end of its energy" in line.why for line in pipelines)
    assert all(not line.why for line in found.lines if line.feasible and line not in pipelines)


@given(
    factor=st.floats(0.05, 1.5), half=st.floats(1.0, 3.0), count=st.sampled_from([None, 2, 4]),
    limit_s=st.none() | st.floats(20.0, 150.0),
)  # fmt: skip
def test_a_pipeline_is_never_recommended_where_the_whole_model_may_be_as_good(factor, half, count, limit_s):
    found = offer(factor, half, count, None if limit_s is None else NOW_S + limit_s)
    if found.chosen is None or not is_unasked(found.chosen.allocation, found.wish):
        return
    whole = [line for line in found.lines if line.feasible and not is_unasked(line.allocation, found.wish)]
    assert all(found.chosen.energy_j.high <= line.energy_j.mid for line in whole)


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0])
def test_what_is_recommended_is_on_the_frontier(factor):
    assert offer(factor, count=None).chosen.frontier
