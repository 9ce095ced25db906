"""`deadline_energy`: promises are kept, nothing is given out twice, little energy is used, nobody starves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.placing.capacity import shown
from scheduler.policies import names, policy_of
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.ways import Rescale, Ways, gain
from scheduler.simulate.engine import Engine, SimJob
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.types import JobView, Option, Quota, Running, WaitCode
from tests.scheduler.pools import hard_quota

FREE = Rescale(fixed_s=0.0, per_doubling_s=0.0)
POLICY = DeadlineEnergy(rescale=FREE)


def options(run_s, widths=(1, 2, 4), power=0.8):
    return tuple(
        Option(kind="cuda", model_name="A100", count=w, rate_per_s=w**power / run_s, power_w=400.0 * w) for w in widths
    )


def view(name, run_s=1000.0, deadline_s=None, *, widths=(1, 2, 4), power=0.8, **fields):
    fields = {"can_pause": True, "submitted_s": 0.0} | fields
    return JobView(job_id=name, options=options(run_s, widths, power), deadline_s=deadline_s, **fields)


def planned(jobs, policy=POLICY, *, pool="1x4", now_s=0.0, quotas=None, spans=True):
    seen = shown(jobs, SimPool.parse(pool, spans_nodes=spans).view, now_s, quotas or {})
    return policy.plan(seen.jobs, seen.capacity, now_s, quotas or {})


def counts(plan):
    return {job_id: option.count for job_id, option in plan.allotments.items()}


def test_it_is_known_by_name_with_and_without_energy():
    assert {"deadline_energy", "deadline", "edf_widest"} <= set(names())
    assert policy_of("deadline").least_gain == 0.0


def kept(options_):
    """What the policy looks at of these options."""
    return Ways(JobView(job_id="a", options=options_, submitted_s=0.0), FREE).options


def test_ways_that_cost_more_and_are_no_faster_are_dropped():
    slow_and_wide = Option(kind="cuda", model_name="A100", count=8, rate_per_s=0.001, power_w=3200.0)
    assert slow_and_wide not in kept((*options(1000.0), slow_and_wide))


@pytest.mark.parametrize(
    "change", [{"model_name": "T4"}, {"count": 1}, {"memory_bytes": 0}, {"parts": (("A100", 1), ("T4", 1))}]
)
def test_a_way_is_not_dropped_for_one_that_needs_other_devices_or_more_of_anything(change):
    better = Option(kind="cuda", model_name="A100", count=2, rate_per_s=0.01, power_w=400.0, memory_bytes=2**30)
    worse = replace(better, rate_per_s=0.001)
    assert kept((better, worse)) == (better,)
    assert kept((better, replace(worse, **change))) == (better, replace(worse, **change))


def test_a_way_without_a_range_of_its_own_is_not_dropped_for_one_that_has_none_either_way():
    told = Option(kind="cuda", model_name="A100", count=1, rate_per_s=0.0009, power_w=400.0, slowdown=1.01)
    untold = replace(told, rate_per_s=0.001, slowdown=0.0)
    assert set(kept((told, untold))) == {told, untold}, "the job's own range may be wide"


def test_a_way_whose_upper_end_is_early_is_kept_though_its_middle_is_beaten():
    sure = Option(kind="cuda", count=1, rate_per_s=1 / 1000, power_w=400.0, slowdown=1.05)
    wide_range = Option(kind="cuda", count=1, mode="other", rate_per_s=1 / 950, power_w=400.0, slowdown=1.4)
    assert kept((sure, wide_range)) == (wide_range, sure)
    job = JobView(job_id="a", options=(sure, wide_range), submitted_s=0.0, slowdown=1.4)
    ways = Ways(job, FREE)
    assert ways.seconds == pytest.approx([1330.0, 1050.0])
    assert ways.least_s == pytest.approx(950.0)
    order = [option for option, _ in ways.by_energy(0.0)]
    assert order == [wide_range, sure], "energies are compared by their middles"


def test_the_overhead_of_a_change_is_in_the_account():
    job = view("a", 1000.0)
    running = Running(option=job.options[1], nodes=(), device_ids=(), started_s=0.0, last_change_s=0.0)
    ways = Ways(replace(job, running=running), Rescale(fixed_s=50.0, per_doubling_s=10.0))
    assert ways.run_s(job.options[1]) == pytest.approx(job.left_s(job.options[1]))
    assert ways.run_s(job.options[0]) == pytest.approx(1000.0 + 60.0)


def test_marginal_efficiency_is_one_where_speed_grows_like_power():
    narrow, wide, _ = options(100.0, power=1.0)
    assert gain(narrow, wide) == pytest.approx(1.0)
    assert gain(wide, replace(wide, power_w=2 * wide.power_w)) == pytest.approx(0.0)


@pytest.mark.parametrize(("work_left", "count"), [(0.9, 1), (0.03, 2)])
def test_a_run_is_not_made_thriftier_when_it_is_nearly_done(work_left, count):
    """The change would save hardly anything, and one that takes longer than usual would cost the deadline."""
    job = view("a", 1000.0, 5000.0, power=0.5, promised=True)
    held = Running(
        option=job.options[1],
        nodes=("p0n00000",),
        device_ids=("p0n00000d0", "p0n00000d1"),
        started_s=0.0,
        last_change_s=0.0,
    )
    policy = DeadlineEnergy(rescale=Rescale(fixed_s=5.0, per_doubling_s=2.0))
    assert counts(planned([replace(job, running=held, work_left=work_left)], policy)) == {"a": count}


def test_a_deadline_without_room_for_doubt_starts_where_it_ends_soonest_the_start_included():
    """With four devices it runs 4 s shorter than with two and starts 10 s longer."""
    two, four = (
        Option(kind="cuda", model_name="A100", count=count, rate_per_s=1 / run_s, power_w=400.0 * count)
        for count, run_s in ((2, 424.0), (4, 420.0))
    )
    job = JobView(job_id="a", options=(two, four), deadline_s=441.0, submitted_s=0.0, slowdown=1.1, can_pause=True)
    policy = DeadlineEnergy(rescale=Rescale(fixed_s=0.0, per_doubling_s=5.0))
    assert counts(planned([job], policy)) == {"a": 2}


def test_a_deadline_takes_idle_devices_that_keep_it_though_busy_ones_are_better_in_every_way():
    """What the better devices hold ends after the deadline."""
    holder = replace(
        view("holder", 36_000.0, widths=(1,), can_pause=False),
        running=Running(
            option=options(36_000.0, (1,))[0], nodes=("p0n00000",), device_ids=("p0n00000d0",), started_s=0.0,
            last_change_s=0.0,
        ),
    )  # fmt: skip
    idle = Option(kind="cuda", model_name="T4", count=1, rate_per_s=1 / 3600.0, power_w=400.0)
    for deadline_s, promised in ((7200.0, {"a"}), (2000.0, set())):
        dated = view("a", 600.0, deadline_s, widths=(1,))
        plan = planned([holder, replace(dated, options=(*dated.options, idle))], pool="1x1:A100,1x1:T4")
        assert (plan.allotments["a"], set(plan.promised)) == (idle, promised), "luck may keep the earlier one, later on"


def test_a_deadline_that_does_not_fit_takes_of_each_kind_no_more_than_it_needs():
    narrow, wide = options(1000.0, (2, 4), power=0.9)
    slow = [replace(option, model_name="T4", rate_per_s=option.rate_per_s / 4) for option in (narrow, wide)]
    job = JobView(job_id="a", options=(narrow, wide, *slow), submitted_s=0.0)
    assert Ways(job, FREE).by_end(600.0) == [narrow, slow[1], slow[0]]


def test_a_deadline_gets_the_narrowest_width_that_keeps_it():
    assert counts(planned([view("a", 1000.0, 1200.0, power=0.5)])) == {"a": 1}
    assert counts(planned([view("a", 1000.0, 800.0, power=0.5)])) == {"a": 2}


def test_a_promise_is_planned_before_a_smaller_job_that_is_not_promised():
    promised = view("big", 1000.0, 1000.0, widths=(4,), power=0.0, promised=True)
    small = view("small", 100.0, 150.0, widths=(1,))
    plan = planned([small, promised])
    assert counts(plan) == {"big": 4}
    assert "small" not in plan.promised


def test_of_deadlines_that_are_not_promised_the_smaller_goes_first():
    big, small = view("big", 1000.0, 1000.0, widths=(4,), power=0.0), view("small", 100.0, 150.0, widths=(1,))
    plan = planned([big, small])
    assert counts(plan) == {"small": 1}
    assert plan.promised == {"small"}


def test_promising_at_once_promises_all_that_fits():
    jobs = [view(f"j{number}", 900.0, 1000.0, widths=(1,)) for number in range(5)]
    plan = planned(jobs, replace(POLICY, promise_at_once=True))
    assert len(plan.promised) == 4


def begun(job, at_s, now_s=100.0):
    """The job as it runs since `at_s`."""
    running = Running(
        option=job.options[0], nodes=(), device_ids=("n1/cuda0",), started_s=at_s, last_change_s=at_s, leaving=False
    )
    return replace(job, running=running)


RESTARTS = DeadlineEnergy(rescale=Rescale(fixed_s=5.0, per_doubling_s=0.0))
"""A start costs 5 s: who begins stays for 100 s."""


@pytest.mark.parametrize(
    ("since_s", "deadline_s", "starts"),
    [
        (90.0, 5000.0, "small"),  # it has just begun, and the promise has slack
        (-10.0, 5000.0, "promised"),  # it ran for a while
        (90.0, 1150.0, "promised"),  # the promise has none
    ],
)
def test_a_promise_with_slack_lets_a_job_that_has_just_begun_go_on_for_a_while(since_s, deadline_s, starts):
    small = begun(view("small", 800.0, widths=(1,)), since_s)
    promised = view("promised", 1000.0, deadline_s, widths=(1,), promised=True)
    plan = planned([small, promised], RESTARTS, pool="1x1", now_s=100.0)
    assert counts(plan) == {starts: 1}
    assert not plan.warnings
    if starts == "small":
        assert plan.expected["promised"][0] == pytest.approx(190.0)
        # It is paused at 190 s, and goes on once the promise is kept: 1,000 s and a start later.
        assert plan.expected["small"] == pytest.approx((90.0, 190.0 + 1_005.0 + 710.0))
        assert plan.waits["promised"].code is WaitCode.DEVICES_BUSY and "just begun" in plan.waits["promised"].text


def test_nobody_is_paused_for_a_later_slot_that_a_new_start_would_not_fit():
    """Else it starts again on what is free, and is paused again, for ever."""
    policy = replace(RESTARTS, patience_s=50.0)
    fixed = begun(view("fixed", 2.0, widths=(1,), can_pause=False), 0.0)
    overdue = view("overdue", 20.0 * 2**0.8, widths=(2,), submitted_s=0.0)  # from 102 s to 127 s
    dated = view("dated", 8.0, 137.0, widths=(1,), submitted_s=90.0)
    assert "dated" not in counts(planned([fixed, overdue, dated], policy, pool="1x2", now_s=100.0)), "for 2 s alone"
    assert "dated" in counts(planned([fixed, overdue, begun(dated, 100.0)], policy, pool="1x2", now_s=100.0))


def test_a_running_job_that_is_paused_for_a_later_slot_is_planned_with_its_new_start():
    promised = view("promised", 20.0, 125.0, widths=(1,), promised=True)
    later = begun(view("later", 50.0, 195.0, widths=(1,), promised=True), 0.0)
    plan = planned([promised, later], RESTARTS, pool="1x1", now_s=100.0)
    assert counts(plan) == {"promised": 1}
    assert set(plan.warnings) == set()
    tight = planned([promised, replace(later, deadline_s=177.0)], RESTARTS, pool="1x1", now_s=100.0)
    assert set(tight.warnings) == {"later"}


def test_who_has_just_begun_goes_for_a_job_of_higher_priority():
    small = begun(view("small", 800.0, widths=(1,)), 90.0)
    promised = view("promised", 1000.0, 5000.0, widths=(1,), promised=True)
    urgent = view("urgent", 500.0, widths=(1,), priority=5)
    plan = planned([small, promised, urgent], RESTARTS, pool="1x1", now_s=100.0)
    assert "small" not in counts(plan)


def test_a_promise_that_is_late_gets_the_most_devices_that_help_and_warns():
    plan = planned([view("a", 1000.0, 200.0, promised=True)])
    assert counts(plan) == {"a": 4}
    assert "soonest" in plan.warnings["a"]


def test_a_lost_deadline_waits_like_a_job_without_one_and_says_so():
    jobs = [view("first", 5000.0, widths=(4,), submitted_s=0.0), view("lost", 1000.0, 10.0, submitted_s=5.0)]
    plan = planned(jobs, now_s=20.0)
    assert counts(plan) == {"first": 4}
    assert plan.waits["lost"].code is WaitCode.BEHIND
    assert "later deadline" in plan.waits["lost"].remedy


def test_jobs_without_a_deadline_fill_what_deadlines_leave():
    plan = planned([view("dated", 1000.0, 1100.0, widths=(2,), power=0.0), view("free", 1000.0, widths=(2, 4))])
    assert counts(plan) == {"dated": 2, "free": 2}


def test_an_overdue_job_goes_before_deadlines_that_are_not_promised():
    patient = view("patient", 1000.0, widths=(4,), submitted_s=-10_000.0)
    fresh = view("fresh", 100.0, 150.0, widths=(1,))
    assert counts(planned([patient, fresh])) == {"fresh": 1}
    assert counts(planned([patient, fresh], replace(POLICY, patience_s=5_000.0))) == {"patient": 4}


def test_a_job_that_cannot_be_paused_keeps_its_devices():
    running = Running(
        option=options(1000.0)[2],
        nodes=("p0n00000",),
        device_ids=tuple(f"p0n00000d{index}" for index in range(4)),
        started_s=0.0,
        last_change_s=0.0,
    )
    stays = view("stays", 1000.0, running=running, can_pause=False)
    plan = planned([stays, view("urgent", 100.0, 120.0, promised=True)], now_s=1.0)
    assert counts(plan) == {"stays": 4}


def test_a_project_stays_in_its_quota_but_borrows_what_is_free():
    jobs = [view("a", 1000.0, widths=(1,), project="p"), view("b", 1000.0, widths=(1,), project="p")]
    strict = {"p": hard_quota({"cuda": 1})}
    lent = {"p": Quota(devices={"cuda": 1})}
    assert counts(planned(jobs, quotas=strict)) == {"a": 1}
    assert counts(planned(jobs, quotas=lent)) == {"a": 1, "b": 1}
    owner = view("owner", 1000.0, widths=(4,), submitted_s=-1.0)
    assert "b" not in counts(planned([*jobs, owner], quotas=lent))


JOBS = st.lists(
    st.tuples(
        st.floats(50, 5_000),
        st.one_of(st.none(), st.floats(10, 20_000)),
        st.booleans(),
        st.sampled_from([(1,), (2,), (1, 2, 4), (4,), (1, 2, 4, 8)]),
        st.integers(0, 2),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(
    JOBS,
    st.sampled_from(["1x8", "2x4", "4x2"]),
    st.booleans(),
    st.sampled_from(["deadline_energy", "deadline", "edf_widest"]),
)
def test_no_device_is_given_out_twice_and_everybody_is_accounted_for(rows, spec, spans, policy):
    pool = SimPool.parse(spec, spans_nodes=spans)
    jobs = [
        view(f"j{index}", run_s, deadline_s, promised=promised and deadline_s is not None, widths=widths, priority=rank)
        for index, (run_s, deadline_s, promised, widths, rank) in enumerate(rows)
    ]
    decision = place(jobs, pool.view, 0.0, policy=policy)
    given_out = [device for placement in decision.placements for device in placement.device_ids]
    assert len(given_out) == len(set(given_out)) <= 8
    assert {placement.job_id for placement in decision.placements} | set(decision.waits) == {job.job_id for job in jobs}
    assert all(len(placement.device_ids) == placement.option.count for placement in decision.placements)
    assert decision.promised <= {job.job_id for job in jobs if job.deadline_s is not None and not job.promised}


TRACE = st.lists(
    st.tuples(st.floats(0, 3_000), st.floats(50, 2_000), st.floats(0.3, 4.0), st.sampled_from([(1,), (2,), (1, 2, 4)])),
    min_size=1,
    max_size=14,
)


@settings(max_examples=25, deadline=None)
@given(TRACE, st.booleans())
def test_an_accepted_promise_is_never_dropped_to_gain_another_job(rows, at_once):
    """Without overheads estimates hold, so every promise that was ever given must be kept, whoever comes later."""
    jobs = [
        SimJob(
            job_id=f"j{index:02d}",
            submitted_s=submitted_s,
            options=options(run_s, widths),
            deadline_s=submitted_s + slack * run_s + 60.0,
        )
        for index, (submitted_s, run_s, slack, widths) in enumerate(rows)
    ]
    policy = replace(POLICY, promise_at_once=at_once)
    replay = Engine(jobs, SimPool.parse("1x4"), policy, Rules(slot_s=1.0, refuse_late=True)).run()
    broken = [
        outcome.job.job_id for outcome in replay.outcomes if outcome.promised_s is not None and not outcome.in_time
    ]
    assert broken == []
