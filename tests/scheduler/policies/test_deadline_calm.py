"""Who was promised a finish is not paused for a promise that can wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.types import WaitCode
from tests.scheduler.policies.test_deadline_energy import RESTARTS, begun, counts, planned, view

NOW_S = 100.0


def runs(name, deadline_s=5_000.0, *, left_s=500.0, widths=(1,), on=(0,), **more):
    """A promised run for some time, of which so much is left on the devices with these numbers."""
    job = begun(view(name, 1_000.0, deadline_s, widths=widths, promised=True, **more), -500.0)
    held = next(option for option in job.options if option.count == len(on))
    devices = tuple(f"p0n00000d{number}" for number in on)
    running = replace(job.running, option=held, nodes=("p0n00000",), device_ids=devices)
    return replace(job, work_left=left_s / held.run_s, running=running)


def waits(name, run_s=1_000.0, deadline_s=3_000.0, **more):
    return view(name, run_s, deadline_s, widths=(1,), promised=True, **more)


def plan_of(*jobs, pool="1x1"):
    return planned(list(jobs), RESTARTS, pool=pool, now_s=NOW_S)


def test_an_earlier_promise_that_can_wait_does_not_pause_a_later_one():
    plan = plan_of(runs("runs"), waits("waits"))
    assert counts(plan) == {"runs": 1} and not plan.warnings
    assert plan.expected["waits"] == pytest.approx((600.0, 1_600.0))
    assert plan.waits["waits"].code is WaitCode.LATER and "in time for its promise" in plan.waits["waits"].remedy


@pytest.mark.parametrize(("deadline_s", "given"), [(1_500.0, "waits"), (1_900.0, "waits"), (2_200.0, "runs")])
def test_one_that_would_be_late_otherwise_or_nearly_does(deadline_s, given):
    """It waits until 600 s, and ends at 1,605 s: a quarter of its time is to be left for what may come yet."""
    plan = plan_of(runs("runs"), waits("waits", deadline_s=deadline_s))
    assert counts(plan) == {given: 1} and not plan.warnings


@pytest.mark.parametrize(("first", "given"), [({"priority": 1}, "waits"), ({"rank": -1}, "runs")])
def test_one_of_higher_priority_does_and_one_that_an_admin_moved_to_the_front_does_not(first, given):
    assert counts(plan_of(runs("runs"), replace(waits("waits"), **first))) == {given: 1}


def test_of_two_runs_one_goes_on_where_one_is_enough():
    jobs = (runs("first"), runs("second", on=(1,)), waits("urgent", deadline_s=1_300.0), waits("waits"))
    plan = plan_of(*jobs, pool="1x2")
    assert "urgent" in counts(plan) and "waits" not in counts(plan)
    assert len(counts(plan)) == 2 and not plan.warnings


def test_a_deadline_that_is_not_promised_yet_is_not_lost_for_it():
    wide, fresh = runs("runs", widths=(2,), on=(0, 1)), view("fresh", 300.0, 450.0, widths=(1,), submitted_s=50.0)
    plan = plan_of(wide, waits("waits"), fresh, pool="1x2")
    assert counts(plan) == {"waits": 1, "fresh": 1} and plan.promised == {"fresh"}
    assert counts(plan_of(wide, waits("waits"), pool="1x2")) == {"runs": 2}


def test_a_promise_that_is_late_already_is_not_made_later_for_it():
    plan = plan_of(runs("runs"), waits("late", deadline_s=NOW_S + 20.0))
    assert counts(plan) == {"late": 1} and set(plan.warnings) == {"late"}


def test_who_is_overdue_does_not_wait_longer_for_it():
    wide, overdue = runs("runs", widths=(2,), on=(0, 1)), view("overdue", 100.0, widths=(1,), submitted_s=-90_000.0)
    assert counts(plan_of(wide, waits("waits"), overdue, pool="1x2")) == {"waits": 1, "overdue": 1}
