"""Devices that are kept one after the other, against asking each device at each moment."""

from __future__ import annotations

import math

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.policies.whole_devices import WholeDevices

MOMENTS = st.integers(0, 12).map(float)
TIMES = st.lists(st.sampled_from(range(13)), unique=True, max_size=8).map(sorted)


def is_open(times, start_s, run_s):
    return all(end_s <= start_s or (begin_s >= start_s + run_s and begin_s > start_s) for begin_s, end_s in times)


@settings(max_examples=400, deadline=None)
@given(st.lists(TIMES, max_size=4), st.integers(1, 4), st.integers(0, 6) | st.just(math.inf), MOMENTS, MOMENTS)
@example([[0, 4, 4, 8]], 1, 2, 12.0, 1.0)
def test_a_run_begins_as_soon_as_enough_devices_are_open_for_all_of_it(devices, width, run_s, latest_s, from_s):
    kept = [list(zip(moments[::2], moments[1::2], strict=False)) for moments in devices]
    whole = WholeDevices(4)
    for number, times in enumerate(kept):
        for start_s, end_s in reversed(times):
            whole.keep(str(number), start_s, end_s)
    starts = [from_s, *sorted(end_s for times in kept for _, end_s in times if end_s > from_s)]
    others = 4 - len(kept)
    fit = [one for one in starts if others + sum(is_open(times, one, run_s) for times in kept) >= width]
    expected = min(fit, default=math.inf)
    assert whole.earliest(width, run_s, latest_s, from_s) == (expected if expected <= latest_s else math.inf)
    assert not whole.is_sure(width) or expected == from_s
