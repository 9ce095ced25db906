"""`admit`: yes or no, the earliest finish that can be kept, and what would have to change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admit import admit, promisable
from scheduler.offers.words import LARGER_QUOTA, NO_LATER, NOT_OF_BORROWED
from scheduler.place import place
from scheduler.policies import names
from scheduler.policies.edf import Edf
from scheduler.simulate.pool import SimPool
from scheduler.types import JobView, Option, PoolView, Quota
from worker.words import duration_words

POOL = SimPool.parse("2x4", spans_nodes=False).view


def job(name, run_s=3600.0, deadline_s=None, widths=(1, 2, 4), **fields):
    options = tuple(
        Option(kind="cuda", count=w, rate_per_s=w**0.9 / run_s if run_s else 0.0, power_w=400.0 * w) for w in widths
    )
    return JobView(
        job_id=name, options=options, submitted_s=fields.pop("submitted_s", 0.0), deadline_s=deadline_s, **fields
    )


@pytest.mark.parametrize("policy", names())
def test_a_deadline_that_an_idle_pool_keeps_is_accepted(policy):
    found = admit(job("a", deadline_s=8_000.0), [], POOL, 0.0, policy=policy)
    assert found.accepted and found.finish_s is not None and found.finish_s <= 8_000.0


def test_a_deadline_that_no_width_keeps_is_refused_with_the_earliest_one_that_can_be_kept():
    found = admit(job("a", deadline_s=500.0), [], POOL, 0.0)
    assert not found.accepted and found.earliest_finish_s is not None
    assert "even if they were all free" in found.text
    assert any("fewer epochs" in help_ for help_ in found.changes_that_would_help)
    again = admit(job("a", deadline_s=found.earliest_finish_s), [], POOL, 0.0)
    assert again.accepted, "the earliest finish it named can be kept"


@pytest.mark.parametrize("deadline_s", [20.0, 500.0])
def test_the_deadline_that_a_refusal_advises_is_the_moment_it_tells(deadline_s):
    found = admit(job("a", run_s=deadline_s * 4, deadline_s=deadline_s, widths=(1,)), [], POOL, 7.0)
    told_s = found.earliest_told_s
    assert told_s is not None and told_s >= found.earliest_finish_s + 30.0
    words = duration_words(told_s - 7.0, up=deadline_s > 100.0)
    assert f"Set a deadline {words} from now, or later." in found.changes_that_would_help


@pytest.mark.parametrize("policy", ["deadline_energy", "fifo"])
def test_a_refusal_tells_the_chance_that_it_is_on_time_without_a_promise(policy):
    # 4 devices take 1,034 s by the middle, 1,551 s by the upper end
    found = admit(job("a", deadline_s=1_034.0, widths=(4,), slowdown=1.5), [], POOL, 0.0, policy=policy)
    assert not found.accepted and found.chance == pytest.approx(0.5, abs=0.01)
    assert any("without a promise" in help_ and "50 %" in help_ for help_ in found.changes_that_would_help)


def test_a_share_of_the_work_that_is_none_is_no_advice():
    found = admit(job("a", deadline_s=5.0), [], POOL, 0.0)
    assert not any("epochs" in help_ for help_ in found.changes_that_would_help)


def test_promises_of_others_stand():
    others = [job(f"p{number}", deadline_s=3_700.0, widths=(1,), promised=True) for number in range(8)]
    refused = admit(job("a", deadline_s=3_000.0), others, POOL, 1.0)
    later = admit(job("a", deadline_s=refused.earliest_finish_s), others, POOL, 1.0)
    assert not refused.accepted and "promised to other jobs" in refused.text
    assert later.accepted


def test_jobs_without_a_promise_do_not_stand_in_the_way():
    others = [job(f"p{number}", widths=(1,)) for number in range(8)]
    assert admit(job("a", deadline_s=4_000.0), others, POOL, 1.0).accepted


def test_fifo_refuses_what_would_come_too_late():
    others = [job(f"p{number}", widths=(4,)) for number in range(6)]
    found = admit(job("a", deadline_s=2_000.0, submitted_s=5.0), others, POOL, 5.0, policy="fifo")
    assert not found.accepted and found.earliest_finish_s is not None and found.earliest_finish_s > 2_000.0


def test_a_promise_is_not_weakened_though_its_middle_would_still_be_in_time():
    """The upper end of the promised job is 250 s; behind the other one it would be 350 s."""
    one = SimPool.parse("1x1", spans_nodes=False).view
    promised = job("p", 125.0, 260.0, widths=(1,), slowdown=2.0, promised=True)
    urgent = job("a", 50.0, 200.0, widths=(1,), slowdown=2.0)
    assert not admit(urgent, [promised], one, 0.0, policy="edf").accepted
    assert admit(urgent, [replace(promised, deadline_s=351.0)], one, 0.0, policy="edf").accepted


def test_a_promise_that_may_be_late_anyway_is_not_made_later():
    one = SimPool.parse("1x1", spans_nodes=False).view
    promised = job("p", 125.0, 240.0, widths=(1,), slowdown=2.0, promised=True)
    urgent = job("a", 50.0, 200.0, widths=(1,))
    assert not admit(urgent, [promised], one, 0.0, policy="edf").accepted
    assert admit(replace(urgent, deadline_s=500.0), [promised], one, 0.0, policy="edf").accepted


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (job("a", deadline_s=-5.0), "has passed"),
        (job("a", run_s=0.0, deadline_s=100.0), "There is no estimate"),
        (job("a", deadline_s=9_000.0, widths=(16,)), "No available node"),
    ],
)
def test_what_cannot_be_promised_is_said_in_words(asked, words):
    found = admit(asked, [], POOL, 0.0)
    assert not found.accepted and words in found.text


@pytest.mark.parametrize("policy", names())
def test_without_an_estimate_for_devices_that_are_there_nothing_is_promised(policy):
    known, unknown = (
        Option(kind="cuda", model_name=model, count=1, rate_per_s=rate_per_s, power_w=400.0)
        for model, rate_per_s in (("H100", 1 / 600), ("A100", 0.0))
    )
    asked = JobView(job_id="a", options=(known, unknown), submitted_s=0.0, deadline_s=9_000.0)
    found = admit(asked, [], SimPool.parse("1x1:A100").view, 0.0, policy=policy)
    assert not found.accepted and found.earliest_finish_s is None
    assert "no estimate of how long it takes on the devices that can run it" in found.text


def test_a_quota_that_stands_in_the_way_is_named():
    quotas = {"p": Quota(devices={"cuda": 1})}
    found = admit(job("a", deadline_s=1_500.0, project="p"), [], POOL, 0.0, quotas=quotas)
    assert not found.accepted
    assert any("quota" in help_ for help_ in found.changes_that_would_help)


def test_what_is_only_lent_is_told_to_be_no_base_for_a_promise():
    quotas = {"p": Quota(devices={"cuda": 1})}
    wide = job("a", deadline_s=100_000.0, widths=(2,), project="p")
    found = admit(wide, [], POOL, 0.0, quotas=quotas)
    assert not found.accepted and found.text == NOT_OF_BORROWED
    assert LARGER_QUOTA in found.changes_that_would_help
    assert not any("Ask again later" in help_ for help_ in found.changes_that_would_help)
    within = replace(quotas["p"], devices={"cuda": 2})
    assert admit(wide, [], POOL, 0.0, quotas={"p": within}).accepted


def test_without_a_node_that_takes_work_the_answer_says_how_one_joins():
    found = admit(job("a", deadline_s=8_000.0), [], PoolView(), 0.0)
    assert not found.accepted and found.text == "No node takes work."
    assert "dlh node join" in found.changes_that_would_help[0]
    larger = admit(job("a", deadline_s=8_000.0, widths=(64,)), [], POOL, 0.0)
    assert "wait for a larger node" in larger.changes_that_would_help[0]


def test_a_deadline_is_promised_on_idle_devices_though_busy_ones_would_be_better():
    pool = SimPool.parse("1x1:A100,1x1:T4").view
    fast, slow = (
        Option(kind="cuda", model_name=name, count=1, rate_per_s=1 / run_s, power_w=200.0)
        for name, run_s in (("A100", 600.0), ("T4", 3600.0))
    )
    other = JobView(
        job_id="p", options=(replace(fast, rate_per_s=1 / 36_000.0),), submitted_s=0.0, deadline_s=1e6, promised=True
    )
    found = admit(JobView(job_id="a", options=(fast, slow), submitted_s=0.0, deadline_s=7200.0), [other], pool, 0.0)
    assert found.accepted and found.earliest_finish_s == pytest.approx(3607.0)


@pytest.mark.parametrize("hard", [frozenset(), frozenset({"cuda"})])
def test_a_thriftier_way_above_the_quota_does_not_stand_before_one_within_it(hard):
    one, two = (
        Option(kind="cuda", count=count, rate_per_s=1 / run_s, power_w=power_w)
        for count, run_s, power_w in ((1, 1000.0, 300.0), (2, 400.0, 500.0))
    )
    asked = JobView(job_id="a", options=(one, two), submitted_s=0.0, deadline_s=2000.0, project="p")
    assert admit(asked, [], POOL, 0.0, quotas={"p": Quota(devices={"cuda": 1}, hard=hard)}).accepted


def test_each_way_is_held_against_the_deadline_by_its_own_range():
    narrow = Option(kind="cuda", count=1, rate_per_s=1 / 1000, power_w=100.0, slowdown=1.05)
    wide = Option(kind="cuda", count=2, rate_per_s=1 / 700, power_w=200.0, slowdown=1.6)
    asked = JobView(job_id="a", options=(narrow, wide), submitted_s=0.0, deadline_s=1_100.0, slowdown=1.6)
    found = admit(asked, [], POOL, 0.0)
    assert found.accepted and found.finish_s == pytest.approx(1_000.0)
    assert found.earliest_finish_s == pytest.approx(1_057.0)  # and not 1,120 or more, which the wide one may take
    late = admit(replace(asked, options=(narrow,), deadline_s=1_000.0), [], POOL, 0.0)
    assert late.chance == pytest.approx(0.5, abs=0.01)
    sooner = admit(replace(asked, options=(narrow,), deadline_s=950.0), [], POOL, 0.0)
    assert sooner.chance == pytest.approx(0.09, abs=0.03), "its own range is narrow"


OTHERS = st.builds(
    lambda number, widths, run_s, **fields: job(f"o{number}", run_s, widths=widths, **fields),
    number=st.uuids(),
    widths=st.sampled_from([(1,), (2, 4), (4,)]),
    run_s=st.sampled_from([600.0, 3600.0, 20_000.0, 0.0]),
    promised=st.booleans(),
    deadline_s=st.sampled_from([5_000.0, 50_000.0]),
    project=st.sampled_from(["", "p"]),
    submitted_s=st.sampled_from([0.0, -90_000.0]),
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(OTHERS, max_size=12),
    st.sampled_from(
        [{}, {"p": Quota(devices={"cuda": 3}, hard=frozenset({"cuda"}))}, {"p": Quota(devices={"cuda": 2})}]
    ),
    st.sampled_from([0.0, 500.0]),
)
def test_many_ways_asked_at_once_are_told_what_each_is_told_alone(others, quotas, wait_s):
    others = [replace(other, deadline_s=None) if not other.promised else other for other in others]
    asked = job("a", widths=(1, 2, 3, 4, 8), project="p", slowdown=1.3)
    found = promisable(asked, others, POOL, 0.0, quotas=quotas, ready_s=dict.fromkeys(asked.options, wait_s))
    for option in asked.options:
        alone = replace(asked, options=(option,), deadline_s=10.0**9)
        told = admit(alone, others, POOL, 0.0, quotas=quotas)
        assert told.accepted == (option in found)
        if told.accepted and not wait_s:
            assert found[option].end_s == pytest.approx(told.earliest_finish_s)
            for margin_s in (-1.0, 1.0):
                by = replace(alone, deadline_s=found[option].end_s + margin_s)
                assert admit(by, others, POOL, 0.0, quotas=quotas).accepted == (margin_s > 0)
        if told.accepted:
            assert found[option].start_s >= wait_s


def _upper_ends(jobs, policy):
    """By what `place` tells: the job's upper end is so many times as far from its start as its middle."""
    told = place(jobs, POOL, 0.0, policy=policy).expected
    ends = {
        view.job_id: start_s + (finish_s - start_s) * view.slowdown
        for view in jobs
        for start_s, finish_s in [told.get(view.job_id, (0.0, math.inf))]
    }
    return {view.job_id: max(ends[view.job_id], view.deadline_s) for view in jobs if view.promised}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(OTHERS, max_size=8, unique_by=lambda other: other.job_id),
    st.sampled_from([600.0, 3600.0]),
    st.sampled_from([1_500.0, 4_500.0, 40_000.0]),
    st.sampled_from(["fifo", "edf", "fair_share"]),
)
def test_no_promise_ends_later_past_its_deadline_for_a_job_that_is_accepted(others, run_s, deadline_s, policy):
    others = [replace(other, slowdown=1.5) for other in others]
    asked = job("a", run_s, deadline_s, widths=(4,), slowdown=1.2)
    if admit(asked, others, POOL, 0.0, policy=policy).accepted:
        before, after = _upper_ends(others, policy), _upper_ends([*others, asked], policy)
        assert all(after[name] <= before[name] + 1e-6 for name in before)


UNLIKE = SimPool.parse("1x2:A100,2x2:T4", spans_nodes=False).view
NAMED = st.builds(
    Option,
    kind=st.just("cuda"),
    model_name=st.sampled_from(["A100", "T4", ""]),
    count=st.sampled_from([1, 2]),
    rate_per_s=st.sampled_from([0.0, 1 / 600, 1 / 3600, 1 / 3600.1, 1 / 20_000]),
    power_w=st.sampled_from([100.0, 250.0, 700.0]),
    slowdown=st.sampled_from([0.0, 1.0, 1.5]),
)
BESIDE = st.builds(
    lambda number, option, **fields: JobView(job_id=f"o{number}", options=(option,), **fields),
    number=st.uuids(),
    option=NAMED,
    promised=st.booleans(),
    deadline_s=st.sampled_from([5_000.0, 50_000.0]),
    project=st.sampled_from(["", "p"]),
    submitted_s=st.sampled_from([0.0, 0.0, -90_000.0]),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(NAMED, min_size=1, max_size=8),
    st.lists(BESIDE, max_size=8),
    st.sampled_from(
        [{}, {"p": Quota(devices={"cuda": 1})}, {"p": Quota(devices={"cuda": 2}, hard=frozenset({"cuda"}))}]
    ),
)
def test_whatever_one_of_many_ways_would_be_promised_the_job_is_promised(options, others, quotas):
    asked = JobView(job_id="a", options=tuple(options), submitted_s=0.0, project="p", slowdown=1.2)
    ends = [way.end_s for way in (promisable(asked, others, UNLIKE, 0.0, quotas=quotas) or {}).values()]
    told = admit(replace(asked, deadline_s=1e9), others, UNLIKE, 0.0, quotas=quotas)
    assert told.accepted == bool(ends)
    if ends:
        assert told.earliest_finish_s == pytest.approx(min(ends)), "nor is a later finish named than is needed"
        for margin_s in (-0.01, 0.01):
            by = replace(asked, deadline_s=min(ends) + margin_s)
            assert admit(by, others, UNLIKE, 0.0, quotas=quotas).accepted == (margin_s > 0)


def test_only_the_policy_that_promises_is_asked_of_many_ways():
    assert promisable(job("a"), [], POOL, 0.0, policy="fifo") is None
    assert promisable(job("a", widths=(16,)), [], POOL, 0.0) == {}


ONE = SimPool.parse("1x1", spans_nodes=False).view


def behind_more(run_s):
    """A job that is late by a little on one device, and others that each go before it at the next later deadline."""
    others = [job("runs", run_s=200.0, widths=(1,), deadline_s=300.0)]
    others += [job(f"o{n}", run_s=run_s, widths=(1,), deadline_s=1_720.0 + n * run_s) for n in range(12)]
    return job("a", run_s=1_000.0, slowdown=1.5, widths=(1,), deadline_s=1_600.0), others


def test_where_no_later_deadline_is_found_that_is_kept_it_says_so_and_tells_the_chance_without_a_promise():
    asked, others = behind_more(500.0)
    found = admit(asked, others, ONE, 0.0, policy="edf")
    assert not found.accepted and found.earliest_finish_s is None and found.text == NO_LATER
    assert found.chance is not None and found.chance > 0.5
    assert any(text.startswith("Submit it without a promise") for text in found.changes_that_would_help)


@pytest.mark.parametrize(("others", "plans"), [(0, 2), (1, 3), (4, 6), (12, 6)])
def test_a_refusal_by_deadlines_costs_one_plan_more_for_each_deadline_that_would_move_its_place(others, plans):
    made = []

    class Counted(Edf):
        def plan(self, *args):
            made.append(args)
            return super().plan(*args)

    asked, more = behind_more(500.0)
    more = more[: 1 + others]
    found = admit(asked, more, ONE, 0.0, policy=Counted())
    assert not found.accepted and len(made) == plans
    if found.earliest_told_s is not None:
        assert admit(
            replace(asked, deadline_s=found.earliest_told_s), more[: 1 + others], ONE, 0.0, policy="edf"
        ).accepted
