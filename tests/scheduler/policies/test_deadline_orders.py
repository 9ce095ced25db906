"""In what order promises are planned: none that was kept is crowded out by a job that is promised after it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit
from scheduler.place import place
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.deadline_orders import MOST_PLANNED, best_order
from scheduler.policies.ways import Rescale
from scheduler.simulate.engine import Engine, SimJob
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.types import JobView, Option
from tests.scheduler.pools import carry_out

FREE = Rescale(fixed_s=0.0, per_doubling_s=0.0)
AT_ONCE = DeadlineEnergy(rescale=FREE, promise_at_once=True)
SPEEDS = {"A": 1.0, "B": 0.45}
NOW_S = 20.0


def ways(run_s, widths, models=("A",)):
    """Options on devices of each model; an A takes `run_s` alone."""
    return tuple(
        Option(kind="cuda", model_name=model, count=w, rate_per_s=SPEEDS[model] * w**0.8 / run_s, power_w=300.0 * w)
        for model in models
        for w in widths
    )


def promised(name, run_s, deadline_s, width, at=0.0):
    option = Option(kind="cuda", model_name="A", count=width, rate_per_s=1 / run_s, power_w=300.0 * width)
    return JobView(job_id=name, options=(option,), submitted_s=at, deadline_s=deadline_s, promised=True, can_pause=True)


def test_a_promise_that_earliest_deadline_first_crowds_out_goes_first():
    """By deadlines `new` runs first, then `wide` on all devices until 400 s, and `long` would end at 700 s."""
    jobs = [promised("wide", 200.0, 605.0, 4), promised("long", 300.0, 606.0, 2)]
    new = promised("new", 200.0, 405.0, 2, at=1.0)
    pool = SimPool.parse("1x4:A").view
    assert admit(new, jobs, pool, 0.0, policy=AT_ONCE).accepted, "after `wide`, beside `long`"
    decision = place([*jobs, new], pool, 0.0, policy=AT_ONCE)
    assert not decision.warnings
    assert {start.job_id for start in decision.placements} == {"long", "new"}
    assert decision.expected["wide"] == pytest.approx((300.0, 500.0))


WAYS = st.builds(
    ways,
    st.sampled_from([100.0, 200.0, 400.0, 800.0]),
    st.sampled_from([(1,), (2,), (3,), (4,), (1, 2), (1, 2, 4)]),
    st.sampled_from([("A",), ("B",), ("A", "B")]),
)
WISHES = st.lists(st.tuples(st.integers(0, 99), WAYS, st.floats(0.3, 5.0), st.booleans()), min_size=4, max_size=12)
POOLS = st.sampled_from(["1x4:A,1x4:B", "1x4:A", "2x4:A", "1x6:A"])


@settings(max_examples=100, deadline=None)
@given(WISHES, POOLS, st.booleans(), st.booleans())
def test_while_every_promise_is_kept_a_job_that_is_accepted_takes_that_from_none(wishes, devices, spans, free):
    """By the decision right after it was accepted, whether or not others started in between."""
    policy = DeadlineEnergy(rescale=FREE) if free else DeadlineEnergy()
    pool, jobs = SimPool.parse(devices, spans_nodes=spans).view, []
    for number, (name, options, slack, starts) in enumerate(wishes):
        deadline_s = slack / options[0].rate_per_s + 100.0
        asked = JobView(
            job_id=f"j{name}-{number}", options=options, submitted_s=float(number), deadline_s=deadline_s,
            can_pause=True,
        )  # fmt: skip
        if not admit(asked, jobs, pool, NOW_S, policy=policy).accepted:
            continue
        jobs.append(replace(asked, promised=True))
        decision = place(jobs, pool, NOW_S, policy=policy)
        assert not decision.warnings
        if starts:
            jobs, pool = carry_out(decision, jobs, pool, NOW_S)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 19), WAYS, st.floats(0.3, 5.0), st.booleans(), st.booleans()), max_size=12),
       POOLS, st.booleans(), st.sampled_from([0.25, 1.0]))  # fmt: skip
def test_nor_does_who_is_promised_later_than_it_was_submitted(wishes, devices, spans, smallest):
    """By a decision, or by an admission that is asked again: such a job is not the newest by its submission."""
    policy = DeadlineEnergy(smallest=smallest)
    pool, jobs = SimPool.parse(devices, spans_nodes=spans).view, []
    for number, (submitted_s, options, slack, asks, starts) in enumerate(wishes):
        deadline_s = slack / options[0].rate_per_s + 100.0
        wish = JobView(
            job_id=f"j{number}", options=options, submitted_s=float(submitted_s), deadline_s=deadline_s, can_pause=True
        )
        accepted = asks and admit(wish, jobs, pool, NOW_S, policy=policy).accepted
        jobs.append(replace(wish, promised=accepted))
        decision = place(jobs, pool, NOW_S, policy=policy)
        assert not decision.warnings
        jobs = [replace(job, promised=job.promised or job.job_id in decision.promised) for job in jobs]
        if starts:
            jobs, pool = carry_out(decision, jobs, pool, NOW_S)


TRACE = st.lists(
    st.tuples(st.floats(0.0, 2_000.0), st.floats(50.0, 2_000.0), st.floats(0.3, 4.0), WAYS), min_size=6, max_size=20
)


@settings(max_examples=40, deadline=None)
@given(TRACE)
def test_on_unlike_devices_every_promise_is_kept_where_estimates_hold_and_changes_are_free(rows):
    jobs = [
        SimJob(
            job_id=f"j{index:02d}",
            submitted_s=submitted_s,
            options=tuple(replace(option, rate_per_s=option.rate_per_s * 400.0 / run_s) for option in options),
            deadline_s=submitted_s + slack * run_s + 60.0,
        )
        for index, (submitted_s, run_s, slack, options) in enumerate(rows)
    ]
    rules = Rules(slot_s=1.0, refuse_late=True)
    replay = Engine(jobs, SimPool.parse("1x4:A,1x4:B"), AT_ONCE, rules).run()
    assert all(outcome.in_time for outcome in replay.outcomes if outcome.promised_s is not None)


class Crowded:
    """A pass in which somebody is crowded out in whatever order."""

    crowded_out = frozenset({"j000"})


def test_the_promises_that_are_planned_again_are_bounded():
    jobs = [promised(f"j{number:03d}", 100.0, 200.0, 1, at=float(number)) for number in range(300)]
    tried = []

    def made(turns):
        tried.append(turns)
        return Crowded()

    found = Crowded()
    assert best_order(jobs, found, made) is found
    assert 1 < len(tried) * len(jobs) <= MOST_PLANNED
