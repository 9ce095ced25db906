"""When devices are free for the whole of a run."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.placing.openings import Holding, earliest_start_s, earliest_together_s

UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
HOLDINGS = st.lists(
    st.builds(
        lambda start, length, count: Holding(start_s=start, finish_s=start + length, count=count),
        st.floats(0, 100),
        st.floats(0, 100),
        st.integers(1, 4),
    ),
    max_size=6,
)


@UNHURRIED
@given(HOLDINGS, st.integers(1, 8), st.integers(1, 8), st.floats(0.1, 200))
def test_an_opening_is_free_for_the_whole_run_and_none_is_earlier(held, capacity, count, run_s):
    start = earliest_start_s(held, capacity=capacity, count=count, run_s=run_s, now_s=10.0)
    if count > capacity:
        assert start is None
        return

    def free_from(moment):
        instants = [moment, *(item.start_s for item in held if moment < item.start_s < moment + run_s)]
        return all(
            sum(item.count for item in held if item.start_s <= instant < item.finish_s) + count <= capacity
            for instant in instants
        )

    assert free_from(start)
    earlier = [10.0, *(item.finish_s for item in held if 10.0 < item.finish_s < start)]
    assert start == 10.0 or not any(free_from(moment) for moment in earlier)


@UNHURRIED
@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 60), st.integers(1, 40), st.integers(1, 3)), max_size=8),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 30),
)
def test_a_mixture_starts_when_every_part_is_free_for_its_whole_run(rows, first, second, run_s):
    held = {
        ("cpu", name): [
            Holding(start_s=float(start), finish_s=float(start + length), count=count)
            for model, start, length, count in rows
            if model == name
        ]
        for name in "AB"
    }
    capacity = {("cpu", "A"): 3, ("cpu", "B"): 3}
    wanted = {("cpu", "A"): first, ("cpu", "B"): second}
    start = earliest_together_s(held, capacity, wanted, run_s=run_s, now_s=10.0)
    for key, count in wanted.items():
        alone = earliest_start_s(held[key], capacity=3, count=count, run_s=run_s, now_s=start)
        assert alone == start
    assert start >= max(
        earliest_start_s(held[key], capacity=3, count=count, run_s=run_s, now_s=10.0) for key, count in wanted.items()
    )
    assert earliest_together_s(held, capacity, {("cpu", "A"): 4}, run_s=run_s, now_s=10.0) is None
