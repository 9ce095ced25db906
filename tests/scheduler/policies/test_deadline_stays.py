"""What a job that has just begun, and goes on for a while, means for those that wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.scheduler.policies.test_deadline_calm import NOW_S, runs
from tests.scheduler.policies.test_deadline_energy import RESTARTS, begun, counts, planned, view


def test_who_comes_after_a_job_that_has_just_begun_is_told_the_start_after_its_end():
    """Not when its while is over: it goes on then."""
    small = begun(view("small", 800.0, widths=(1,), submitted_s=0.0), 90.0)
    promised = view("promised", 1000.0, 5000.0, widths=(1,), promised=True, submitted_s=1.0)
    after = view("after", 50.0, widths=(1,), submitted_s=2.0)
    plan = planned([small, promised, after], RESTARTS, pool="1x1", now_s=100.0)
    assert counts(plan) == {"small": 1}
    assert plan.expected["promised"][0] == pytest.approx(190.0)
    assert plan.expected["after"][0] >= plan.expected["small"][1]


def test_a_promise_without_slack_does_not_wait_for_what_has_just_begun():
    small = begun(view("small", 800.0, widths=(1,), submitted_s=0.0), 90.0)
    promised = view("promised", 1000.0, 1150.0, widths=(1,), promised=True, submitted_s=1.0)
    plan = planned([small, promised], RESTARTS, pool="1x1", now_s=100.0)
    assert counts(plan) == {"promised": 1} and not plan.warnings


def test_one_device_is_not_advised_to_be_fewer():
    jobs = [view("first", 800.0, widths=(1,), submitted_s=0.0), view("second", 800.0, widths=(1,), submitted_s=1.0)]
    assert "fewer" not in planned(jobs, pool="1x1").waits["second"].remedy
    jobs = [view("first", 800.0, widths=(2,), submitted_s=0.0), view("second", 800.0, widths=(2,), submitted_s=1.0)]
    assert "fewer devices" in planned(jobs, pool="1x2").waits["second"].remedy


def test_a_promise_of_higher_priority_does_not_wait_for_what_has_just_begun():
    small = begun(view("small", 800.0, widths=(1,)), 90.0)
    promised = replace(view("promised", 1000.0, 5000.0, widths=(1,), promised=True), priority=1)
    assert counts(planned([small, promised], RESTARTS, pool="1x1", now_s=100.0)) == {"promised": 1}


def planned_wider(*others, until_s=120.0, **more):
    """A promised run on one device that needs two, beside one that cannot be paused and ends then."""
    wide = replace(runs("wide", NOW_S + 800.0, left_s=950.0, widths=(1, 2)), **more)
    short = runs("short", left_s=until_s)
    fixed = replace(short.running, device_ids=("p0n00000d1",))
    short = replace(short, deadline_s=None, promised=False, can_pause=False, running=fixed)
    return planned([wide, short, *others], RESTARTS, pool="1x2", now_s=NOW_S)


@pytest.mark.parametrize("deadline_s", [None, NOW_S + 10.0])
def test_a_promised_run_that_gets_more_devices_soon_is_not_paused_until_then(deadline_s):
    """Not for what has no deadline, nor for what cannot keep it."""
    plan = planned_wider(view("comes", 40.0, deadline_s, widths=(1,), submitted_s=50.0))
    assert counts(plan) == {"wide": 1, "short": 1} and not plan.warnings
    assert plan.expected["wide"][0] < NOW_S and plan.expected["wide"][1] <= NOW_S + 800.0


@pytest.mark.parametrize("more", [{"promised": True}, {}])
def test_it_is_for_a_deadline_that_can_be_kept(more):
    plan = planned_wider(view("dated", 40.0, NOW_S + 100.0, widths=(1,), submitted_s=50.0, **more))
    assert counts(plan) == {"dated": 1, "short": 1} and not plan.warnings


def test_it_is_for_what_has_a_higher_priority():
    comes = replace(view("comes", 40.0, widths=(1,), submitted_s=50.0), priority=1)
    assert counts(planned_wider(comes)) == {"comes": 1, "short": 1}
    assert counts(planned_wider(comes, priority=1)) == {"wide": 1, "short": 1}


def test_it_is_for_who_is_overdue():
    overdue = view("overdue", 40.0, widths=(1,), submitted_s=-90_000.0)
    assert counts(planned_wider(overdue)) == {"overdue": 1, "short": 1}
