"""What is kept for a project is there for its jobs, under every policy, and for nobody else."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scheduler.admit import admit, promisable
from scheduler.place import place
from scheduler.types import ChangeKind, Reserved
from tests.scheduler.pools import job, node, pool, runs, way

POLICIES = ["fifo", "edf", "fair_share", "deadline_energy"]
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NOW_S = 1e6


def kept(*, project="p", from_s=0.0, until_s=100 * DAY_S, **more):
    return (Reserved(start_s=NOW_S + from_s, end_s=NOW_S + until_s, project=project, purpose="course", **more),)


def mine(name="mine", *, run_s=HOUR_S, count=1, **more):
    return job(name, way(count, run_s=run_s), at=NOW_S, project="p", **more)


def theirs(name="theirs", *, run_s=HOUR_S, count=1, **more):
    return job(name, way(count, run_s=run_s), at=NOW_S - 1, project="q", **more)


def ids(decision):
    return {start.job_id: start.device_ids for start in decision.placements}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_deadline_is_promised_on_what_is_kept_for_the_project(policy):
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    wanted = mine(deadline_s=NOW_S + 2 * HOUR_S)
    assert admit(wanted, [], there, NOW_S, policy=policy).accepted
    other = theirs(deadline_s=NOW_S + 2 * HOUR_S)
    assert not admit(other, [], there, NOW_S, policy=policy).accepted


def test_each_way_of_an_offer_is_promised_there_too():
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    wanted = mine(deadline_s=NOW_S + 2 * HOUR_S)
    assert promisable(wanted, [], there, NOW_S)[wanted.options[0]].start_s == NOW_S
    assert promisable(theirs(deadline_s=NOW_S + 2 * HOUR_S), [], there, NOW_S) == {}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", ["", "B"])
def test_what_is_kept_is_used_first_of_whatever_model_it_is(policy, model):
    there = pool(node(cpus=3, models={"cpu0": model, "cpu1": "A", "cpu2": model}, reserved={"cpu0": kept()}))
    found = ids(place([mine(), theirs(count=2)], there, NOW_S, policy=policy))
    assert found == {"mine": ("n1/cpu0",), "theirs": ("n1/cpu1", "n1/cpu2")}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_behind_another_of_its_project_is_told_when_that_ends(policy):
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    first = runs(mine("first"), "n1", "cpu0", since=NOW_S)
    found = place([first, mine("second")], there, NOW_S, policy=policy)
    assert found.expected["second"] == (NOW_S + HOUR_S, NOW_S + 2 * HOUR_S)
    wanted = mine("third", deadline_s=NOW_S + 2.1 * HOUR_S)
    assert admit(wanted, [first], there, NOW_S, policy=policy).accepted


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_going_to_be_kept_for_a_project_keeps_only_others_off(policy):
    there = pool(node(cpus=1, reserved={"cpu0": kept(from_s=2 * HOUR_S)}))
    assert ids(place([mine(run_s=10 * HOUR_S)], there, NOW_S, policy=policy)) == {"mine": ("n1/cpu0",)}
    assert not ids(place([theirs(run_s=10 * HOUR_S)], there, NOW_S, policy=policy))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("run_s", [HOUR_S, 5 * HOUR_S])
def test_of_several_times_a_device_is_kept_the_first_sends_others_away(policy, run_s):
    """Whoever is done before it may begin, whoever would run into it may not, however far the next one is."""
    twice = (*kept(from_s=50 * HOUR_S, until_s=60 * HOUR_S), *kept(from_s=2 * HOUR_S, until_s=3 * HOUR_S))
    for reserved in (twice, twice[::-1]):
        there = pool(node(cpus=1, reserved={"cpu0": reserved}))
        found = place([theirs(run_s=run_s)], there, NOW_S, policy=policy)
        assert bool(ids(found)) is (run_s == HOUR_S)
        assert (found.expected["theirs"][0] >= NOW_S + 3 * HOUR_S) is (run_s > HOUR_S)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("spans", [False, True])
def test_what_is_kept_is_used_first_and_the_rest_is_left_to_others(policy, spans):
    for names in (("n1", "n2"), ("n2", "n1")):
        there = pool(node(names[0], cpus=1, reserved={"cpu0": kept()}), node(names[1], cpus=1), spans=spans)
        found = ids(place([mine(), theirs()], there, NOW_S, policy=policy))
        assert found == {"mine": (f"{names[0]}/cpu0",), "theirs": (f"{names[1]}/cpu0",)}
    one = pool(node(cpus=2, reserved={"cpu1": kept()}), spans=spans)
    assert ids(place([mine(), theirs()], one, NOW_S, policy=policy)) == {"mine": ("n1/cpu1",), "theirs": ("n1/cpu0",)}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_lies_on_what_is_kept_and_what_is_not(policy):
    there = pool(node(cpus=2, reserved={"cpu1": kept()}))
    assert set(ids(place([mine(count=2)], there, NOW_S, policy=policy))) == {"mine"}
    assert not ids(place([theirs(count=2)], there, NOW_S, policy=policy))


def test_what_is_planned_on_kept_devices_holds_no_other_up():
    there = pool(node(cpus=2, reserved={"cpu1": kept()}))
    first = runs(mine("first"), "n1", "cpu1", since=NOW_S)
    other = runs(theirs("other"), "n1", "cpu0", since=NOW_S)
    promised = mine("later", deadline_s=NOW_S + 3 * HOUR_S, promised=True)
    wanted = theirs(run_s=9 * HOUR_S, deadline_s=NOW_S + 10.5 * HOUR_S)
    assert admit(wanted, [first, other, promised], there, NOW_S).accepted
    found = place([first, other, promised, wanted], there, NOW_S)
    assert found.warnings == {}
    assert found.expected["later"][0] == found.expected["theirs"][0] == NOW_S + HOUR_S


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("spans", [False, True])
def test_no_run_goes_from_one_device_to_the_next_as_they_are_reserved_one_after_the_other(policy, spans):
    one, other = kept(from_s=HOUR_S, until_s=3 * HOUR_S), kept(project="", from_s=3 * HOUR_S, until_s=5 * HOUR_S)
    there = pool(node(cpus=2, reserved={"cpu0": one, "cpu1": other}), spans=spans)
    wanted = theirs(run_s=4 * HOUR_S, deadline_s=NOW_S + 6 * HOUR_S)
    assert not admit(wanted, [], there, NOW_S, policy=policy).accepted
    late = replace(wanted, deadline_s=NOW_S + 10 * HOUR_S)
    assert admit(late, [], there, NOW_S, policy=policy).accepted
    assert not ids(place([replace(late, promised=True)], there, NOW_S, policy=policy))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["a", "z"])
def test_a_short_run_leaves_the_device_that_is_open_for_longer_to_a_long_one(policy, name):
    there = pool(node(cpus=2, reserved={"cpu1": kept(from_s=HOUR_S)}))
    found = ids(place([theirs(name, run_s=HOUR_S / 2), theirs("m", run_s=4 * HOUR_S)], there, NOW_S, policy=policy))
    assert found == {name: ("n1/cpu1",), "m": ("n1/cpu0",)}


@pytest.mark.parametrize("nodes", [1, 9])
@pytest.mark.parametrize("project", ["", "p"])
def test_what_was_promised_after_a_reservation_stays_planned_when_that_has_begun(nodes, project):
    keep = {"cpu0": kept(project=project, from_s=2 * HOUR_S, until_s=4 * HOUR_S)}
    there = pool(*(node(f"n{number}", cpus=1, reserved=keep) for number in range(nodes)))
    wanted = theirs(run_s=10 * HOUR_S, deadline_s=NOW_S + 15 * HOUR_S)
    assert admit(wanted, [], there, NOW_S).accepted
    promised, now_s = replace(wanted, promised=True), NOW_S + 3 * HOUR_S
    found = place([promised], there, now_s)
    assert not found.warnings and found.expected["theirs"][0] == NOW_S + 4 * HOUR_S
    if project and nodes == 1:
        long, short = mine("long", run_s=9 * HOUR_S), mine("short", run_s=HOUR_S / 2)
        found = place([promised, long, short], there, now_s)
        assert not found.warnings and set(ids(found)) == {"short"}


@pytest.mark.parametrize("nodes", [1, 9])
def test_a_promise_on_another_device_leaves_the_time_after_a_reservation_to_who_may_still_run_there(nodes):
    keep = {"cpu0": kept(until_s=2 * HOUR_S)}
    there = pool(*(node(f"n{number}", cpus=2, reserved=keep) for number in range(nodes)))
    own = [
        replace(runs(theirs(f"r{number}", run_s=3 * HOUR_S), f"n{number}", "cpu1", since=NOW_S), can_pause=False)
        for number in range(nodes)
    ]
    after = [
        theirs(f"p{number}", run_s=4 * HOUR_S, deadline_s=NOW_S + 7.5 * HOUR_S, promised=True)
        for number in range(nodes)
    ]
    other = theirs("other", run_s=HOUR_S, deadline_s=NOW_S + 6 * HOUR_S)
    assert not place([*own, *after], there, NOW_S).warnings
    assert not admit(other, [*own, *after], there, NOW_S).accepted


@pytest.mark.parametrize("nodes", [1, 9])
def test_what_is_kept_from_all_comes_back_when_that_is_over(nodes):
    keep = {"cpu0": kept(project="", until_s=4 * HOUR_S)}
    there = pool(*(node(f"n{number}", cpus=1, reserved=keep) for number in range(nodes)))
    assert place([theirs()], there, NOW_S).expected["theirs"] == (NOW_S + 4 * HOUR_S, NOW_S + 5 * HOUR_S)
    assert admit(theirs(deadline_s=NOW_S + 6 * HOUR_S), [], there, NOW_S).accepted


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("nodes", [1, 9])
@pytest.mark.parametrize("within", [(), kept(until_s=4 * HOUR_S)])
def test_what_is_kept_for_as_long_as_it_takes_is_promised_to_nobody_for_afterwards(nodes, within, is_held, policy):
    keep = {"cpu0": (*within, *kept(project="", until_s=math.inf))}
    there = pool(*(node(f"n{number}", cpus=1, reserved=keep) for number in range(nodes)))
    names = [f"n{number}" for number in range(nodes if is_held else 0)]
    running = [runs(theirs(f"on {name}"), name, "cpu0", since=NOW_S) for name in names]
    for view in (mine(deadline_s=NOW_S + 40 * HOUR_S), theirs(deadline_s=NOW_S + 40 * HOUR_S)):
        assert not admit(view, running, there, NOW_S, policy=policy).accepted
        found = place([*running, replace(view, deadline_s=None)], there, NOW_S, policy=policy)
        assert view.job_id not in found.expected and len(found.running) == len(running)


@pytest.mark.parametrize("nodes", [1, 9])
def test_a_measurement_within_what_is_kept_for_a_project_is_in_its_way_until_it_ends(nodes):
    own, short = kept(until_s=2 * HOUR_S), kept(project="", until_s=100.0)
    keep = {"cpu0": own, "cpu1": (*own, *short)}
    there = pool(*(node(f"n{number}", cpus=2, reserved=keep) for number in range(nodes)))
    wanted = mine(count=2, deadline_s=NOW_S + 1.5 * HOUR_S, promised=True)
    found = place([wanted], there, NOW_S)
    assert not found.warnings and found.expected["mine"][0] == NOW_S + 100.0
    assert admit(replace(wanted, promised=False), [], there, NOW_S).accepted


@pytest.mark.parametrize("project", ["", "r"])
def test_reservations_of_one_device_that_overlap_keep_no_other_device(project):
    both = (*kept(until_s=HOUR_S), *kept(project=project, from_s=HOUR_S / 2, until_s=1.1 * HOUR_S))
    there = pool(node(cpus=2, reserved={"cpu0": both}))
    assert set(ids(place([theirs(deadline_s=NOW_S + 1.05 * HOUR_S, promised=True)], there, NOW_S))) == {"theirs"}


@pytest.mark.parametrize("nodes", [1, 9])
def test_what_is_over_keeps_nobody_off(nodes):
    over = {"cpu0": kept(from_s=-2 * HOUR_S, until_s=0.0)}
    there = pool(*(node(f"n{number}", cpus=1, reserved=over) for number in range(nodes)))
    assert set(ids(place([theirs()], there, NOW_S))) == {"theirs"}


def test_promises_on_kept_devices_are_counted_once():
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    first = mine("first", deadline_s=NOW_S + 1.5 * HOUR_S, promised=True)
    assert not admit(mine(deadline_s=NOW_S + 1.5 * HOUR_S), [first], there, NOW_S).accepted
    assert admit(mine(deadline_s=NOW_S + 2.5 * HOUR_S), [first], there, NOW_S).accepted


def test_what_runs_of_others_on_a_kept_device_is_in_the_way_until_it_ends():
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    other = runs(theirs(), "n1", "cpu0", since=NOW_S)
    assert not admit(mine(deadline_s=NOW_S + 1.5 * HOUR_S), [other], there, NOW_S).accepted
    assert admit(mine(deadline_s=NOW_S + 2.5 * HOUR_S), [other], there, NOW_S).accepted
    urgent = place([other, mine(priority=50)], there, NOW_S)
    assert urgent.running == ("theirs",) and not urgent.changes


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_of_higher_priority_pauses_a_lesser_one_of_its_project_there(policy):
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    lesser = runs(mine("lesser", can_pause=True), "n1", "cpu0", since=NOW_S - HOUR_S)
    found = place([lesser, mine("urgent", priority=50)], there, NOW_S, policy=policy)
    assert [(change.job_id, change.kind) for change in found.changes] == [("lesser", ChangeKind.PAUSE)]
    assert ids(found) == {"urgent": ("n1/cpu0",)}
    other = place([lesser, theirs("urgent", priority=50)], there, NOW_S, policy=policy)
    assert other.running == ("lesser",) and not other.changes


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("run_s", [0.0, 200 * DAY_S])
def test_who_waits_for_the_end_of_a_reservation_keeps_nobody_of_its_project_off(policy, run_s):
    there = pool(node(cpus=1, reserved={"cpu0": kept()}))
    assert set(ids(place([theirs(), mine(run_s=run_s)], there, NOW_S, policy=policy))) == {"mine"}


def test_one_kept_node_of_many_is_found_where_all_others_are_busy():
    names = [f"n{number:02}" for number in range(20)]
    nodes = [node(name, cpus=2, reserved={"cpu1": kept()} if name == "n17" else {}) for name in names]
    busy = [
        runs(theirs(name, run_s=DAY_S), name, *(["cpu0"] if name == "n17" else ["cpu0", "cpu1"]), since=NOW_S)
        for name in names
    ]
    wanted = mine(deadline_s=NOW_S + 2 * HOUR_S)
    assert admit(wanted, busy, pool(*nodes), NOW_S).accepted
    assert ids(place([*busy, wanted], pool(*nodes), NOW_S)) == {"mine": ("n17/cpu1",)}


def test_a_job_grows_onto_what_is_kept_for_its_project():
    there = pool(node(cpus=2, reserved={"cpu1": kept()}))
    ways = (way(1, run_s=10 * HOUR_S), way(2, run_s=5 * HOUR_S))
    for project, count in (("p", 2), ("q", 1)):
        wide = job("wide", *ways, at=NOW_S, project=project, can_pause=True)
        (start,) = place([wide], there, NOW_S).placements
        assert start.option.count == count
