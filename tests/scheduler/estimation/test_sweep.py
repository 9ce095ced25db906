"""The plan of a sweep covers its space from the first points on, keeps to its budget and goes on where it stopped."""

from __future__ import annotations

import json
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.spec import TaskSpec
from scheduler.estimation.sweep import MOST_POINTS, MOST_STEP_S, SPACES, SweepPoint, design, plan_sweep


def test_a_plan_has_every_family_and_at_most_300_points() -> None:
    plan = plan_sweep()
    assert len(plan) == MOST_POINTS
    assert {point.family for point in plan} == set(SPACES)
    assert len({point.point_id for point in plan}) == len(plan)
    assert sum(point.family == "cnn" for point in plan) > 0.7 * len(plan)


def test_every_point_is_a_spec_that_is_accepted_and_comes_back_from_json() -> None:
    for point in plan_sweep(most=40):
        TaskSpec.model_validate(point.spec)
        assert SweepPoint.from_dict(json.loads(json.dumps(point.to_dict()))) == point
        assert point.step_s() <= MOST_STEP_S


@settings(max_examples=15, deadline=None)
@given(st.integers(min_value=0, max_value=60), st.floats(min_value=0, max_value=400))
def test_a_sweep_that_goes_on_measures_exactly_what_was_left(stopped_after: int, budget_s: float) -> None:
    whole = plan_sweep(budget_s=budget_s, most=60)
    done = {point.point_id for point in whole[:stopped_after]}
    assert plan_sweep(budget_s=budget_s, most=60, done=done) == whole[stopped_after:]
    assert sum(point.cost_s() for point in whole) <= budget_s


@pytest.mark.parametrize("family", sorted(SPACES))
def test_the_first_points_of_a_family_reach_every_value_of_its_choices(family: str) -> None:
    first = list(islice(design(family), 48))
    for name, knob in SPACES[family].items():
        if knob.choices and name in first[0].params:
            assert {point.params[name] for point in first} == set(knob.choices)


def test_the_first_points_cover_batch_sizes_and_filters_in_the_logarithm() -> None:
    first = list(islice(design("cnn"), 24))
    for values in ([point.batch_size for point in first], [point.params["filters"] for point in first]):
        assert min(values) <= 12 and max(values) >= 40
