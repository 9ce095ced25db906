"""What decisions are expected to cost a run: the worst until there is a history, then the most that it has shown."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulate.rules import Rules
from scheduler.simulate.stretch import Stretch

RULES = Rules(slot_s=60.0, event_s=7.0)
WORST = 60.0 / 53.0


def stretched(times, rules=RULES):
    stretch = Stretch(rules)
    for time_s in times:
        stretch.add(time_s)
    return stretch


def test_without_a_history_as_long_as_the_run_a_decision_in_every_slot_is_expected():
    assert stretched([]).slowdown(600.0) == pytest.approx(WORST)
    assert stretched([0.0, 200.0]).slowdown(600.0) == pytest.approx(WORST)
    assert stretched([0.0, 5000.0]).slowdown(math.inf) == pytest.approx(WORST)


def test_a_calm_history_costs_a_long_run_little_and_a_short_one_as_much_as_before():
    calm = stretched(600.0 * number for number in range(100))
    assert calm.slowdown(60.0) == pytest.approx(WORST)
    assert calm.slowdown(3840.0) == pytest.approx(1.0 / (1.0 - 7 * 7.0 / 3840.0))  # one in 600 s, 7 in 64 slots


def test_a_burst_is_remembered():
    times = [600.0 * number for number in range(20)] + [12_000.0 + 60.0 * number for number in range(64)]
    after = [20_000.0 + 600.0 * number for number in range(100)]
    assert stretched(times + after).slowdown(3840.0) == pytest.approx(WORST)


def test_decisions_that_cost_nothing_stretch_nothing():
    assert stretched([0.0, 60.0, 5000.0], Rules()).slowdown(600.0) == 1.0


@given(st.lists(st.floats(60.0, 2_000.0), min_size=1, max_size=60), st.integers(0, 7))
def test_it_is_the_most_that_any_stretch_of_that_length_has_seen(gaps, doublings):
    times = [0.0, *accumulate(gaps)]
    length_s = 60.0 * 2**doublings
    most = max(sum(end_s - length_s < time_s <= end_s for time_s in times) for end_s in times)
    expected = WORST if times[-1] < length_s else min(WORST, 1.0 / (1.0 - min(7.0 * most / length_s, 0.999)))
    assert stretched(times).slowdown(length_s * 1.5) == pytest.approx(expected)
