"""How far the rest of a run may be off: sane limits whatever its pace was, and what it rests on."""

from __future__ import annotations

import math
import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.rest import LEAST, MOST, WINDOWS, Mark, own_pace_counts, pace_windows, rest_slowdown

PACES = st.lists(st.floats(1e-3, 1e3), min_size=0, max_size=60)
TOLD = st.floats(1.0, 10.0)


EPOCH = 10.0


def marks_of(paces: list[float]) -> list[Mark]:
    """Where a run stood that made each epoch at one of the paces."""
    times = accumulate((pace * EPOCH for pace in paces), initial=1.7e9)
    return [(EPOCH * number, time_s) for number, time_s in enumerate(times)]


def slowdown_of(paces: list[float], left: float, told: float) -> float:
    """Of a run that made each epoch at one of the paces."""
    return rest_slowdown(pace_windows(marks_of(paces), EPOCH), left, told)


@given(paces=PACES, left=st.floats(0.0, 1e6), told=TOLD)
def test_the_range_holds_the_middle_and_is_never_boundless(paces, left, told):
    found = slowdown_of(paces, left, told)
    assert LEAST <= found <= MOST
    assert 0.0 <= left / found <= left <= left * found


@given(marks=st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), max_size=30), left=st.floats(-1.0, 1e9))
def test_marks_that_make_no_sense_break_nothing(marks, left):
    assert LEAST <= rest_slowdown(pace_windows(marks, EPOCH), left, 1.3) <= MOST


@given(paces=st.lists(st.floats(0.5, 2.0), min_size=2, max_size=20), whole=st.integers(100, 100_000))
def test_the_range_narrows_as_a_run_goes_on_as_it_began(paces, whole):
    """The same pattern again and again: what is left, and by how much that may be off, only becomes less."""
    widths, told = [], 3.0
    for times in (1, 2, 4, 8):
        stretched = [pace for pace in paces for _ in range(times)]
        left = max(0.0, whole - 10.0 * len(stretched))
        told_s = left * sum(paces) / len(paces)
        slowdown = slowdown_of([1.0, *stretched], left, told)  # the first epoch is in no window
        widths.append(told_s * (slowdown - 1.0 / slowdown))
    assert all(after <= before + 1e-9 for before, after in pairwise(widths))


@given(paces=st.lists(st.floats(0.5, 2.0), min_size=8, max_size=20), times=st.floats(0.0, 9.0))
def test_the_more_is_left_the_wider_is_its_range_once_a_twentieth_is_made(paces, times):
    left = times * EPOCH * len(paces)
    assert slowdown_of(paces, left, 1.0) <= slowdown_of(paces, 2.0 * left, 1.0) + 1e-9


@given(left=st.floats(1.0, 1e6), told=TOLD)
def test_a_steady_pace_never_widens_what_was_told(left, told):
    assert slowdown_of([1.0] * 20, left, told) <= max(LEAST, min(told, MOST)) + 1e-9


def test_before_it_has_made_a_few_windows_the_estimators_range_counts():
    assert rest_slowdown([], 100.0, 1.4) == 1.4
    assert slowdown_of([0.1, 0.1], 100.0, 1.4) == 1.4
    begun = slowdown_of([1.0] * 20, 1e6, 1.4)
    assert begun == pytest.approx(1.4, abs=0.01)


def test_a_steady_run_has_a_narrow_range_and_a_loud_host_a_wide_one():
    steady = slowdown_of([1.0] * 40, 400.0, 2.0)
    loud = slowdown_of([1.0, 1.0, 1.0, 1.6, 1.7, 1.0, 2.0, 1.1] * 5, 400.0, 2.0)
    assert steady < 1.05 < 1.15 < loud


def test_one_odd_window_hardly_widens_it():
    usual = [1.0, 1.05, 0.95, 1.02, 0.98, 1.0, 1.03, 0.97]
    odd = [*usual[:3], 30.0, *usual[4:]]
    even, with_odd = (math.log(slowdown_of(paces, 80.0, 1.1)) for paces in (usual, odd))
    assert with_odd < math.log(30.0) / 2 and even < 0.1


def test_windows_are_of_as_many_whole_epochs_each():
    assert [steps for steps, _ in pace_windows(marks_of([1.0] * 80), EPOCH)] == [100.0] * 7
    assert pace_windows(marks_of([1.0] * 5), EPOCH) == [(10.0, 10.0)] * 4


def evaluating(epochs: float, *, marks: int, share: float) -> list[Mark]:
    """A run of one pace that tells so many marks in an epoch of 100 steps, and then evaluates for a share of it."""
    steps = [100.0 * number / marks for number in range(1, int(epochs * marks) + 1)]
    return [(step, step + 100.0 * share * math.floor((step - 1e-6) / 100.0)) for step in steps]


@given(
    epochs=st.floats(0.1, 60.0), marks=st.integers(8, 40), share=st.floats(0.0, 0.5), left=st.floats(0.0, 1e5),
    told=st.floats(1.1, 3.0),
)  # fmt: skip
def test_that_a_run_evaluates_after_each_epoch_widens_nothing(epochs, marks, share, left, told):
    windows = pace_windows(evaluating(epochs, marks=marks, share=share), 100.0)
    assert rest_slowdown(windows, left, told) <= told + 1e-9


def test_one_long_epoch_is_looked_at_in_parts_without_its_end():
    windows = pace_windows(evaluating(2.2, marks=40, share=0.5), 100.0)
    assert len(windows) > WINDOWS
    assert [seconds / steps for steps, seconds in windows] == pytest.approx([1.0] * len(windows))


def test_a_moment_out_of_order_is_left_out_alone():
    marks = marks_of([1.0] * 40)
    late = [*marks[:20], (marks[20][0], marks[22][1]), *marks[21:]]
    assert rest_slowdown(pace_windows(late, EPOCH), 100.0, 2.0) < 1.2
    assert sum(steps for steps, _ in pace_windows(late, EPOCH)) == sum(steps for steps, _ in pace_windows(marks, EPOCH))


def test_ranges_hold_about_eight_of_ten_rests_of_a_pace_that_wanders():
    """Random walks of the logarithm of the pace, as a load that comes and goes."""
    chance, held = random.Random(0), []
    for _ in range(300):
        level = list(accumulate(chance.gauss(0.0, 0.03) for _ in range(100)))
        paces = [math.exp(value + chance.gauss(0.0, 0.05)) for value in level]
        for made in (20, 50, 80):
            rest_s = sum(paces[made:])
            foretold_s = sum(paces[made - 8 : made]) / 8 * (100 - made)
            slowdown = slowdown_of(paces[:made], 10.0 * (100 - made), 1.15)
            held.append(foretold_s / slowdown <= rest_s <= foretold_s * slowdown)
    assert 0.7 < sum(held) / len(held) < 0.95


@pytest.mark.parametrize(
    ("done", "here", "held_s", "seen", "counts"),
    [
        (0.03, 0.03, 10.0, 0.01, True),  # enough was done
        (0.001, 0.001, 301.0, 0.01, True),  # it has trained for long enough
        (0.008, 0.008, 60.0, 0.004, False),  # slow, and as the estimate's range twice allows
        (0.008, 0.008, 60.0, 0.0003, True),  # far too slow, for 27 s of training
        (0.004, 0.004, 60.0, 0.0003, False),  # far too slow, for 13 s of it
        (0.008, 0.008, 16.0, 0.0003, False),  # the clock was set back meanwhile
        (0.008, 0.004, 60.0, 0.0003, False),  # what it did before, on other devices, tells nothing of these
        (0.019, 0.019, 60.0, 0.0008, True),
        (0.0, 0.0, 60.0, 0.5, False),  # nothing is done
    ],
)
def test_an_estimate_that_is_far_off_is_given_up_before_a_fiftieth_of_the_run_is_done(done, here, held_s, seen, counts):
    assert own_pace_counts(done, held_s, seen, told=0.01, slowdown=1.5, here=here) is counts


def test_a_run_that_is_far_faster_than_estimated_is_told_by_its_own_pace_too():
    assert own_pace_counts(0.019, 60.0, 0.0009, told=0.00015, slowdown=1.5, here=0.019)
    assert own_pace_counts(0.0, 0.0, 0.003, told=0.0, slowdown=1.5, here=0.0), "nothing was estimated"
