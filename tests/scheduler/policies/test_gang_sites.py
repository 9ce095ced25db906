"""What a plan refuses at once, against asking every site."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placing.capacity import shown
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_groups import FEW
from tests.scheduler.pools import job, node, pool, way

NOW_S = 100.0
TAKES = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "A", "B"]), st.integers(1, 99)), max_size=30)


def sites_of(sizes, spans):
    models = {f"cpu{index}": "A" for index in range(8)}
    nodes = [node(f"n{number}", cpus=size, models=models) for number, size in enumerate(sizes)]
    return GangSites(shown([], pool(*nodes, spans=spans), NOW_S, {}).capacity, [], {}, NOW_S)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=2 * FEW), st.booleans(), TAKES)
def test_a_gang_that_is_refused_at_once_finds_no_room_and_one_that_fits_is_never_refused(sizes, spans, takes):
    sites = sites_of(sizes, spans)
    free = [sum(sizes)] if spans else list(sizes)
    for count, model, run_s in takes:
        wish = job("j", way(count, run_s=float(run_s), model=model))
        (option,) = wish.options
        fits = model != "B" and max(free) >= count
        slot = sites.find(wish, option, float(run_s), NOW_S)
        assert (slot is not None) == fits
        assert sites.may_start_now(option) or not fits
        if slot is not None:
            sites.take(wish, slot)
            free[0 if spans else int(slot.site.name[1:])] -= count


def test_what_is_lent_is_free_for_nobody_else_and_hurts_no_plan():
    sites = sites_of([4], spans=False)
    wish = job("j", way(2, run_s=50.0))
    slot = sites.find(wish, wish.options[0], 50.0, NOW_S)
    sites.take(wish, slot)
    assert sites.room_to_grow(wish, slot, 2) and not sites.room_to_grow(wish, slot, 3)
    sites.grow(wish, slot, 1)
    assert sites.room_to_grow(wish, slot, 1) and not sites.room_to_grow(wish, slot, 2)
    later = sites.find(replace(wish, job_id="k"), way(4, run_s=1.0), 1.0, math.inf)
    assert later.start_s == NOW_S + 50.0
