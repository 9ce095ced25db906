"""Whether a range test before a run is worth its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.estimate import estimate
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Allocation, Estimate
from scheduler.rates.worth import (
    BUDGET_S,
    LEAST_STEPS,
    MOST_SHARE,
    START_S,
    WARM_UP_STEPS,
    is_worth,
    range_cost,
    range_cost_of,
    too_few_steps,
)
from tests.factory_offers import workload_make

STEPS_S = st.floats(1e-5, 1e3)


def run(count: int, *, kind: str = "cpu", name: str = "core") -> Estimate:
    workload = workload_make()
    split = (workload.global_batch_size,) if count == 1 else (workload.global_batch_size // count,) * count
    way = Allocation(
        kind=kind, model_name=name, count=count, mode="single" if count == 1 else "sync", batch_split=split
    )
    return estimate(workload, way, prior_for(kind, name), memory_limit_bytes=4 << 30)


@given(STEPS_S)
def test_a_test_ends_after_its_budget_or_its_least_steps(step_s: float) -> None:
    cost = range_cost(step_s, 20.0)
    least_s = (WARM_UP_STEPS + LEAST_STEPS) * step_s
    assert START_S + least_s <= cost.time_s <= START_S + max(BUDGET_S, least_s)
    assert cost.energy_j == pytest.approx(20.0 * cost.time_s)


@given(STEPS_S, st.integers(1, 100_000))
def test_a_run_that_is_too_short_by_its_steps_is_too_short_by_its_time(step_s: float, steps: int) -> None:
    if too_few_steps(steps):
        assert not is_worth(range_cost(step_s, 20.0), steps * step_s)


def test_a_test_may_take_its_share_of_the_run_and_no_more() -> None:
    cost = range_cost(0.01, 20.0)
    assert is_worth(cost, 1.01 * cost.time_s / MOST_SHARE)
    assert not is_worth(cost, 0.99 * cost.time_s / MOST_SHARE)


def test_the_cost_is_that_of_one_device_of_the_kind() -> None:
    alone = run(1)
    cost = range_cost_of([run(2), alone], "cpu")
    assert cost == range_cost(alone.step_s.mid, alone.power_w)
    assert range_cost_of([run(2)], "cpu") is None
    assert range_cost_of([alone], "cuda") is None
