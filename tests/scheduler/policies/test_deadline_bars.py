"""While a job is overdue, `deadline_energy` promises nothing that it waits for, and all else as ever."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.simulate.engine import Engine, SimJob
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.types import Quota
from tests.scheduler.policies.test_deadline_energy import POLICY, options
from tests.scheduler.pools import carry_out, job, node, pool, way

DAY_S = 86_400.0
NOW_S = 2 * DAY_S
HOUR_S = 3_600.0


def started(jobs, view, quotas):
    """The same jobs, some of them running on what a first decision gave them."""
    runs = [one for one in jobs if one.job_id.startswith("runs")]
    decision = place(runs, view, NOW_S, quotas=quotas)
    running, _ = carry_out(decision, runs, view, NOW_S)
    return [*running, *(one for one in jobs if not one.job_id.startswith("runs"))]


def told(asked, jobs, view, quotas=None):
    return admit(asked, jobs, view, NOW_S, quotas=quotas or {})


def asks(option, project="new"):
    return job("asks", option, at=NOW_S, deadline_s=NOW_S + 25 * HOUR_S, project=project, can_pause=True)


def test_devices_that_the_overdue_job_cannot_use_are_promised():
    view = pool(node(cpus=1, gpus=2))
    runs = job("runs", way(run_s=20 * HOUR_S), at=0.0, deadline_s=NOW_S + 21 * HOUR_S, promised=True, can_pause=True)
    jobs = started([runs, job("overdue", way(run_s=HOUR_S), at=0.0)], view, {})
    assert told(asks(way(kind="cuda", run_s=HOUR_S)), jobs, view).accepted
    assert not told(asks(way(run_s=HOUR_S)), jobs, view).accepted
    dated = asks(way(kind="cuda", run_s=HOUR_S))
    assert place([*jobs, dated], view, NOW_S, policy=replace(POLICY, promise_at_once=True)).promised == {"asks"}


@pytest.mark.parametrize("hard", [True, False])
def test_a_wait_for_the_own_quota_keeps_promises_from_nobody_else(hard):
    view = pool(node(cpus=8))
    quotas = {"mine": Quota(devices={"cpu": 1}, hard=frozenset({"cpu"} if hard else ()))}
    runs = [
        job("runs1", way(run_s=30 * HOUR_S), at=0.0, project="mine", can_pause=True),
        job("runs2", way(6, run_s=50 * HOUR_S), at=NOW_S, can_pause=True),
    ]
    jobs = started([*runs, job("overdue", way(run_s=HOUR_S), at=0.0, project="mine")], view, quotas)
    assert told(asks(way(run_s=HOUR_S)), jobs, view, quotas).accepted
    assert not told(asks(way(run_s=HOUR_S), "mine"), jobs, view, quotas).accepted


@pytest.mark.parametrize("names", [("overdue1", "overdue2"), ("overdue2", "overdue1")])
def test_of_two_that_wait_for_the_same_devices_each_is_kept_what_it_lacks(names):
    view = pool(node(gpus=2, models={"cuda0": "A100", "cuda1": "T4"}))
    quotas = {"mine": Quota(devices={"cuda": 1})}
    runs = job("runs", way(kind="cuda", model="A100", run_s=20 * HOUR_S), deadline_s=NOW_S + 21 * HOUR_S, promised=True)
    a100 = way(kind="cuda", model="A100", run_s=HOUR_S)
    waiting = [
        job(name, a100, at=float(number), project="mine" if number else "other") for number, name in enumerate(names)
    ]
    holder = job("runs2", way(kind="cuda", model="T4", run_s=HOUR_S), project="mine", can_pause=True)
    jobs = started([runs, holder, *waiting], view, quotas)
    t4 = asks(way(kind="cuda", model="T4", run_s=HOUR_S), "mine")
    assert not told(t4, jobs, view, quotas).accepted
    assert told(replace(t4, project="third"), jobs, view, quotas).accepted


def test_memory_that_the_overdue_job_waits_for_is_promised_on_no_kind_of_device():
    view = pool(node(cpus=4, gpus=1, memory_gib=16))
    runs = job("runs", way(run_s=20 * HOUR_S, memory_gib=12), at=0.0, deadline_s=NOW_S + 21 * HOUR_S, promised=True)
    jobs = started([runs, job("overdue", way(run_s=HOUR_S, memory_gib=8), at=0.0)], view, {})
    assert not told(asks(way(kind="cuda", run_s=HOUR_S, memory_gib=2)), jobs, view).accepted


def test_a_promise_is_kept_where_the_overdue_job_cannot_run_if_that_is_in_time():
    view = pool(node(gpus=2, models={"cuda0": "A100", "cuda1": "T4"}))
    thrifty = replace(way(kind="cuda", model="A100", run_s=HOUR_S), power_w=50.0)
    other = replace(way(kind="cuda", model="T4", run_s=HOUR_S), power_w=70.0)
    overdue = job("overdue", way(kind="cuda", model="A100", run_s=40 * HOUR_S), at=0.0)
    promised = job("promised", thrifty, other, at=NOW_S, deadline_s=NOW_S + 2 * HOUR_S, promised=True)
    starts = {one.job_id: one.device_ids for one in place([overdue, promised], view, NOW_S).placements}
    assert starts == {"overdue": ("n1/cuda0",), "promised": ("n1/cuda1",)}
    alone = {one.job_id: one.device_ids for one in place([promised], view, NOW_S).placements}
    assert alone == {"promised": ("n1/cuda0",)}
    late = replace(promised, options=(thrifty, replace(other, rate_per_s=other.rate_per_s / 4)))
    starts = {one.job_id: one.device_ids for one in place([overdue, late], view, NOW_S).placements}
    assert starts == {"promised": ("n1/cuda0",)}, "a promise comes first"


def crowd(seed, count=60):
    """Deadlines that could be kept on either model, for as long as they come."""
    random = Random(seed)
    for number in range(count):
        run_s, at_s = random.uniform(200.0, 500.0), number * random.uniform(70.0, 110.0)
        ways = options(run_s, (1, 2))
        yield SimJob(
            job_id=f"d{number:03d}",
            submitted_s=at_s,
            options=(*ways, *(replace(one, model_name="T4", power_w=0.9 * one.power_w) for one in ways)),
            deadline_s=at_s + random.uniform(1.2, 4.0) * run_s,
        )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([600.0, 2_000.0]))
def test_promises_on_other_devices_hold_an_overdue_job_up_no_longer(seed, at_once, patience_s):
    policy = replace(POLICY, patience_s=patience_s, promise_at_once=at_once)
    mine = tuple(replace(one, model_name="T4") for one in options(500.0, (2,)))
    patient = SimJob(job_id="patient", submitted_s=10.0, options=mine)
    view = SimPool.parse("1x2:A100,1x2:T4")
    replay = Engine([*crowd(seed), patient], view, policy, Rules(slot_s=5.0, refuse_late=True)).run()
    overdue_s = 10.0 + patience_s
    before = [one for one in replay.outcomes if one.promised_s is not None and one.promised_s <= overdue_s]
    since = [one for one in replay.outcomes if one.promised_s is not None and one.promised_s > overdue_s]
    started_s = next(one.started_s for one in replay.outcomes if one.job.job_id == "patient")
    assert started_s <= max([overdue_s, *(one.job.deadline_s for one in before)]) + 10.0
    assert since, "others are promised meanwhile and afterwards"
