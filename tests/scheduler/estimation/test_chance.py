"""How probably a figure stays below a bound, from its interval alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.values import Interval

RUN = Interval(low=80.0, mid=100.0, high=150.0)


def test_the_ends_and_the_middle_of_a_range_are_what_its_level_says():
    assert RUN.chance(RUN.mid) == pytest.approx(0.5)
    assert RUN.chance(RUN.high) == pytest.approx(0.9)
    assert RUN.chance(RUN.low) == pytest.approx(0.1)


@pytest.mark.parametrize(("most", "chance"), [(-5.0, 0.0), (0.0, 0.0), (99.9, 0.0), (100.0, 1.0), (101.0, 1.0)])
def test_what_is_known_exactly_is_sure_or_impossible(most, chance):
    assert Interval(low=100.0, mid=100.0, high=100.0).chance(most) == chance


@given(st.floats(-10, 1e4), st.floats(-10, 1e4))
def test_more_time_never_lowers_the_chance(one, other):
    assert 0.0 <= RUN.chance(min(one, other)) <= RUN.chance(max(one, other)) <= 1.0
