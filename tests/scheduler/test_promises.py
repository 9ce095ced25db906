"""What is promised can be planned, on pools of all sorts: memory, quotas, reservations, busy devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.place import place
from scheduler.policies import names
from tests.scheduler.pools import dated, job, node, pool, way

NOW_S = 200.0


@pytest.mark.parametrize("policy", names())
def test_memory_that_others_hold_is_not_promised(policy):
    asked = job("a", way(1, run_s=600.0, memory_gib=4), deadline_s=9_000.0)
    for held_gib, accepted in ((12, True), (13, False)):
        there = pool(node(held_gib=held_gib))
        assert admit(asked, [], there, NOW_S, policy=policy).accepted == accepted
        told = promisable(asked, [], there, NOW_S, policy=policy)
        assert told is None or bool(told) == accepted


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
@example(150)
@example(494)
@example(533)
@example(753)
def test_what_is_promised_one_after_the_other_can_be_planned(seed):
    wishes, there, quotas = dated(seed)
    jobs = []
    for asked in wishes:
        if asked.deadline_s is not None and admit(asked, jobs, there, NOW_S, quotas=quotas).accepted:
            jobs.append(replace(asked, promised=True))
    assert not place(jobs, there, NOW_S, quotas=quotas).warnings


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
@example(155)
@example(351)
@example(851)
def test_by_deadlines_the_finish_that_is_told_is_promised_to_who_asks_for_it(seed):
    """A later deadline has its place behind more jobs."""
    wishes, there, quotas = dated(seed)
    jobs, told = [], []
    for asked in wishes:
        found = admit(asked, jobs, there, NOW_S, policy="edf", quotas=quotas) if asked.deadline_s is not None else None
        if found and found.earliest_told_s is not None:
            told.append(found.earliest_told_s)
            later = replace(asked, deadline_s=found.earliest_told_s)
            assert admit(later, jobs, there, NOW_S, policy="edf", quotas=quotas).accepted
        jobs.append(replace(asked, promised=True) if found and found.accepted else asked)
    assert seed != 851 or 2_100.0 in told, "the one that is kept only later than it would end"
