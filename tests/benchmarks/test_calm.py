"""Which steps of a timed run count."""

from __future__ import annotations

from tests.benchmarks.calm import LEAST_CALM, calm_steps, typical_s

STEPS = LEAST_CALM + 3


def test_a_step_counts_where_all_ranks_were_quiet_before_and_after_it() -> None:
    here, there = [True] * (STEPS + 1), [True] * (STEPS + 1)
    here[0], there[3] = False, False
    assert calm_steps([here, there], range(STEPS)) == [1, *range(4, STEPS)]


def test_all_steps_count_where_too_few_are_quiet() -> None:
    looks = [False] * 2 + [True] * (STEPS - 1)
    assert list(calm_steps([looks], range(3, STEPS))) == list(range(3, STEPS))
    looks[4] = False
    assert list(calm_steps([looks], range(3, STEPS))) == list(range(3, STEPS))


def test_a_loud_step_is_not_in_the_median() -> None:
    step_s = [1.0] * LEAST_CALM + [9.0] * (2 * LEAST_CALM)
    looks = [True] * (LEAST_CALM + 1) + [False] * (2 * LEAST_CALM)
    assert typical_s(step_s, [looks], range(len(step_s))) == 1.0
