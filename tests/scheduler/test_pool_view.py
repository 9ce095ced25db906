"""The pool as the scheduler sees it."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.pool_view import Reserved, as_told, open_ended
from tests.scheduler.pools import node, pool

LEVELS = st.lists(st.integers(0, 3), min_size=1, max_size=6)


@given(levels=LEVELS, needed=st.sets(st.integers(0, 3)))
def test_nodes_of_one_level_are_those_that_no_need_tells_apart_and_none_gets_stronger(levels, needed):
    view = pool(*(replace(node(f"n{index}"), sandbox_level=level) for index, level in enumerate(levels)), spans=True)
    found = [one.sandbox_level for one in view.levelled(needed).nodes]
    for before, after in zip(levels, found, strict=True):
        assert after <= before
        assert all((before >= need) == (after >= need) for need in needed)
    meets = {tuple(sorted(need for need in needed if level >= need)) for level in levels}
    assert len(set(found)) == len(meets)


def test_what_has_no_known_end_is_over_when_that_is_told_for_words_alone():
    sweep = Reserved(start_s=0.0, end_s=math.inf, told_s=500.0, purpose="sweep")
    later = replace(sweep, told_s=900.0, purpose="another")
    course = Reserved(start_s=0.0, end_s=700.0, purpose="course")
    view = pool(node("n1", reserved={"cpu0": (sweep,), "cpu1": (course,)}), node("n2", reserved={"cpu0": (later,)}))
    assert open_ended(view, 100.0, ["cpu"]) == (sweep, later)
    assert open_ended(view, 100.0, ["cuda"]) == open_ended(view, -1.0, ["cpu"]) == ()
    told = {keep for one in as_told(view, 100.0).nodes for device in one.devices for keep in device.reserved}
    assert told == {replace(sweep, end_s=500.0), replace(later, end_s=900.0), course}


def test_of_a_device_that_is_away_nobody_tells_an_end():
    away = Reserved(start_s=-math.inf, end_s=math.inf)
    view = pool(node("n1", reserved={"cpu0": (away,)}))
    assert open_ended(view, 100.0, ["cpu"]) == () and as_told(view, 100.0) == view
