"""Random pools with reservations: who starts where, and what becomes of promises."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from scheduler.admit import admit
from scheduler.place import place
from scheduler.types import Reserved
from tests.scheduler.pools import carry_out, held_by, job, node, pool, way

POLICIES = ["fifo", "edf", "fair_share", "deadline_energy"]
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NOW_S = 1e6


def _drawn(random):
    """A few nodes, some devices kept for p or q or for nobody, now or soon; jobs of both projects."""
    nodes = []
    for number in range(random.randint(1, 3)):
        keeps = {}
        for index in range(random.randint(1, 3)):
            if random.random() < 0.6:
                from_s = random.choice([-HOUR_S, HOUR_S, 3 * HOUR_S])
                until_s = from_s + random.choice([2, 5, 200]) * HOUR_S
                span = {"start_s": NOW_S + from_s, "end_s": NOW_S + until_s}
                keeps[f"cpu{index}"] = (Reserved(**span, project=random.choice(["p", "q", ""]), purpose="course"),)
        nodes.append(node(f"n{number}", cpus=random.randint(1, 3), reserved=keeps))
    jobs = []
    for number in range(random.randint(1, 6)):
        run_s = random.choice([0.0, 0.5, 1, 4, 30]) * HOUR_S
        deadline_s = NOW_S + random.choice([1, 5, 40]) * HOUR_S if run_s and random.random() < 0.5 else None
        jobs.append(
            job(
                f"j{number}", way(random.choice([1, 1, 2]), run_s=run_s), at=NOW_S - number, can_pause=True,
                project=random.choice(["p", "q"]), deadline_s=deadline_s,
            )
        )  # fmt: skip
    return pool(*nodes, spans=random.random() < 0.3), jobs


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_starts_on_what_is_kept_for_others_and_nothing_kept_is_idle_in_vain(policy):
    for seed in range(150):
        there, jobs = _drawn(Random(seed))
        found = place(jobs, there, NOW_S, policy=policy)
        devices = {device.device_id: device for one in there.nodes for device in one.devices}
        by_id = {view.job_id: view for view in jobs}
        for start in found.placements:
            view = by_id[start.job_id]
            end_s = NOW_S + view.left_high_s(start.option)
            for device in map(devices.__getitem__, start.device_ids):
                for keep in device.reserved:
                    assert keep.project == view.project or keep.end_s <= NOW_S or keep.start_s >= end_s, seed
        taken = {device for start in found.placements for device in start.device_ids}
        if any(view.deadline_s or view.options[0].count > 1 for view in jobs):
            continue
        idle = {device.keeper(NOW_S) for device in devices.values() if device.device_id not in taken}
        waiting = {by_id[job_id].project for job_id in found.waits}
        assert not idle & waiting, seed


def _promised(jobs, there):
    """Promises are asked for one after the other; then the jobs that have one, and those that want none."""
    found = []
    for view in jobs:
        if view.deadline_s is not None and admit(view, found, there, NOW_S).accepted:
            found.append(replace(view, promised=True))
    return [*found, *(view for view in jobs if view.deadline_s is None)]


def test_what_was_promised_beside_reservations_can_be_planned():
    for seed in range(150):
        there, jobs = _drawn(Random(seed))
        assert place(_promised(jobs, there), there, NOW_S).warnings == {}, seed


def _older(jobs, seconds):
    rates = {view.job_id: view.running.option.rate_per_s if view.running else 0.0 for view in jobs}
    return [replace(view, work_left=max(0.0, view.work_left - seconds * rates[view.job_id])) for view in jobs]


def _next_s(jobs, there, decision, now_s):
    """When a run ends, a job is expected to start, or a reservation begins or ends."""
    kept_times = (keep for one in there.nodes for device in one.devices for keep in device.reserved)
    moments = [now_s + view.left_s(view.running.option) for view in jobs if view.running]
    moments += [moment_s for keep in kept_times for moment_s in (keep.start_s, keep.end_s)]
    moments += [start_s for start_s, _ in decision.expected.values()]
    return min((moment_s for moment_s in moments if moment_s > now_s + 1e-6), default=now_s + HOUR_S)


def test_what_was_promised_beside_reservations_is_kept_decision_after_decision():
    kept_promises = 0
    for seed in (*range(100), 218, 347, 1311, 2054, 2586):
        there, drawn = _drawn(Random(seed))
        jobs, now_s = [view for view in _promised(drawn, there) if view.options[0].rate_per_s], NOW_S
        while any(view.promised for view in jobs):
            for _ in range(4):
                decision = place(jobs, there, now_s)
                assert not decision.warnings, seed
                jobs, there = carry_out(decision, jobs, there, now_s)
            next_s = _next_s(jobs, there, decision, now_s)
            older = _older(jobs, next_s - now_s)
            ended = [view for view in older if view.work_left <= 1e-9]
            assert all(next_s <= view.deadline_s + 1.0 for view in ended if view.promised), seed
            kept_promises += sum(view.promised for view in ended)
            jobs, now_s = [view for view in older if view not in ended], next_s
            there = held_by(jobs, there, older)
    assert kept_promises > 75
