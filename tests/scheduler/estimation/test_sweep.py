"""The plan of a sweep covers its space from the first points on, keeps to its budget and goes on where it stopped."""

from __future__ import annotations

import json
import math
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.catalog import FAMILIES
from codegen.spec import TaskSpec
from scheduler.estimation.extent import CORE, Extent, extent_of
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


H100, T4 = extent_of("cuda", "NVIDIA H100 80GB HBM3", 80 << 30), extent_of("cuda", "Tesla T4", 16 << 30)
P100 = extent_of("cuda", "Tesla P100-PCIE-16GB", 16 << 30)


def typical_flops(extent: Extent) -> float:
    """Of a step, the middle of the plan."""
    flops = sorted(point.forward_flops for point in plan_sweep(most=60, extent=extent))
    return flops[len(flops) // 2]


def test_cores_of_any_name_are_measured_on_the_same_programs() -> None:
    assert extent_of("cpu", "AMD EPYC 9B14", 1 << 30) == extent_of("cpu", "core", 0) == CORE
    assert plan_sweep(most=30, extent=CORE) == plan_sweep(most=30)


def test_programs_grow_with_what_the_device_does_until_steps_take_about_as_long() -> None:
    assert 10 * typical_flops(CORE) < typical_flops(P100) and 10 * typical_flops(P100) < typical_flops(H100)
    assert typical_flops(P100) < typical_flops(T4) < typical_flops(H100)
    for extent in (CORE, P100, T4, H100):
        steps = sorted(point.step_s(extent) for point in plan_sweep(most=120, extent=extent))
        assert 0.1 < steps[-3] <= MOST_STEP_S, "the largest take a good part of the most that is allowed"


def test_a_gpu_that_no_table_knows_has_a_plan_too() -> None:
    extent = extent_of("cuda", "Unheard of", 0)
    assert extent.growth > 1.0 and extent.memory_bytes == math.inf
    assert len(plan_sweep(most=20, extent=extent)) == 20


@pytest.mark.parametrize("extent", [T4, H100])
def test_programs_of_a_gpu_are_specs_that_are_accepted_and_have_rows_for_their_batch(extent: Extent) -> None:
    for point in plan_sweep(most=60, extent=extent):
        TaskSpec.model_validate(point.spec)
        assert round(0.7 * point.data.rows) >= point.batch_size
        for name, value in point.params.items():
            knob = FAMILIES[point.family].knob(name)
            assert knob is None or knob.problem(value) is None


def test_what_does_not_fit_in_the_memory_of_a_device_is_not_measured_there() -> None:
    def largest(gib: int) -> int:
        extent = extent_of("cuda", "NVIDIA H100", gib << 30)
        points = islice(design("cnn", extent=extent), 80)
        return max(point.batch_size * point.params["image_size"] ** 2 for point in points)

    assert largest(1) < largest(80)


def test_a_sweep_of_a_gpu_goes_on_where_it_stopped() -> None:
    whole = plan_sweep(budget_s=300.0, extent=T4)
    done = {point.point_id for point in whole[:7]}
    assert plan_sweep(budget_s=300.0, extent=T4, done=done) == whole[7:]
    assert sum(point.cost_s(T4) for point in whole) <= 300.0
