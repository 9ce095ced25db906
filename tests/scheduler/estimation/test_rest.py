"""How far the rest of a run may be off: sane limits whatever its pace was, and what it rests on."""

from __future__ import annotations

import math
import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.rest import LEAST, MOST, WINDOWS, rest_slowdown, window_ends, window_paces

PACES = st.lists(st.floats(1e-3, 1e3), min_size=0, max_size=60)
TOLD = st.floats(1.0, 10.0)


def marks_of(paces: list[float], steps: int = 10) -> list[tuple[float, float]]:
    """Where a run stood that made so many steps at each pace."""
    times = accumulate((pace * steps for pace in paces), initial=1.7e9)
    return [(float(steps * number), time_s) for number, time_s in enumerate(times)]


@given(paces=PACES, left=st.floats(0.0, 1e6), told=TOLD)
def test_the_range_holds_the_middle_and_is_never_boundless(paces, left, told):
    found = rest_slowdown(marks_of(paces), left, told)
    assert LEAST <= found <= MOST
    assert 0.0 <= left / found <= left <= left * found


@given(marks=st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=30), left=st.floats(-1.0, 1e9))
def test_marks_that_make_no_sense_break_nothing(marks, left):
    assert LEAST <= rest_slowdown(marks, left, 1.3) <= MOST


@given(paces=st.lists(st.floats(0.5, 2.0), min_size=2, max_size=20), whole=st.integers(100, 100_000))
def test_the_range_narrows_as_a_run_goes_on_as_it_began(paces, whole):
    """The same pattern again and again: what is left, and by how much that may be off, only becomes less."""
    widths, told = [], 3.0
    for times in (1, 2, 4, 8):
        stretched = [pace for pace in paces for _ in range(times)]
        left = max(0.0, whole - 10.0 * len(stretched))
        told_s = left * sum(paces) / len(paces)
        slowdown = rest_slowdown(marks_of(stretched), left, told)
        widths.append(told_s * (slowdown - 1.0 / slowdown))
    assert all(after <= before + 1e-9 for before, after in pairwise(widths))


@given(paces=st.lists(st.floats(0.5, 2.0), min_size=8, max_size=20), times=st.floats(0.0, 9.0))
def test_the_more_is_left_the_wider_is_its_range_once_a_twentieth_is_made(paces, times):
    marks = marks_of(paces)
    left = times * marks[-1][0]
    assert rest_slowdown(marks, left, 1.0) <= rest_slowdown(marks, 2.0 * left, 1.0) + 1e-9


@given(left=st.floats(1.0, 1e6), told=TOLD)
def test_a_steady_pace_never_widens_what_was_told(left, told):
    assert rest_slowdown(marks_of([1.0] * 20), left, told) <= max(LEAST, min(told, MOST)) + 1e-9


def test_before_it_has_made_a_few_windows_the_estimators_range_counts():
    assert rest_slowdown([], 100.0, 1.4) == 1.4
    assert rest_slowdown(marks_of([0.1, 0.1]), 100.0, 1.4) == 1.4
    begun = rest_slowdown(marks_of([1.0] * 20), 1e6, 1.4)
    assert begun == pytest.approx(1.4, abs=0.01)


def test_a_steady_run_has_a_narrow_range_and_a_loud_host_a_wide_one():
    steady = rest_slowdown(marks_of([1.0] * 40), 400.0, 2.0)
    loud = rest_slowdown(marks_of([1.0, 1.0, 1.0, 1.6, 1.7, 1.0, 2.0, 1.1] * 5), 400.0, 2.0)
    assert steady < 1.05 < 1.15 < loud


def test_one_odd_window_hardly_widens_it():
    usual = [1.0, 1.05, 0.95, 1.02, 0.98, 1.0, 1.03, 0.97]
    odd = [*usual[:3], 30.0, *usual[4:]]
    even, with_odd = (math.log(rest_slowdown(marks_of(paces), 80.0, 1.1)) for paces in (usual, odd))
    assert with_odd < math.log(30.0) / 2 and even < 0.1


def test_windows_have_about_as_many_steps_each_however_marks_come():
    assert window_paces(marks_of([1.0] * 80)) == pytest.approx([1.0] * WINDOWS)
    assert len(window_paces(marks_of([1.0] * 5))) == 5
    uneven = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (90.0, 90.0), (100.0, 100.0)]
    assert window_paces(uneven) == pytest.approx([1.0] * len(window_paces(uneven)))


@given(paces=PACES, left=st.floats(0.0, 1e6))
def test_the_ends_of_the_windows_tell_as_much_as_all_marks(paces, left):
    marks = marks_of(paces)
    ends = window_ends(marks)
    assert len(ends) <= WINDOWS + 1 and window_ends(ends) == ends
    assert rest_slowdown(ends, left, 1.4) == rest_slowdown(marks, left, 1.4)


def test_ranges_hold_about_eight_of_ten_rests_of_a_pace_that_wanders():
    """Random walks of the logarithm of the pace, as a load that comes and goes."""
    chance, held = random.Random(0), []
    for _ in range(300):
        level = list(accumulate(chance.gauss(0.0, 0.03) for _ in range(100)))
        paces = [math.exp(value + chance.gauss(0.0, 0.05)) for value in level]
        for made in (20, 50, 80):
            rest_s = sum(paces[made:])
            foretold_s = sum(paces[made - 8 : made]) / 8 * (100 - made)
            slowdown = rest_slowdown(marks_of(paces[:made]), 10.0 * (100 - made), 1.15)
            held.append(foretold_s / slowdown <= rest_s <= foretold_s * slowdown)
    assert 0.7 < sum(held) / len(held) < 0.95
