"""What holds for every decision, whatever is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from scheduler.place import place
from scheduler.policies import names
from scheduler.types import ChangeKind
from tests.scheduler.pools import carry_out, comes_to_rest, dated, job, node, pool, scene, way

NOW_S = 200.0
policies = st.sampled_from(names())
seeds = st.integers(0, 2**32)


def mid_run(seed, policy):
    """(jobs, pool, quotas) some time after the first half of the jobs was shown."""
    jobs, view, quotas = scene(seed)
    early = jobs[: len(jobs) // 2]
    running, view = carry_out(place(early, view, 100.0, policy=policy, quotas=quotas), early, view, 100.0)
    return (
        [replace(job_, work_left=0.5) if job_.running else job_ for job_ in running] + jobs[len(jobs) // 2 :],
        view,
        quotas,
    )


def like_and_unreserved(view):
    """The pool with devices of one model, none of them kept by an admin."""
    return replace(
        view,
        nodes=tuple(
            replace(node_, devices=tuple(replace(device, model_name="A", reserved=()) for device in node_.devices))
            for node_ in view.nodes
        ),
    )


def after(decision, jobs):
    """Job -> (option, nodes, devices) of everything that runs from now on."""
    found = {
        job_.job_id: (job_.running.option, job_.running.nodes, job_.running.device_ids)
        for job_ in jobs
        if job_.job_id in decision.running
    }
    for item in (*decision.changes, *decision.placements):
        if item.option is not None:
            found[item.job_id] = (item.option, item.nodes, item.device_ids)
    return found


@settings(max_examples=120, deadline=None)
@given(seeds, policies)
def test_every_job_starts_or_runs_or_waits_with_a_reason_and_a_place(seed, policy):
    jobs, view, quotas = mid_run(seed, policy)
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    parts = [[start.job_id for start in decision.placements], list(decision.running), list(decision.waits)]
    assert Counter(name for part in parts for name in part) == Counter(job_.job_id for job_ in jobs)
    first = 1 + sum(bool(start.waits_for) for start in decision.placements)
    places = sorted(reason.position for reason in decision.waits.values())
    assert places == list(range(first, first + len(decision.waits)))
    assert all(reason.words.endswith(".") for reason in decision.waits.values())
    paused = {change.job_id for change in decision.changes if change.kind is ChangeKind.PAUSE}
    assert paused <= set(decision.waits)
    by_id = {job_.job_id: job_ for job_ in jobs}
    assert all(by_id[change.job_id].can_pause for change in decision.changes)


@settings(max_examples=120, deadline=None)
@given(seeds, policies)
def test_gangs_are_whole_and_hold_only_devices_that_are_theirs_to_have(seed, policy):
    jobs, view, quotas = mid_run(seed, policy)
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    at = {device.device_id: (node_, device) for node_ in view.nodes for device in node_.devices}
    shown = {device for job_ in jobs if job_.running for device in job_.running.device_ids}
    held = after(decision, jobs)
    assert max(Counter(device for _, _, devices in held.values() for device in devices).values(), default=1) == 1
    by_id = {job_.job_id: job_ for job_ in jobs}
    for start in decision.placements:
        wish, option = by_id[start.job_id], start.option
        assert option in wish.options
        assert len(start.device_ids) == option.count
        assert tuple(dict.fromkeys(at[device][0].name for device in start.device_ids)) == start.nodes
        assert view.spans_nodes or len(start.nodes) == 1
        for node_, device in (at[device] for device in start.device_ids):
            assert device.free or device.device_id in shown
            assert node_.takes_work and node_.sandbox_level >= wish.minimum_sandbox_level
            assert device.kind == option.kind and option.model_name in {"", device.model_name}
            end_s = NOW_S + wish.left_high_s(option)
            assert not any(
                keep.start_s < end_s and keep.end_s > NOW_S and keep.project != wish.project for keep in device.reserved
            )


@settings(max_examples=120, deadline=None)
@given(seeds, policies)
def test_memory_that_was_asked_for_is_never_promised_twice(seed, policy):
    jobs, view, quotas = mid_run(seed, policy)
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    asked = Counter()
    for option, nodes, devices in after(decision, jobs).values():
        for name in nodes:
            asked[name] += option.memory_bytes * sum(device.startswith(f"{name}/") for device in devices) / option.count
    assert all(asked[node_.name] <= node_.memory_bytes for node_ in view.nodes)


@settings(max_examples=240, deadline=None)
@given(seeds, policies)
def test_no_start_goes_over_a_quota_that_may_not_be_exceeded(seed, policy):
    """Of projects that limit two kinds some may exceed neither, some one of them."""
    jobs, view, quotas = mid_run(seed, policy)
    random = Random(seed)
    jobs = [replace(job_, deadline_s=NOW_S + 500.0, promised=random.random() < 0.5) for job_ in jobs]
    held = Counter()
    projects = {job_.job_id: job_.project for job_ in jobs}
    decision = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    for job_id, (option, _, _) in after(decision, jobs).items():
        held[projects[job_id], option.kind] += option.count
    for name, quota in quotas.items():
        assert all(held[name, kind] <= quota.devices[kind] for kind in quota.hard)


@settings(max_examples=80, deadline=None)
@given(seeds, policies)
def test_a_decision_does_not_depend_on_the_order_of_what_is_shown(seed, policy):
    jobs, view, quotas = mid_run(seed, policy)
    first = place(jobs, view, NOW_S, policy=policy, quotas=quotas)
    mixed = list(jobs)
    Random(seed).shuffle(mixed)
    turned = replace(view, nodes=view.nodes[::-1])
    assert place(mixed, turned, NOW_S, policy=policy, quotas=quotas) == first


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_carried_out_and_asked_again_first_come_first_served_changes_nothing(seed):
    """Without quotas and reservations; with them it comes to rest, see below."""
    jobs, view, _ = scene(seed)
    # Where gangs span nodes the plan counts host memory over all of them; what no single node has shows afterwards.
    assume(not (view.spans_nodes and any(option.memory_bytes for job_ in jobs for option in job_.options)))
    view = like_and_unreserved(view)
    decision = place(jobs, view, NOW_S, policy="fifo")
    again = place(*carry_out(decision, jobs, view, NOW_S), NOW_S, policy="fifo")
    assert not again.placements and not again.changes


@settings(max_examples=150, deadline=None)
@given(seeds, policies)
@example(95, "edf_widest")
@example(95, "deadline")
@example(1039, "deadline_energy")
@example(5546, "deadline_energy")
@example(11916, "deadline_energy")
@example(15871, "deadline_energy")
def test_decisions_come_to_rest(seed, policy):
    """Also of running jobs whose option leaves the model open: what they hold is not what is free for others."""
    jobs, view, quotas = scene(seed)
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas=quotas), "it pauses and starts for ever"


@settings(max_examples=100, deadline=None)
@given(seeds, st.sampled_from(["deadline_energy", "deadline"]))
def test_decisions_on_deadlines_come_to_rest(seed, policy):
    jobs, view, quotas = dated(seed)
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas=quotas), "it pauses and starts for ever"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0.0, 30.0, 90.0])), max_size=10),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_with_more_devices_the_first_job_that_fares_differently_fares_better(wishes, size, more):
    """First come first served, gangs over nodes: more devices never cost an earlier job for a later one.

    Of jobs that fit the small pool: one that only the large pool can ever run has a place in the queue there alone.
    """
    wishes = [wish for wish in wishes if wish[0] <= size]
    jobs = [job(f"j{at}", way(count, run_s=run_s), at=float(at)) for at, (count, run_s) in enumerate(wishes)]
    small = pool(node(cpus=size), spans=True)
    large = pool(node(cpus=size), node("n2", cpus=more), spans=True)
    started = [
        {start.job_id for start in place(jobs, view, NOW_S, policy="fifo").placements} for view in (small, large)
    ]
    fares = [(job_.job_id in started[0], job_.job_id in started[1]) for job_ in jobs]
    different = [pair for pair in fares if pair[0] != pair[1]]
    assert not different or different[0] == (False, True)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_nobody_who_comes_later_delays_a_promised_start(seed):
    """First come first served: the jobs before the last one are promised the same with and without it."""
    jobs, view, _ = scene(seed)
    jobs = sorted(jobs, key=lambda job_: job_.submitted_s)
    jobs = [replace(job_, priority=0, rank=0) for job_ in jobs]
    with_last = place(jobs, view, NOW_S, policy="fifo").expected
    without = place(jobs[:-1], view, NOW_S, policy="fifo").expected
    assert {name: with_last.get(name) for name in without} == without
