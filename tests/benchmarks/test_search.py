from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.benchmarks.search import Trial, best_of, search

GRID = [(float(kind), float(batch), float(limit)) for kind in (0, 1) for batch in range(8) for limit in range(6)]


def measured(index):
    """A valley in batch; time falls and power rises with the limit; kind 1 is half as fast and a third as hungry."""
    kind, batch, limit = GRID[index]
    run_s = 100.0 * (1 + 0.1 * (batch - 5) ** 2) / (0.6 + 0.08 * limit) * (1 + kind)
    return Trial(index=index, run_s=run_s, energy_j=run_s * (60 + 40 * limit) / (1 + 2 * kind))


def counted(slowdown=1.5, trials_max=28, measure=measured):
    tried = []

    def try_setting(index):
        tried.append(index)
        return measure(index)

    found = search(
        GRID, try_setting, first=[5, 95], limit_s=lambda trial: trial.run_s * slowdown, trials_max=trials_max
    )
    return found, tried


def test_it_finds_the_cheapest_within_the_limit_from_a_third_of_the_settings():
    found, tried = counted()
    limit_s = measured(5).run_s * 1.5
    best = min(
        (measured(index) for index in range(len(GRID)) if measured(index).run_s <= limit_s),
        key=lambda trial: trial.energy_j,
    )
    assert found.best.energy_j <= best.energy_j * 1.02
    assert len(tried) == len(set(tried)) == 28


def test_no_setting_is_tried_twice_and_all_may_be_tried():
    found, tried = counted(trials_max=500)
    assert sorted(tried) == list(range(len(GRID)))
    assert found.best.energy_j == min(
        trial.energy_j for trial in found.trials if trial.run_s <= measured(5).run_s * 1.5
    )


def test_a_setting_that_never_ends_is_survived_and_not_chosen():
    def measure(index):
        trial = measured(index)
        endless = GRID[index][1] == 6
        return Trial(index=index, run_s=math.inf, energy_j=math.inf) if endless else trial

    found, _ = counted(measure=measure)
    assert GRID[found.best.index][1] != 6


def test_a_limit_that_nothing_keeps_gives_nothing():
    found, _ = counted(slowdown=0.01, trials_max=6)
    assert found.best is None


def test_there_must_be_something_to_start_from():
    with pytest.raises(ValueError, match="to try first"):
        search(GRID, measured, first=[], limit_s=lambda trial: 1.0, trials_max=3)
    with pytest.raises(ValueError, match="never ends"):
        search(GRID, measured, first=[0], limit_s=lambda trial: math.inf, trials_max=3)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0.3, 3.0), st.integers(2, 12))
def test_what_is_chosen_was_tried_keeps_the_limit_and_no_tried_one_that_does_is_cheaper(slowdown, trials_max):
    found, tried = counted(slowdown=slowdown, trials_max=trials_max)
    limit_s = measured(5).run_s * slowdown
    assert len(tried) == trials_max
    assert found.best == best_of([measured(index) for index in tried], limit_s)
    if found.best is not None:
        assert found.best.index in tried
        assert found.best.run_s <= limit_s
