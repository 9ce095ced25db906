"""Small scenes in which two jobs were paused and started for each other for ever."""

from __future__ import annotations

import pytest

from scheduler.place import place
from scheduler.policies import names
from scheduler.types import Quota, Reserved
from tests.scheduler.pools import comes_to_rest, held_by, job, node, pool, runs, way

NOW_S = 200.0
COMING = (Reserved(start_s=300.0, end_s=350.0, project="p"),)
every_policy = pytest.mark.parametrize("policy", names())


def lends(cpus, **more):
    """By kind, what a project holds without borrowing."""
    return Quota(devices={"cpu": cpus, **more}, hard=frozenset(more))


@every_policy
def test_what_a_borrower_runs_on_is_not_free_for_others_of_a_coming_reservation(policy):
    """Its own run is not stopped by that; who would come after it was planned as if it bound nobody."""
    view = pool(node(cpus=4, models={"cpu3": "A"}, reserved={"cpu1": COMING}))
    jobs = [
        job("a", way(2), at=67.0, project="p", can_pause=True),
        job("b", way(3), at=41.0, project="r", can_pause=True),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas={"p": lends(1)})


@every_policy
def test_a_run_is_not_planned_in_ways_that_its_project_may_never_have(policy):
    view = pool(node(cpus=3))
    jobs = [
        job("a", way(1, kind="cuda", run_s=50.0), way(1), at=67.0, project="q", can_pause=True),
        job("b", way(2), at=41.0, project="q"),
        job("c", way(1), at=80.0, project="q", can_pause=True),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas={"q": lends(1, cuda=0)})


@every_policy
def test_a_run_keeps_the_place_in_the_plan_that_it_has_while_it_waits(policy):
    """On its own kind of device it has none, and on another it has one later on."""
    view = pool(
        node("n0", cpus=4, memory_gib=32, models={"cpu0": "A", "cpu1": "A"}), node("n1", cpus=2, models={"cpu0": "A"})
    )
    jobs = [
        job("a", way(2, run_s=50.0), at=7.0, project="r"),
        job("b", way(2), at=75.0, project="p"),
        job("c", way(2, memory_gib=20), at=84.0, project="r", can_pause=True),
        job("d", way(2), way(1, model="A", memory_gib=20), at=67.0, project="p", priority=2, can_pause=True),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas={"p": lends(3)})


@every_policy
def test_a_borrower_keeps_what_it_holds_though_a_better_way_is_not_to_be_had(policy):
    view = pool(node(cpus=3, models={"cpu0": "A", "cpu2": "A"}))
    jobs = [
        job("a", way(3, run_s=100.0, memory_gib=20), way(3), at=86.0, project="p", can_pause=True),
        job("b", way(1, model="A"), at=93.0, project="p", can_pause=True),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas={"p": lends(0)})


@pytest.mark.parametrize("policy", ["deadline_energy", "deadline"])
@pytest.mark.parametrize("spans", [False, True])
def test_a_coming_reservation_stops_no_run_and_starts_nobody_in_its_stead(policy, spans):
    view = pool(node(cpus=1, reserved={"cpu0": COMING}), spans=spans)
    first = runs(job("a", way(1, run_s=900.0), can_pause=True), "n1", "cpu0")
    waiting = job("b", way(1, run_s=90.0), at=1.0, can_pause=True)
    decision = place([first, waiting], held_by([first], view), NOW_S, policy=policy)
    assert (decision.running, decision.placements) == (("a",), ())
    start_s, _ = decision.expected["b"]
    assert start_s >= NOW_S + 900.0
    ended = place([waiting], view, NOW_S, policy=policy)
    assert [start.job_id for start in ended.placements] == ["b"]
    late = place([job("c", way(1, run_s=101.0))], view, NOW_S, policy=policy)
    assert not late.placements and late.expected["c"][0] == COMING[0].end_s


@every_policy
def test_projects_that_hold_most_of_another_kind_do_not_take_the_same_core_from_each_other(policy):
    """Half of the GPUs is the largest share of both, however many cores each has beside it."""
    view = pool(node(cpus=4, gpus=2))
    jobs = [
        job("a", way(1, kind="cuda"), at=92.0, project="p"),
        job("b", way(2), at=51.0, project="p", can_pause=True),
        job("c", way(1), at=33.0, project="q", can_pause=True),
        job("d", way(2), at=58.0, project="r"),
        job("e", way(1, kind="cuda"), at=69.0, project="q"),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy)


@every_policy
def test_a_project_that_gives_of_two_kinds_is_not_left_poorer_than_who_takes(policy):
    """Memory is short as well: a core of one of its jobs and the memory of another would do."""
    view = pool(node(cpus=4, gpus=3, memory_gib=32))
    jobs = [
        job("a", way(1, memory_gib=12), at=89.0, project="r", can_pause=True),
        job("b", way(2, memory_gib=20), at=51.0, project="q"),
        job("c", way(1, kind="cuda", memory_gib=4), at=13.0, project="p", can_pause=True),
        job("d", way(2), at=46.0, project="p", can_pause=True),
        job("e", way(1, kind="cuda"), at=9.0, project="r"),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy)


@every_policy
def test_what_a_job_that_finds_no_place_made_room_is_not_given_to_a_third(policy):
    """Where gangs span nodes memory and reservations show only when devices are looked for."""
    view = pool(
        node("n0", cpus=5, models={"cpu0": "A", "cpu3": "A"}, reserved={"cpu4": COMING}),
        node("n1", cpus=0, gpus=1, memory_gib=2, level=1),
        node("n2", cpus=1, memory_gib=32),
        node("n3", cpus=0, gpus=1, memory_gib=2, level=1),
        spans=True,
    )
    jobs = [
        job("a", way(2), at=8.0, project="p", can_pause=True),
        job("b", way(2), at=25.0, project="p", can_pause=True),
        job("c", way(2, kind="cuda"), at=37.0, project="p"),
        job("d", way(2), at=65.0, project="q"),
        job("e", way(2, memory_gib=20), at=44.0, project="q"),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy)


@every_policy
def test_of_jobs_that_started_together_who_goes_before_others_is_not_the_one_that_borrows(policy):
    """By their names it was: then an owner paused it, and it paused him, as it goes before him."""
    view = pool(node(cpus=3), spans=True)
    jobs = [
        job("a", way(2, run_s=50.0), at=94.0, project="r", can_pause=True),
        job("b", way(1, run_s=100.0), at=74.0, project="q", can_pause=True),
        job("c", way(2, run_s=400.0), at=40.0, project="q", priority=1, can_pause=True),
    ]
    assert comes_to_rest(jobs, view, NOW_S, policy=policy, quotas={"q": lends(2)})
