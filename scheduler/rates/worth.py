"""Whether a range test before a run is worth its time: it may cost a bounded share of the run. Pure.

A test makes `SWEEPS` sweeps of `STEPS` rising rates and a few steps before each, on one device, and ends after
`BUDGET_S` at the latest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scheduler.estimation.values import Estimate

STEPS = 120
"""Rates of a sweep."""
SWEEPS = 3
WARM_UP_STEPS = 3
"""Of each sweep, before its first rate."""
BUDGET_S = 60.0
"""For the steps of all sweeps."""
LEAST_STEPS = 40
"""Rates of the one sweep that is made however slow steps are."""
START_S = 10.0
"""To start a process in the sandbox, load torch and read the rows, about."""
MOST_SHARE = 0.1
"""Of the run's time, that a test may take which nobody asked for."""


@dataclass(frozen=True, kw_only=True)
class RangeCost:
    """What a range test on one device takes, about."""

    time_s: float
    energy_j: float


NOTHING = RangeCost(time_s=0.0, energy_j=0.0)
"""No test."""


def range_cost(step_s: float, power_w: float) -> RangeCost:
    """Of a program whose whole batch takes one device `step_s` at `power_w`."""
    least_s = (WARM_UP_STEPS + LEAST_STEPS) * step_s
    wanted_s = SWEEPS * (WARM_UP_STEPS + STEPS) * step_s
    time_s = START_S + max(least_s, min(wanted_s, BUDGET_S))
    return RangeCost(time_s=time_s, energy_j=time_s * power_w)


def is_worth(cost: RangeCost, run_s: float) -> bool:
    """Whether a run of `run_s` bears it."""
    return cost.time_s <= MOST_SHARE * run_s


def too_few_steps(steps: float) -> bool:
    """Whether a run of so many steps is too short for any test, however fast its steps are."""
    return MOST_SHARE * steps < WARM_UP_STEPS + LEAST_STEPS


def range_cost_of(estimates: Collection[Estimate], kind: str) -> RangeCost | None:
    """On one device of a kind, by estimates of runs of the program there, the slowest model of it counting; None where
    no run on one such device was estimated."""
    alone = [item for item in estimates if item.allocation.kind == kind and item.allocation.count == 1]
    costs = [range_cost(item.step_s.mid, item.power_w) for item in alone]
    return max(costs, key=lambda cost: cost.time_s, default=None)
