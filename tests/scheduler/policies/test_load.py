"""What is planned for against a sum over every second."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policies.load import Load

TAKES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30), st.integers(1, 12)), max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TAKES, st.integers(1, 40)), min_size=1, max_size=6), st.sampled_from([0.1, 0.5]))
def test_a_share_is_above_a_limit_whenever_the_sum_says_so(rounds, limit):
    load = Load(0.0)
    for takes, until_s in rounds:
        for taken, start_s, length in takes:
            load.take(taken, start_s - 25.0, start_s + length)
        for moment_s in (until_s, until_s / 2, 1.2 * until_s, 1.7 * until_s, 3.0 * until_s, math.inf):
            assert load.is_above(limit, 60, moment_s) == (load.used_share(60, moment_s) > limit)
