"""What stages can count on: the slowest and smallest device of each, and chance makes no like devices unlike."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.stage_devices import (
    ALIKE_BYTES,
    ALIKE_TIMES,
    RankDevice,
    StageDevice,
    short_stage,
    stage_devices,
    unlike_words,
)
from worker.stages import Block, plan_stages

GIB = float(1 << 30)
NOISE = st.floats(1.0 / ALIKE_TIMES + 1e-6, ALIKE_TIMES - 1e-6)
UNEVEN = st.floats(1.0 - ALIKE_BYTES + 1e-6, 1.0 + ALIKE_BYTES - 1e-6)


@given(st.lists(st.tuples(NOISE, UNEVEN), min_size=3, max_size=7), st.floats(1e-6, 10.0), st.floats(1e3, 1e9))
def test_like_devices_get_the_plan_of_the_first_whatever_chance_adds_to_their_figures(
    others: list[tuple[float, float]], timed_s: float, memory_bytes: float
) -> None:
    told = [(1.0, 1.0), *others][: len(others) // 2 * 2]
    ranks = [RankDevice(timed_s=timed_s * time, memory_bytes=memory_bytes * room) for time, room in told]
    devices = stage_devices(ranks, 2)
    assert devices == (StageDevice(memory_bytes=memory_bytes),) * 2 and unlike_words(devices) == ""
    blocks = [
        Block(name=str(place), forward_s=place + 1.0, backward_s=2.0, activation_bytes=1e4, parameter_bytes=1000)
        for place in range(6)
    ]
    alone = plan_stages(blocks, 2, 32, devices=[StageDevice(memory_bytes=memory_bytes)] * 2)
    assert plan_stages(blocks, 2, 32, devices=devices) == alone


def test_a_stage_of_several_pipelines_is_as_slow_as_its_slowest_device_and_holds_what_fits_the_smallest() -> None:
    ranks = [
        RankDevice(timed_s=1.0, memory_bytes=4 * GIB), RankDevice(timed_s=2.0, memory_bytes=8 * GIB),
        RankDevice(timed_s=3.0, memory_bytes=6 * GIB), RankDevice(timed_s=0.5, memory_bytes=2 * GIB),
    ]  # fmt: skip
    assert stage_devices(ranks, 2) == (
        StageDevice(factor=3.0, memory_bytes=4 * GIB), StageDevice(factor=2.0, memory_bytes=2 * GIB)
    )  # fmt: skip


def test_what_is_declared_counts_exactly_and_on_top_of_what_is_timed() -> None:
    ranks = [
        RankDevice(timed_s=1.0, slowdown=1.1), RankDevice(timed_s=1.2, slowdown=1.2),
        RankDevice(timed_s=2.0, slowdown=3.0),
    ]  # fmt: skip
    assert [device.factor for device in stage_devices(ranks, 3)] == [1.1, 1.2, 6.0]


@pytest.mark.parametrize(("first_s", "other_s"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_time_too_short_to_be_told_makes_no_device_unlike(first_s: float, other_s: float) -> None:
    ranks = [RankDevice(timed_s=first_s), RankDevice(timed_s=other_s)]
    assert stage_devices(ranks, 2) == (StageDevice(), StageDevice())


def test_what_sets_stages_apart_is_said_and_nothing_else() -> None:
    slow = [StageDevice(), StageDevice(factor=2.9)]
    assert unlike_words(slow) == "stages on unlike devices take 1, 2.9 times as long as the first rank timed"
    small = [StageDevice(memory_bytes=2 * GIB), StageDevice(memory_bytes=math.inf)]
    assert unlike_words(small) == "stages on unlike devices have room for 2 GiB, any"
    both = [StageDevice(memory_bytes=2 * GIB), StageDevice(factor=3, memory_bytes=GIB)]
    assert unlike_words(both).endswith("take 1, 3 times as long as the first rank timed and have room for 2 GiB, 1 GiB")
    assert unlike_words([StageDevice(factor=3.0, memory_bytes=GIB)] * 2) == ""


def rooms(*gib: float) -> list[StageDevice]:
    return [StageDevice(memory_bytes=room * GIB) for room in gib]


def test_stages_that_were_cut_for_more_memory_than_there_is_now_are_known() -> None:
    needed, before = [3 * GIB, 4 * GIB], [8 * GIB, 8 * GIB]
    assert short_stage(needed, before, rooms(8, 8)) is None
    assert short_stage(needed, before, rooms(3, 4)) is None, "what they take is enough"
    assert short_stage(needed, before, rooms(8, 3.5)) == (1, 4 * GIB, 3.5 * GIB)
    assert short_stage(needed, before, rooms(2, 2)) == (0, 3 * GIB, 2 * GIB)


def test_stages_that_never_had_room_by_the_estimate_go_on_where_there_is_as_much() -> None:
    needed, before = [6 * GIB, 1 * GIB], [4 * GIB, 4 * GIB]
    assert short_stage(needed, before, rooms(4, 4)) is None
    assert short_stage(needed, before, rooms(4 * (1 - ALIKE_BYTES) + 0.01, 4)) is None, "within chance"
    assert short_stage(needed, before, rooms(2, 4)) == (0, 6 * GIB, 2 * GIB)
