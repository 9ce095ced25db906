"""Cuts into stages: optimal against brute force, whole, within memory; the number of micro-batches by its costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.stage_devices import StageDevice
from worker.stages import (
    COUNTS,
    GPIPE,
    ONE_F_ONE_B,
    Block,
    StagePlan,
    Wanted,
    cut,
    gpipe_s,
    plan_stages,
    stage_bytes,
    stage_times,
)

COSTS = st.lists(st.integers(0, 50), min_size=1, max_size=9)


def parts(ends: Sequence[int]) -> list[tuple[int, int]]:
    """(first, end) of each stage."""
    return list(zip((0, *ends[:-1]), ends, strict=True))


def every_cut(number: int, stages: int) -> list[tuple[int, ...]]:
    """All of them."""
    return [(*inner, number) for inner in combinations(range(1, number), stages - 1)]


def blocks(number: int = 8, **fields: float) -> list[Block]:
    """Equal ones."""
    figures = {"forward_s": 1.0, "backward_s": 2.0, "activation_bytes": 10.0, "output_bytes": 1.0} | fields
    return [Block(name=f"block {place}", parameter_bytes=100, **figures) for place in range(number)]


def costliest(costs: Sequence[Sequence[int]], ends: Sequence[int]) -> int:
    """What the costliest stage of a cut costs; `costs[stage][block]`."""
    return max(sum(costs[stage][i:j]) for stage, (i, j) in enumerate(parts(ends)))


@given(COSTS, st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_the_slowest_stage_is_as_short_as_any_cut_makes_it(blocks: list[int], factors: list[int]) -> None:
    costs = [[factor * cost for cost in blocks] for factor in factors]
    if len(factors) > len(blocks):
        with pytest.raises(ValueError, match="cannot make"):
            cut(costs)
        return
    ends = cut(costs)
    assert ends is not None and list(ends) == sorted(set(ends))
    assert ends[-1] == len(blocks) and len(ends) == len(factors)
    assert costliest(costs, ends) == min(costliest(costs, other) for other in every_cut(len(blocks), len(factors)))


@given(COSTS, st.integers(1, 9), st.integers(0, 120))
def test_a_limit_per_stage_is_kept_wherever_any_cut_keeps_it(costs: list[int], stages: int, limit: int) -> None:
    sizes = [cost * 3 % 17 for cost in costs]
    stages = min(stages, len(costs))

    def fits(stage: int, first: int, end: int) -> bool:
        return sum(sizes[first:end]) + stage <= limit

    ends = cut([costs] * stages, fits)
    allowed = [
        other
        for other in every_cut(len(costs), stages)
        if all(fits(stage, *part) for stage, part in enumerate(parts(other)))
    ]
    assert (ends is None) == (not allowed)
    if ends is not None:
        assert ends in allowed
        assert costliest([costs] * stages, ends) == min(costliest([costs] * stages, other) for other in allowed)


def test_equal_blocks_make_equal_stages_and_half_the_time_but_for_the_bubble() -> None:
    plan = plan_stages(blocks(8), 2, 64, wanted=Wanted(micro_batches=8))
    assert plan.ends == (4, 8)
    alone_s = 64 * 8 * 3.0
    assert alone_s / plan.step_s == pytest.approx(2 * 8 / (8 + 1))


def test_micro_batches_are_no_smaller_than_their_fixed_costs_allow() -> None:
    fixed = {"fixed_forward_s": 4.0, "fixed_backward_s": 4.0}
    times = {count: plan_stages(blocks(8, **fixed), 2, 64, wanted=Wanted(micro_batches=count)).step_s
             for count in COUNTS if count <= 64}  # fmt: skip
    chosen = plan_stages(blocks(8, **fixed), 2, 64)
    assert chosen.step_s == min(times.values())
    assert 1 < chosen.micro_batches < 64
    assert plan_stages(blocks(8), 2, 64).micro_batches == 64  # nothing fixed: the smaller the better
    handed_on = plan_stages(blocks(8), 2, 64, message_s=50.0)
    assert handed_on.micro_batches < 64


def test_measured_times_of_two_stages_are_explained_by_a_fixed_cost_per_micro_batch() -> None:
    # 4 linear(1024) layers per stage, 512 rows, seconds measured with M = 1, 2, 4, 8, 16
    measured = {1: 0.281, 2: 0.226, 4: 0.201, 8: 0.209, 16: 0.265}
    layers = [
        Block(name=str(place), forward_s=0.265 / 3 / 8 / 512, backward_s=0.265 * 2 / 3 / 8 / 512,
              fixed_forward_s=0.0073 / 3 / 4, fixed_backward_s=0.0073 * 2 / 3 / 4)
        for place in range(8)
    ]  # fmt: skip
    for count, seconds in measured.items():
        told = plan_stages(layers, 2, 512, wanted=Wanted(micro_batches=count)).step_s
        assert told == pytest.approx(seconds, rel=0.06)
    assert plan_stages(layers, 2, 512).micro_batches in (4, 6)


def room(*sizes_bytes: float) -> list[StageDevice]:
    """Two stages that may take so much: each as much, or one as the other."""
    return [StageDevice(memory_bytes=size) for size in (sizes_bytes * 2)[:2]]


def test_memory_asks_first_for_another_schedule_then_for_recomputation() -> None:
    wide = blocks(8, activation_bytes=100.0)
    free = plan_stages(wide, 2, 64, wanted=Wanted(micro_batches=8))
    assert (free.schedule, free.recompute, free.fits) == (GPIPE, False, True)
    tight = plan_stages(wide, 2, 64, wanted=Wanted(micro_batches=8), devices=room(max(free.stage_bytes) / 2))
    assert (tight.schedule, tight.recompute, tight.fits) == (ONE_F_ONE_B, False, True)
    tighter = plan_stages(wide, 2, 64, wanted=Wanted(micro_batches=8), devices=room(max(tight.stage_bytes) * 0.65))
    assert tighter.recompute and tighter.fits and tighter.step_s > tight.step_s
    none = plan_stages(wide, 2, 64, devices=room(1.0))
    assert not none.fits and max(none.stage_bytes) <= max(tighter.stage_bytes)


@pytest.mark.parametrize("devices", [room(1.0, math.inf), room(math.inf, 1.0), room(50.0, 2000.0)])
def test_where_nothing_fits_no_other_way_exceeds_a_stage_s_memory_by_less(devices: list[StageDevice]) -> None:
    wide = [replace(block, output_bytes=90.0 * (place == 5)) for place, block in enumerate(blocks(8))]
    wide = [replace(block, activation_bytes=30.0 * place) for place, block in enumerate(wide)]

    def excess(schedule: str | None = None, recompute: bool | None = None, count: int | None = None) -> float:
        wanted = Wanted(micro_batches=count, schedule=schedule, recompute=recompute)
        plan = plan_stages(wide, 2, 16, devices=devices, wanted=wanted)
        assert not plan.fits
        return max(size - of.memory_bytes for size, of in zip(plan.stage_bytes, devices, strict=True))

    ways = itertools.product((GPIPE, ONE_F_ONE_B), (False, True), (1, 2, 4, 8, 16))
    assert excess() == min(excess(*way) for way in ways)


def test_of_equal_cuts_the_last_stages_are_the_shortest() -> None:
    assert cut([[1.0] * 3] * 2) == (2, 3) and cut([[1.0] * 5] * 3) == (2, 4, 5)


def test_a_stage_on_a_slower_device_has_less_to_do_and_one_with_less_memory_less_to_hold() -> None:
    wanted = Wanted(micro_batches=8, schedule=GPIPE, recompute=False)
    assert plan_stages(blocks(8), 2, 64, devices=[StageDevice(), StageDevice(factor=3.0)], wanted=wanted).ends == (6, 8)
    assert plan_stages(blocks(8), 2, 64, devices=[StageDevice(factor=3.0), StageDevice()], wanted=wanted).ends == (2, 8)
    alike = plan_stages(blocks(8), 2, 64, wanted=wanted)
    small = alike.stage_bytes[0] / 2
    for place, devices in enumerate((room(small, math.inf), room(math.inf, small))):
        plan = plan_stages(blocks(8), 2, 64, devices=devices, wanted=wanted)
        assert plan.fits and plan.stage_bytes[place] <= small < plan.stage_bytes[1 - place]


SPEEDS = st.sampled_from([0.25, 0.5, 1.0, 1.3, 2.0, 7.0])


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 500)), min_size=3, max_size=8),
    st.lists(st.tuples(SPEEDS, st.integers(2_000, 60_000)), min_size=2, max_size=3),
    st.sampled_from([(GPIPE, False), (ONE_F_ONE_B, True)]),
)
def test_unlike_stages_are_no_slower_than_equal_ones_on_the_same_devices_and_keep_each_limit(
    model: list[tuple[int, int]], given_devices: list[tuple[float, int]], way: tuple[str, bool]
) -> None:
    layers = [
        Block(name=str(place), forward_s=cost, backward_s=2.0 * cost, activation_bytes=10.0, parameter_bytes=size)
        for place, (cost, size) in enumerate(model)
    ]
    devices = [StageDevice(factor=factor, memory_bytes=size) for factor, size in given_devices]
    factors = [device.factor for device in devices]
    wanted = Wanted(micro_batches=4, schedule=way[0], recompute=way[1])
    plan = plan_stages(layers, len(devices), 32, devices=devices, wanted=wanted)
    equal = plan_stages(layers, len(devices), 32, wanted=wanted)

    def slowest_s(of: StagePlan) -> float:
        return max(map(sum, stage_times(layers, of, factors)))

    def fits(of: StagePlan) -> bool:
        return all(size <= device.memory_bytes for size, device in zip(of.stage_bytes, devices, strict=True))

    assert plan.fits == fits(plan)
    if fits(equal):
        assert plan.fits and slowest_s(plan) <= slowest_s(equal) * (1 + 1e-9)
    assert plan.step_s == pytest.approx(gpipe_s(stage_times(layers, plan, factors), plan.micro_batches))


@given(st.integers(1, 6), st.integers(1, 100), st.integers(1, 64), st.booleans(), st.sampled_from([GPIPE, ONE_F_ONE_B]))
def test_a_plan_covers_all_blocks_and_rows(stages: int, batch: int, count: int, recompute: bool, schedule: str) -> None:
    wanted = Wanted(micro_batches=count, schedule=schedule, recompute=recompute)
    plan = plan_stages(blocks(6), stages, batch, wanted=wanted)
    assert plan.bounds[0][0] == 0 and plan.bounds[-1][1] == 6
    assert (plan.micro_batches - 1) * plan.rows < batch <= plan.micro_batches * plan.rows
    assert plan.micro_batches <= max(count, 1)
    assert (plan.schedule, plan.recompute) == (schedule, recompute)
    assert StagePlan.from_dict(plan.to_dict()) == plan
    assert plan.step_s == pytest.approx(gpipe_s(stage_times(blocks(6), plan), plan.micro_batches))


def test_stages_hold_their_share_of_the_weights() -> None:
    plan = plan_stages(blocks(8), 4, 64, wanted=Wanted(micro_batches=1))
    whole = stage_bytes(blocks(8), (0, 8), plan, 0, 1)
    assert [stage_bytes(blocks(8, activation_bytes=0, output_bytes=0), part, plan, 0, 4) for part in plan.bounds] == [
        800.0
    ] * 4
    assert whole > 4 * 8 * 100


@pytest.mark.parametrize("figure", [-1.0, math.nan, math.inf])
def test_what_is_no_figure_is_refused(figure: float) -> None:
    with pytest.raises(ValueError, match="forward_s"):
        Block(name="odd", forward_s=figure, backward_s=0.0)


def test_a_schedule_that_does_not_exist_and_a_broken_plan_are_refused() -> None:
    with pytest.raises(ValueError, match="no schedule"):
        plan_stages(blocks(4), 2, 8, wanted=Wanted(schedule="zigzag"))
    with pytest.raises(ValueError, match="not a plan"):
        StagePlan.from_dict({"ends": [1, 2]})
