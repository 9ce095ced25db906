"""What policies are shown of jobs: only options by which they could run, and what they hold already."""

from __future__ import annotations

from scheduler.placing.capacity import shown
from tests.scheduler.pools import held_by, job, node, pool, runs, way


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
