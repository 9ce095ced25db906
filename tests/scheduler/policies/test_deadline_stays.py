"""What a job that has just begun, and goes on for a while, means for those that wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

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


def test_one_device_is_not_advised_to_be_fewer():
    jobs = [view("first", 800.0, widths=(1,), submitted_s=0.0), view("second", 800.0, widths=(1,), submitted_s=1.0)]
    assert "fewer" not in planned(jobs, pool="1x1").waits["second"].remedy
    jobs = [view("first", 800.0, widths=(2,), submitted_s=0.0), view("second", 800.0, widths=(2,), submitted_s=1.0)]
    assert "fewer devices" in planned(jobs, pool="1x2").waits["second"].remedy


def test_a_promise_of_higher_priority_does_not_wait_for_what_has_just_begun():
    small = begun(view("small", 800.0, widths=(1,)), 90.0)
    promised = replace(view("promised", 1000.0, 5000.0, widths=(1,), promised=True), priority=1)
    assert counts(planned([small, promised], RESTARTS, pool="1x1", now_s=100.0)) == {"promised": 1}
