"""The pool as the scheduler sees it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

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


KEPT = st.builds(
    lambda start, for_s, project: Reserved(start_s=float(start), end_s=float(start + for_s), project=project),
    st.integers(0, 12), st.integers(1, 6), st.sampled_from(["", "p", "q"]),
)  # fmt: skip


@given(st.lists(KEPT, max_size=4), st.integers(0, 8))
def test_the_pieces_of_what_a_device_is_kept_for_follow_each_other_and_say_of_each_moment_whose_it_is(kept, now_s):
    (device,) = node(cpus=1, reserved={"cpu0": tuple(kept)}).devices
    pieces = device.kept_pieces(float(now_s))
    assert all(one.end_s <= other.start_s for one, other in pairwise(pieces))
    for moment_s in (now_s + step / 2 for step in range(40)):
        here = [piece.project for piece in pieces if piece.holds(moment_s)]
        assert here == [keeper] if (keeper := device.keeper(moment_s)) is not None else not here
