"""The pool as the scheduler sees it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

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
