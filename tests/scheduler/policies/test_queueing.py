"""Backfill, priorities, quotas and pauses, as `fifo` and `fair_share` decide."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies import queueing
from scheduler.types import Quota
from tests.scheduler.pools import hard_quota, held_by, job, node, pool, runs, way


def decide(jobs, view, *, policy="fifo", now_s=10.0, quotas=None):
    return place(jobs, held_by(jobs, view), now_s, policy=policy, quotas=quotas)


def started(decision):
    return {start.job_id for start in decision.placements}


def paused(decision):
    return {change.job_id for change in decision.changes}


def test_a_later_job_fills_a_gap_only_if_it_ends_before_the_promised_start():
    view = pool(node(cpus=2))
    old = runs(job("old", way(1, run_s=100)), "n1", "cpu0")
    wide = job("wide", way(2, run_s=50), at=1.0)
    for run_s, slowdown, fits in [(90, 1.0, True), (90, 1.5, False), (200, 1.0, False), (0, 1.0, False)]:
        decision = decide([old, wide, job("small", way(1, run_s=run_s), at=2.0, slowdown=slowdown)], view)
        assert ("small" in started(decision)) == fits
        assert decision.expected["wide"] == (110.0, 160.0)


def test_a_gap_on_another_node_is_filled_whatever_the_length():
    view = pool(node("n1", cpus=2), node("n2", cpus=1))
    old = runs(job("old", way(1, run_s=100)), "n1", "cpu0")
    jobs = [old, job("wide", way(2, run_s=50), at=1.0), job("small", way(1, run_s=900), at=2.0)]
    assert started(decide(jobs, view)) == {"small"}


def test_the_first_way_that_fits_now_is_taken():
    view = pool(node(cpus=3))
    decision = decide([job("a", way(4, run_s=10), way(2, run_s=20), way(1, run_s=40))], view)
    assert decision.placements[0].option == way(2, run_s=20)


def test_an_admins_order_counts_within_a_priority():
    view = pool(node(cpus=1))
    jobs = [job("a", at=1.0), job("b", at=2.0, rank=-1), job("c", at=3.0)]
    decision = decide(jobs, view)
    assert started(decision) == {"b"}
    assert [(name, decision.waits[name].position) for name in ("a", "c")] == [("a", 1), ("c", 2)]


@pytest.mark.parametrize("policy", ["fifo", "fair_share"])
def test_a_higher_priority_pauses_a_lower_one_that_can_be_paused(policy):
    view = pool(node(cpus=2))
    low = runs(job("low", way(1), can_pause=True), "n1", "cpu0")
    fixed = runs(job("fixed", way(1)), "n1", "cpu1")
    decision = decide([low, fixed, job("high", at=5.0, priority=1)], view, policy=policy)
    assert paused(decision) == {"low"}
    assert decision.placements[0].waits_for == ("low",)
    assert decision.waits["low"].code == "paused"
    assert decision.changes[0].room_for == "high"
    assert not paused(decide([low, fixed, job("equal", at=5.0)], view, policy=policy))


def test_a_promised_job_is_never_paused():
    view = pool(node(cpus=1))
    low = runs(job("low", can_pause=True, promised=True, deadline_s=1e6), "n1", "cpu0")
    assert not paused(decide([low, job("high", priority=9)], view))


def test_as_few_as_will_do_are_paused():
    view = pool(node("n1", cpus=3), node("n2", cpus=2))
    small = [runs(job(f"s{at}", at=float(at), can_pause=True), "n1", f"cpu{at}") for at in range(3)]
    wide = runs(job("wide", way(2), at=0.0, can_pause=True), "n2", "cpu0", "cpu1")
    assert paused(decide([*small, wide, job("high", way(2), priority=1)], view)) == {"wide"}
    assert paused(decide([*small, wide, job("high", way(1), priority=1)], view)) == {"s2"}


def test_a_quota_holds_a_project_back_with_names_and_numbers():
    view = pool(node(cpus=4))
    old = runs(job("old", way(2), project="p"), "n1", "cpu0", "cpu1")
    quotas = {"p": hard_quota({"cpu": 2}, name="Vision")}
    decision = decide([old, job("more", project="p", at=1.0), job("other", project="q", at=2.0)], view, quotas=quotas)
    assert started(decision) == {"other"}
    reason = decision.waits["more"]
    assert reason.code == "quota_used"
    assert reason.text == "Project Vision may hold 2 CPU cores and holds 2; this job needs 1."
    assert reason.remedy == "It starts when jobs of the project give 1 back."
    never = decide([job("wide", way(3), project="p")], view, quotas=quotas).waits["wide"]
    assert never.code == "quota_too_small" and "may hold 2" in never.text


def test_a_project_borrows_what_others_leave_and_gives_it_back_when_the_owner_comes():
    view = pool(node(cpus=4))
    quotas = {"p": Quota(devices={"cpu": 2}), "q": Quota(devices={"cpu": 2})}
    borrowers = [job(f"p{at}", way(2), project="p", at=float(at), can_pause=True) for at in range(2)]
    assert started(decide(borrowers, view, quotas=quotas)) == {"p0", "p1"}
    running = [
        runs(borrowers[0], "n1", "cpu0", "cpu1", since=1.0),
        runs(borrowers[1], "n1", "cpu2", "cpu3", since=2.0),
    ]
    decision = decide([*running, job("owner", way(2), project="q", at=5.0)], view, quotas=quotas)
    assert paused(decision) == {"p1"}
    assert "quota" in decision.changes[0].reason
    # Who is within his own quota is left alone.
    assert not paused(decide([*running[:1], job("owner", way(4), project="q", at=5.0)], view, quotas=quotas))


def test_owners_go_before_borrowers_whoever_came_first():
    view = pool(node(cpus=2))
    quotas = {"p": Quota(devices={"cpu": 0}), "q": Quota(devices={"cpu": 2})}
    jobs = [job("borrower", project="p", at=0.0), job("owner", way(2), project="q", at=1.0)]
    assert started(decide(jobs, view, quotas=quotas)) == {"owner"}


def test_fair_share_gives_the_next_device_to_who_holds_least():
    view = pool(node(cpus=4))
    rich = [job(f"rich{at}", project="rich", at=float(at)) for at in range(4)]
    poor = [job(f"poor{at}", project="poor", at=50.0 + at) for at in range(4)]
    assert started(decide([*rich, *poor], view, policy="fair_share")) == {"rich0", "rich1", "poor0", "poor1"}
    assert started(decide([*rich, *poor], view)) == {job_.job_id for job_ in rich}


def test_fair_share_counts_the_dominant_kind():
    """A project that holds half of the few GPUs is richer than one that holds a third of the many cores."""
    view = pool(node(cpus=9, gpus=2))
    gpu = runs(job("gpu", way(1, kind="cuda"), project="g"), "n1", "cuda0")
    cpu = runs(job("cpu", way(3), project="c"), "n1", *(f"cpu{at}" for at in range(3)))
    jobs = [gpu, cpu, job("g1", way(6), project="g", at=1.0), job("c1", way(6), project="c", at=2.0)]
    assert started(decide(jobs, view, policy="fair_share")) == {"c1"}


def test_fair_share_pauses_the_rich_for_the_poor_and_not_back_again():
    view = pool(node(cpus=4))
    rich = [runs(job(f"rich{at}", project="rich", at=float(at), can_pause=True), "n1", f"cpu{at}") for at in range(4)]
    poor = [job(f"poor{at}", project="poor", at=50.0 + at) for at in range(4)]
    assert paused(decide([*rich, *poor], view, policy="fair_share")) == {"rich3", "rich2"}


def test_a_running_job_without_an_estimate_keeps_its_devices_for_who_waits_first():
    view = pool(node(cpus=2))
    old = runs(job("old", way(1)), "n1", "cpu0")
    decision = decide([old, job("wide", way(2, run_s=5), at=1.0), job("small", way(1, run_s=1), at=2.0)], view)
    assert not started(decision)
    assert "wide" not in decision.expected
    assert decision.waits["wide"].remedy == "It starts when 1 more is given back."
    assert decision.waits["wide"].words.endswith("It starts when 1 more is given back. Expected to end first: job old.")
    assert decision.waits["small"].code == "behind"


def test_bad_input_is_refused_in_words():
    view = pool(node())
    with pytest.raises(ValueError, match="no policy is called 'lifo'"):
        place([], view, 0.0, policy="lifo")
    with pytest.raises(ValueError, match="shown twice: a"):
        place([job("a"), job("a")], view, 0.0, policy="fifo")
    with pytest.raises(ValueError, match="not a moment"):
        place([], view, float("nan"), policy="fifo")
    with pytest.raises(ValueError, match="0 devices"):
        way(0)


def test_a_clock_that_was_set_back_confuses_nobody():
    decision = decide([job("a", at=1e6), job("b", at=0.0)], pool(node(cpus=1)), now_s=-5.0)
    assert started(decision) == {"b"}


def test_an_overdue_job_that_may_pause_nobody_stops_no_deadline_that_may():
    view = pool(node(cpus=1))
    day_s = 86_400.0
    runner = runs(
        job("runner", way(run_s=36_000), at=day_s - 5, can_pause=True, deadline_s=9e5), "n1", "cpu0", since=day_s
    )
    overdue = job("overdue", way(run_s=100), at=-100.0)
    dated = job("dated", way(run_s=200), at=day_s, deadline_s=2 * day_s)
    decision = decide([runner, overdue, dated], view, policy="edf", now_s=day_s)
    assert paused(decision) == {"runner"} and started(decision) == {"dated"}


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
def test_a_job_whose_memory_cannot_be_freed_stops_no_job_that_asks_for_none(policy):
    view = pool(node(cpus=2, memory_gib=16))
    fixed = runs(job("fixed", way(run_s=50_000, memory_gib=12)), "n1", "cpu0")
    low = runs(job("low", way(run_s=36_000), can_pause=True), "n1", "cpu1")
    big, small = (
        job(name, way(run_s=run_s, memory_gib=memory_gib), at=at, priority=1)
        for name, run_s, memory_gib, at in (("big", 100, 8, 1.0), ("small", 200, 0, 2.0))
    )
    decision = decide([fixed, low, big, small], view, policy=policy)
    assert paused(decision) == {"low"} and started(decision) == {"small"}


def _rivals(seed):
    """Jobs of one width on a full node: some may be paused, those that wait want more or less of everything."""
    random = Random(seed)

    def wish(name, **more):
        option = way(run_s=random.choice([100, 200, 900]), memory_gib=random.choice([0, 0, 4, 9]))
        dated = random.choice([None, 500.0, 900.0, 5000.0])
        return job(name, option, priority=random.choice([0, 0, 1]), deadline_s=dated, **more)

    running = [
        runs(wish(f"r{at}", can_pause=random.random() < 0.7), "n1", f"cpu{at}") for at in range(random.randint(1, 3))
    ]
    waiting = [wish(f"w{at}", at=random.choice([-90_000.0, 1.0, 2.0])) for at in range(random.randint(2, 6))]
    return [*running, *waiting], held_by(running, pool(node(cpus=len(running))))


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["fifo", "edf", "fair_share"]))
def test_what_is_known_to_be_in_vain_spares_searches_and_changes_nothing(seed, policy):
    jobs, view = _rivals(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queueing, "MOST_SEARCHES", 10**6)
        known = place(jobs, view, 200.0, policy=policy)
        patch.setattr(queueing._Tried, "covers", lambda tried, other: False)
        assert place(jobs, view, 200.0, policy=policy) == known
