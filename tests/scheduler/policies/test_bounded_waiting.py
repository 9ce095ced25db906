"""Nobody starves: the bounds of `scheduler.policies.queueing` and `deadline_energy`, against jobs that go before."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies.edf import Edf
from scheduler.policies.fair_share import FairShare
from scheduler.policies.fifo import Fifo
from scheduler.simulate.engine import Engine, SimJob
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.types import Quota
from tests.scheduler.policies.test_deadline_energy import POLICY, options
from tests.scheduler.pools import carry_out, held_by, job, node, pool, way

PATIENCE_S = 60.0
TICK_S = 5.0
LONGEST_S = 40.0
POLICIES = (Fifo(patience_s=PATIENCE_S), FairShare(patience_s=PATIENCE_S), Edf(patience_s=PATIENCE_S))


class World:
    """Ticks of `TICK_S`: jobs arrive, run for at most the upper end of their estimate, and leave."""

    def __init__(self, random, policy, quotas, nodes, spans):
        self.random, self.policy, self.quotas = random, policy, quotas
        self.idle = pool(*(node(f"n{at}", cpus=cpus) for at, cpus in enumerate(nodes)), spans=spans)
        self.widest = sum(nodes) if spans else max(nodes)
        self.now_s = 0.0
        self.jobs = []
        self.started_s = {}
        self.number = 0

    def arrive(self, count, run_s, **more):
        self.number += 1
        name = f"j{self.number:04}"
        self.jobs.append(job(name, way(count, run_s=run_s), at=self.now_s, **more))
        return name

    def tick(self):
        self.jobs = [self._advanced(job_) for job_ in self.jobs]
        self.jobs = [job_ for job_ in self.jobs if job_.work_left > 0]
        before = held_by(self.jobs, self.idle)
        decision = place(self.jobs, before, self.now_s, policy=self.policy, quotas=self.quotas)
        self.jobs, _ = carry_out(decision, self.jobs, before, self.now_s)
        for start in decision.placements:
            self.started_s.setdefault(start.job_id, self.now_s)
        self.now_s += TICK_S

    def _advanced(self, job_):
        if job_.running is None or job_.running.last_change_s == self.now_s:
            return job_
        # Between the middle and the upper end of the estimate.
        pace = self.random.uniform(1 / job_.slowdown, 1.0)
        left = job_.work_left - pace * TICK_S * job_.running.option.rate_per_s
        return replace(job_, work_left=0.0 if left < 1e-9 else left)


def bound_s(world, name):
    """Waiting that the docstring allows, from the moment the job is overdue. Call it at that moment."""
    me = next(job_ for job_ in world.jobs if job_.job_id == name)
    before = [job_ for job_ in world.jobs if job_.submitted_s <= me.submitted_s and job_ is not me]
    running = [job_.left_high_s(job_.running.option) for job_ in world.jobs if job_.running]
    ahead = sum(job_.left_high_s(job_.options[0]) for job_ in before)
    return max(running, default=0.0) + ahead + (len(before) + 2) * TICK_S


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(POLICIES),
    st.booleans(),
    st.booleans(),
)
def test_a_wide_job_of_low_priority_starts_within_the_bound(seed, policy, spans, with_quota):
    random = Random(seed)
    nodes = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    world = World(random, policy, {}, nodes, spans)
    width = random.randint(max(1, world.widest - 1), world.widest)
    if with_quota:
        world.quotas = {"me": Quota(devices={"cpu": width}), "foe": Quota(devices={"cpu": 1})}
    for _ in range(random.randint(0, 4)):
        world.arrive(random.randint(1, width), random.uniform(5, LONGEST_S), project="foe", can_pause=True)
    mine = world.arrive(width, 20.0, priority=-5, project="me")
    allowed_s = None
    while mine not in world.started_s:
        for _ in range(random.randint(0, 3)):
            world.arrive(
                random.randint(1, world.widest),
                random.uniform(5, LONGEST_S),
                priority=random.choice([0, 5, 9]),
                project=random.choice(["foe", "other", "me"]),
                can_pause=random.random() < 0.5,
                slowdown=random.choice([1.0, 1.5]),
                deadline_s=random.choice([None, world.now_s + random.uniform(10, 3 * LONGEST_S)]),
            )
        if allowed_s is None and world.now_s >= PATIENCE_S:
            allowed_s = world.now_s + bound_s(world, mine)
        world.tick()
        assert allowed_s is None or world.now_s <= allowed_s + TICK_S
    assert world.started_s[mine] >= 0


def test_without_patience_the_same_arrivals_would_starve_it():
    """What the bound guards against: so the test above can fail."""
    world = World(Random(1), Fifo(patience_s=1e9), {}, [2], False)
    mine = world.arrive(2, 20.0, priority=-5)
    for _ in range(100):
        world.arrive(1, 10.0, priority=5)
        world.tick()
    assert mine not in world.started_s


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_is_not_paused_again_and_again(policy):
    world = World(Random(2), policy, {}, [2], False)
    mine = world.arrive(2, 200.0, can_pause=True)
    world.tick()
    pauses, ran = 0, True
    for _ in range(100):
        world.arrive(1, 10.0, priority=5, project="foe")
        world.tick()
        me = next((job_ for job_ in world.jobs if job_.job_id == mine), None)
        if me is None:
            break
        pauses, ran = pauses + (ran and me.running is None), me.running is not None
    assert me is None and pauses <= 2


def dated_crowd(seed, jobs=60):
    """Deadlines that keep a pool of four busy for as long as they come: what a patient job has to wait behind."""
    random = Random(seed)
    for index in range(jobs):
        run_s, at_s = random.uniform(200.0, 500.0), index * random.uniform(70.0, 110.0)
        yield SimJob(
            job_id=f"d{index:03d}",
            submitted_s=at_s,
            options=options(run_s, (1, 2, 4)),
            deadline_s=at_s + random.uniform(1.2, 3.0) * run_s,
            priority=random.choice([0, 0, 5]),
        )


def patient_start_s(crowd, policy, width, deadline_s=None):
    """(when the job started, until when what was promised before it was overdue may hold it up).

    With a deadline it is overdue at the earliest when that can no longer be kept.
    """
    ways, rules = options(500.0, (width,)), Rules(slot_s=TICK_S, refuse_late=deadline_s is None)
    patient = SimJob(job_id="patient", submitted_s=10.0, options=ways, priority=-5, deadline_s=deadline_s)
    replay = Engine([*crowd, patient], SimPool.parse("1x4"), policy, rules).run()
    overdue_s = max(patient.submitted_s + policy.patience_s, deadline_s - ways[0].run_s if deadline_s else 0.0)
    before = [one for one in replay.outcomes if one.promised_s is not None and one.promised_s <= overdue_s]
    started_s = next(one.started_s for one in replay.outcomes if one.job.job_id == "patient")
    return started_s, max([overdue_s, *(one.job.deadline_s for one in before)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.integers(2, 4), st.sampled_from([600.0, 2_000.0]))
def test_promises_hold_a_patient_job_up_no_longer_than_those_given_before_it_was_overdue(
    seed, at_once, width, patience_s
):
    policy = replace(POLICY, patience_s=patience_s, promise_at_once=at_once)
    started_s, bound_s = patient_start_s(list(dated_crowd(seed)), policy, width)
    assert started_s is not None and started_s <= bound_s + 2 * TICK_S


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 4), st.sampled_from([1_500.0, 3_000.0]))
def test_nor_one_whose_deadline_was_not_promised_once_that_is_lost(seed, width, deadline_s):
    policy = replace(POLICY, patience_s=600.0)
    started_s, bound_s = patient_start_s(list(dated_crowd(seed)), policy, width, deadline_s)
    assert started_s is not None and started_s <= bound_s + 2 * TICK_S


def test_without_patience_the_same_deadlines_would_hold_it_up_to_their_end():
    """So the property above can fail."""
    crowd = list(dated_crowd(1))
    started_s, _ = patient_start_s(crowd, replace(POLICY, patience_s=1e9), 4)
    patient_s, bound_s = patient_start_s(crowd, replace(POLICY, patience_s=600.0), 4)
    assert patient_s <= bound_s + 2 * TICK_S < started_s
