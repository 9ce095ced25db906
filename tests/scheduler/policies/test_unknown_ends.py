"""Jobs without an estimate under `deadline_energy`: how long they run nobody knows, how long they wait is bounded."""

from __future__ import annotations

from dataclasses import replace

from scheduler.types import JobView, Option, Running
from tests.scheduler.policies.test_deadline_energy import POLICY, counts, planned, view

PATIENCE_S = 50.0
NOW_S = 100.0
PATIENT = replace(POLICY, patience_s=PATIENCE_S)


def unknown(name, width=1, *, submitted_s=0.0, on=(), can_pause=False):
    option = Option(kind="cuda", model_name="A100", count=width)
    devices = tuple(f"p0n00000d{number}" for number in on)
    running = Running(option=option, nodes=("p0n00000",), device_ids=devices, started_s=90.0, last_change_s=90.0)
    return JobView(
        job_id=name, options=(option,), submitted_s=submitted_s, can_pause=can_pause, running=running if on else None
    )


def plan_of(*jobs, pool="1x2", now_s=NOW_S):
    return planned(list(jobs), PATIENT, pool=pool, now_s=now_s)


def test_nobody_who_came_later_and_may_run_for_ever_begins_where_an_overdue_job_waits():
    held, wide = unknown("held", submitted_s=80.0, on=(0,)), unknown("wide", 2)
    assert counts(plan_of(held, wide, unknown("later", submitted_s=99.0))) == {"held": 1}
    assert counts(plan_of(held, wide, view("brief", 40.0, widths=(1,), submitted_s=99.0))) == {"held": 1, "brief": 1}
    assert counts(plan_of(held, wide, view("long", 60.0, widths=(1,), submitted_s=99.0))) == {"held": 1}


def test_before_it_is_overdue_and_elsewhere_they_begin():
    held, later = unknown("held", submitted_s=80.0, on=(0,)), unknown("later", submitted_s=99.0)
    assert counts(plan_of(held, unknown("wide", 2, submitted_s=NOW_S - 1.0), later)) == {"held": 1, "later": 1}
    elsewhere = planned([held, unknown("wide", 2), later], PATIENT, pool="1x2,1x1", now_s=NOW_S, spans=False)
    assert counts(elsewhere) == {"held": 1, "later": 1}


def test_it_starts_although_such_jobs_keep_coming():
    """Each of them runs for three decisions, which nobody knows."""
    jobs, began_s, now_s = [unknown("first", on=(0,)), unknown("wide", 2)], {"first": -10.0}, 0.0
    while "wide" not in began_s:
        now_s += 10.0
        jobs = [job for job in jobs if now_s - began_s.get(job.job_id, now_s) < 30.0]
        jobs.append(unknown(f"j{now_s:05.0f}", submitted_s=now_s))
        for job_id in set(counts(plan_of(*jobs, now_s=now_s))) - began_s.keys():
            began_s[job_id] = now_s
        taken = [0, 0]
        jobs = [_on(job, taken) if job.job_id in began_s else job for job in jobs]
        assert now_s <= PATIENCE_S + 40.0
    assert began_s["wide"] >= PATIENCE_S


def _on(job, taken):
    """The job as it runs on the device that the fewest have."""
    device = taken.index(min(taken))
    taken[device] += 1
    return unknown(job.job_id, submitted_s=job.submitted_s, on=(device,)) if job.job_id != "wide" else job


def test_it_is_planned_before_whoever_came_later():
    dated = view("dated", 200.0, 400.0, widths=(1,), promised=True)
    plan = plan_of(dated, unknown("first"), view("long", 500.0, widths=(1,), submitted_s=1.0), pool="1x1", now_s=10.0)
    assert counts(plan) == {"dated": 1} and plan.expected["dated"][0] == 10.0
    assert "first" not in plan.expected and "long" not in plan.expected
