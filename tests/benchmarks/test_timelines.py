"""Timelines of pipelines: as the formula says, never two passes at once, nothing before what it needs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.timelines import ideal_speedup, timeline
from worker.stages import GPIPE, ONE_F_ONE_B, gpipe_s

TIMES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=6)
COUNTS = st.integers(1, 9)


@given(TIMES, COUNTS)
def test_gpipe_takes_what_its_formula_says(times: list[tuple[int, int]], count: int) -> None:
    assert timeline(times, count, GPIPE).step_s == gpipe_s(times, count)


@given(TIMES, COUNTS, st.sampled_from([GPIPE, ONE_F_ONE_B]), st.integers(0, 3))
def test_passes_wait_for_what_they_need_and_for_their_stage(
    times: list[tuple[int, int]], count: int, schedule: str, message: int
) -> None:
    line = timeline(times, count, schedule, message)
    assert len(line.spans) == 2 * count * len(times)
    ends = {(span.backward, span.stage, span.micro_batch): span.end_s for span in line.spans}
    for span in line.spans:
        source = span.stage + (1 if span.backward else -1)
        if 0 <= source < len(times):
            assert span.begin_s >= ends[span.backward, source, span.micro_batch] + message
        if span.backward:
            assert span.begin_s >= ends[False, span.stage, span.micro_batch]
    for stage in range(len(times)):
        own = sorted((span for span in line.spans if span.stage == stage), key=lambda span: span.begin_s)
        assert all(before.end_s <= after.begin_s for before, after in pairwise(own))


@given(TIMES, COUNTS)
def test_one_forward_one_backward_holds_no_more_than_the_stages_that_follow(
    times: list[tuple[int, int]], count: int
) -> None:
    line = timeline(times, count, ONE_F_ONE_B)
    for stage in range(len(times)):
        assert line.most_waiting(stage) <= min(count, len(times) - stage)
    assert timeline(times, count, GPIPE).most_waiting(0) == count


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("schedule", [GPIPE, ONE_F_ONE_B])
def test_equal_stages_reach_the_ideal(stages: int, schedule: str) -> None:
    count = 4 * stages
    line = timeline([(1.0, 2.0)] * stages, count, schedule)
    assert stages * count * 3.0 / line.step_s == pytest.approx(ideal_speedup(stages, count))
    assert line.busy_share == pytest.approx(ideal_speedup(stages, count) / stages)


def test_another_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="no schedule"):
        timeline([(1.0, 1.0)], 1, "zigzag")
