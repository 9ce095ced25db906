"""Rules of a replay: what no replay can go by is refused where it is written down, and not by an endless replay."""

from __future__ import annotations

import math

import pytest

from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.simulate.run import rules_for


@pytest.mark.parametrize("slot_s", [0.0, -60.0, math.nan, math.inf])
def test_a_slot_in_which_no_time_passes_or_that_never_ends_is_refused(slot_s: float) -> None:
    with pytest.raises(ValueError, match=rf"^a slot of {slot_s} s$"):
        Rules(slot_s=slot_s)


@pytest.mark.parametrize("name", ["event_s", "change_s", "restart_s"])
@pytest.mark.parametrize("cost_s", [-1.0, math.nan, math.inf])
def test_an_overhead_that_gives_time_back_or_never_ends_is_refused(name: str, cost_s: float) -> None:
    with pytest.raises(ValueError, match="an overhead below 0, or that never ends"):
        Rules(**{name: cost_s})


def test_a_restart_at_every_decision_before_the_first_is_refused() -> None:
    with pytest.raises(ValueError, match="an overhead below 0"):
        Rules(restart_every=-1)


def test_a_slot_shorter_than_the_published_cost_of_a_decision_is_one_where_decisions_cost_nothing() -> None:
    pool = SimPool.parse("1x8")
    assert rules_for(pool, slot_s=1.0, overheads=False, rescale_s=None) == Rules(slot_s=1.0)
    with pytest.raises(ValueError, match="decisions 1 s apart cost 2 s each"):
        rules_for(pool, slot_s=1.0, overheads=True, rescale_s=None)


@pytest.mark.parametrize("event_s", [60.0, 61.0])
def test_decisions_that_take_all_the_time_between_them_are_refused(event_s: float) -> None:
    with pytest.raises(ValueError, match=f"decisions 60 s apart cost {event_s:g} s each"):
        Rules(slot_s=60.0, event_s=event_s)
    assert Rules(slot_s=60.0, event_s=math.nextafter(60.0, 0.0)).slowdown > 1.0
