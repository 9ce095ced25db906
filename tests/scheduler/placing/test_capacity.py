"""What policies are shown of jobs: only options by which they could run, and what they hold already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.place import place
from scheduler.placing.capacity import shown
from scheduler.policies import names
from scheduler.types import WaitCode
from tests.scheduler.pools import GIB, held_by, job, node, pool, runs, way

NOW_S = 200.0
every_policy = pytest.mark.parametrize("policy", names())


def options_of(jobs, view):
    """The options of the first job, as a policy sees them."""
    return shown(jobs, held_by(jobs, view), 0.0, {}).jobs[0].options


def test_a_run_on_devices_that_none_of_its_options_names_keeps_them_and_loses_those_that_are_not_there():
    """It began before its program was read; the GPU that it was offered since has gone."""
    core, gpu = way(run_s=50.0, model="EPYC"), way(kind="cuda", run_s=5.0, model="T4")
    begun = way()
    view = pool(node("n1", cpus=2, models={"cpu0": "EPYC", "cpu1": "EPYC"}))
    running = runs(job("j", core, gpu, can_pause=True), "n1", "cpu0", option=begun)
    assert options_of([running], view) == (core, begun)


def test_a_run_wider_than_the_pool_is_now_keeps_its_width_in_the_order_of_its_options():
    wide, narrow = way(3, run_s=20.0), way(1, run_s=50.0)
    view = pool(node("n1", cpus=2))
    running = runs(job("j", wide, narrow, can_pause=True), "n1", "cpu0", "cpu1")
    assert options_of([running], view) == (wide, narrow)
    assert options_of([job("j", wide, narrow)], view) == (narrow,)


def test_what_a_run_holds_brings_no_like_option_back_that_has_no_room():
    roomy, tight = way(2, run_s=20.0, memory_gib=20), way(2)
    view = pool(node("n1", cpus=2))
    running = runs(job("j", roomy, tight, can_pause=True), "n1", "cpu0", "cpu1", option=tight)
    assert options_of([running], view) == (tight,)


@every_policy
@pytest.mark.parametrize(
    ("wish", "most"), [(way(1, run_s=50.0, memory_gib=20), 0), (way(3, run_s=50.0, memory_gib=45), 2)]
)
def test_where_gangs_span_nodes_nothing_is_kept_for_a_job_whose_memory_no_nodes_have(policy, wish, most):
    """It has devices on paper for ever: nobody behind it would start."""
    view = pool(node("n1", cpus=2), node("n2", cpus=1), spans=True)
    jobs = [job("large", wish), job("small", way(3, run_s=50.0, memory_gib=24), at=1.0)]
    found = place(jobs, view, NOW_S, policy=policy)
    assert [start.job_id for start in found.placements] == ["small"]
    assert found.waits["large"].code is WaitCode.NOT_ENOUGH_MEMORY
    share = f"{wish.memory_bytes // wish.count // GIB} GiB"
    said = f"It asks for {share} per device; the nodes have memory for {most} of {wish.count}."
    assert found.waits["large"].text == said


def test_where_gangs_span_nodes_one_process_is_told_that_no_node_has_so_many():
    view = pool(node("n1", cpus=1), node("n2", cpus=1), spans=True)
    found = place([job("j", replace(way(2), mode="single"))], view, NOW_S)
    assert found.waits["j"].code is WaitCode.TOO_MANY_DEVICES
    assert found.waits["j"].text == "It needs 2 CPU cores on one node; the largest that takes work has 1."
