"""What a plan must not count on: devices that are reserved, quotas that may not be exceeded, patience of others."""

from __future__ import annotations

import pytest

from scheduler.admit import admit
from scheduler.place import place
from scheduler.policies import names
from scheduler.policies.order import PATIENCE_S
from scheduler.types import Reserved
from tests.scheduler.pools import hard_quota, held_by, job, node, pool, runs, way

HARD = {"p": hard_quota({"cpu": 2})}


def reserved(start_s, end_s, *devices):
    return {device: (Reserved(start_s=start_s, end_s=end_s),) for device in devices}


@pytest.mark.parametrize("policy", names())
def test_promises_stay_within_a_quota_that_may_not_be_exceeded(policy):
    waiting = [
        job(name, way(2, run_s=100), project="p", promised=True, deadline_s=5_000.0, can_pause=True) for name in "ab"
    ]
    found = place(waiting, pool(node(cpus=4)), 0.0, policy=policy, quotas=HARD)
    assert sum(start.option.count for start in found.placements) == 2


@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("policy", names())
def test_a_quota_that_becomes_smaller_stops_no_run_and_lets_none_start(policy, promised):
    dated = {"promised": promised, "deadline_s": 5_000.0 if promised else None}
    runners = [
        runs(job(name, way(2, run_s=100), project="p", can_pause=True, **dated), "n1", *devices)
        for name, devices in (("a", ("cpu0", "cpu1")), ("b", ("cpu2", "cpu3")))
    ]
    jobs = [*runners, job("c", way(1, run_s=100), project="p", priority=0)]
    view = held_by(runners, pool(node(cpus=6)))
    found = place(jobs, view, 10.0, policy=policy, quotas=HARD)
    assert (set(found.running), found.changes, found.placements) == ({"a", "b"}, (), ())


@pytest.mark.parametrize("policy", names())
def test_a_reservation_to_come_stops_no_run(policy):
    long = runs(job("a", way(1, run_s=10_000), can_pause=True), "n1", "cpu0")
    view = held_by([long], pool(node(cpus=2, reserved=reserved(200.0, 1_000.0, "cpu0", "cpu1"))))
    found = place([long], view, 100.0, policy=policy)
    assert (found.running, found.changes) == (("a",), ())


@pytest.mark.parametrize("policy", names())
def test_a_device_that_is_kept_after_the_run_on_it_is_promised_to_nobody(policy):
    ends = runs(job("a", way(1, run_s=100)), "n1", "cpu0")
    view = held_by([ends], pool(node(cpus=1, reserved=reserved(0.0, 10_000.0, "cpu0"))))
    asked = job("b", way(1, run_s=100), deadline_s=5_000.0, at=10.0)
    assert not admit(asked, [ends], view, 10.0, policy=policy).accepted
    later = admit(job("b", way(1, run_s=100), deadline_s=20_000.0, at=10.0), [ends], view, 10.0, policy=policy)
    assert not later.accepted or later.finish_s > 10_000.0


def test_nothing_new_is_promised_while_somebody_has_waited_for_too_long():
    runner = runs(job("a", way(1, run_s=1_000), promised=True, deadline_s=PATIENCE_S + 5_000.0), "n1", "cpu0")
    view = held_by([runner], pool(node(cpus=2)))
    patient = job("w", way(2, run_s=500))
    asked = job("n", way(1, run_s=5_000), deadline_s=PATIENCE_S + 50_000.0, at=PATIENCE_S)
    assert admit(asked, [runner, patient], view, PATIENCE_S - 1.0).accepted
    refused = admit(asked, [runner, patient], view, PATIENCE_S + 1.0)
    assert not refused.accepted
    assert "has waited" in refused.text and refused.changes_that_would_help
