"""A step function of free things against a plain list of seconds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policies.load import Load
from scheduler.policies.timeline import Brief, Timeline

END = 40
TAKES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30), st.integers(1, 12)), max_size=12)


def naive(free, width, run_s):
    fits = (start for start in range(END) if all(free[second] >= width for second in range(start, start + run_s)))
    return next(fits, math.inf)


@settings(max_examples=150, deadline=None)
@given(TAKES, st.integers(1, 6), st.integers(1, 15))
def test_the_earliest_start_is_the_one_that_counting_every_second_finds(takes, width, run_s):
    line, free = Timeline(0.0, 6), [6] * 100
    for taken, earliest_s, length in takes:
        start = line.earliest(taken, length, math.inf, earliest_s)
        line.take(taken, start, start + length)
        for second in range(int(start), min(100, int(start) + length)):
            free[second] -= taken
    assert min(free) >= 0
    found = line.earliest(width, run_s, END - 1)
    assert found == naive(free, width, run_s)
    assert line.free_now == free[0]


@settings(max_examples=60, deadline=None)
@given(TAKES)
def test_ready_and_used_share_agree_with_counting(takes):
    line, free, load = Timeline(0.0, 6), [6] * 200, Load(0.0)
    for taken, start_s, length in takes:
        start = line.earliest(taken, length, math.inf, start_s)
        line.take(taken, start, start + length)
        load.take(taken, start, start + length)
        for second in range(int(start), int(start) + length):
            free[second] -= taken
    for width, ready_s in enumerate(line.ready(6)):
        assert min(free[int(ready_s) :]) >= width
        assert ready_s == 0 or free[int(ready_s) - 1] < width
    assert load.used_share(6, 20.0) * 120 == pytest.approx(sum(6 - count for count in free[:20]))


@settings(max_examples=150, deadline=None)
@given(TAKES, st.integers(1, 6), st.integers(0, 15), st.integers(-3, 40))
def test_the_brief_form_answers_as_the_long_one(takes, width, run_s, from_s):
    line, brief = Timeline(0.0, 6), Brief(0.0, 6)
    for taken, start_s, length in takes:
        end_s = math.inf if length == 12 else float(start_s + length)
        for one in (line, brief):
            one.take(taken, float(start_s), end_s)
    assert (brief.floor, brief.free_now) == (line.floor, line.free_now)
    assert brief.ready(6) == line.ready(6).tolist()
    for latest_s in (math.inf, 20.0):
        assert brief.earliest(width, run_s, latest_s, from_s) == line.earliest(width, run_s, latest_s, from_s)


@settings(max_examples=100, deadline=None)
@given(TAKES, TAKES, st.integers(1, 6), st.integers(0, 15))
def test_what_is_taken_and_given_again_was_never_taken(takes, undone, width, run_s):
    line, brief, never = Timeline(0.0, 6), Brief(0.0, 6), Timeline(0.0, 6)
    for one in (line, brief):
        for taken, start_s, length in undone:
            one.take(taken, float(start_s), float(start_s + length))
    for taken, start_s, length in takes:
        for one in (line, brief, never):
            one.take(taken, float(start_s), float(start_s + length))
    for taken, start_s, length in undone:
        middle_s = start_s + length / 2
        for one in (line, brief):
            one.give(taken, float(start_s), middle_s)
            one.give(taken, middle_s, float(start_s + length))
            one.give(taken, 9.0, 9.0)
    for one in (line, brief):
        assert (one.floor, one.free_now) == (never.floor, never.free_now)
        assert one.earliest(width, run_s, math.inf) == never.earliest(width, run_s, math.inf)


def test_what_is_held_for_ever_never_comes_back():
    line = Timeline(0.0, 4)
    line.take(3, 0.0, math.inf)
    assert line.earliest(1, math.inf, math.inf) == 0.0
    assert line.earliest(2, 1.0, math.inf) == math.inf


def test_nothing_starts_after_the_latest_start():
    line = Timeline(0.0, 2)
    line.take(2, 0.0, 10.0)
    assert line.earliest(1, 5.0, 9.0) == math.inf
    assert line.earliest(1, 5.0, 10.0) == 10.0


@settings(max_examples=100, deadline=None)
@given(TAKES, st.sets(st.integers(0, 11)))
def test_it_is_the_same_whether_takes_are_counted_together_or_one_by_one(takes, asked):
    patient, curious = Timeline(0.0, 6), Timeline(0.0, 6)
    for number, (taken, start_s, length) in enumerate(takes):
        end_s = math.inf if length == 12 else float(start_s + length)
        for line in (patient, curious):
            line.take(taken, float(start_s), end_s)
        if number in asked:
            assert curious.at_last <= 6
        assert curious.free_now == patient.free_now
    for for_s in (0.0, 5.0, 50.0):
        assert patient.stays_free(3, for_s) == all(free >= 3 for *_, free in curious.steps(0.0, max(for_s, 1.0)))
    assert patient.steps(0.0, math.inf) == curious.steps(0.0, math.inf)
    assert patient.floor == curious.floor == min(free for *_, free in curious.steps(0.0, math.inf))
