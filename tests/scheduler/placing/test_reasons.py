"""Why a job waits where something is reserved: that is named where it is waited for, beside the jobs, and not else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.place import place
from scheduler.types import Reserved
from tests.scheduler.pools import held_by, job, node, pool, runs, way

NOW_S = 1000.0
LOOK = Reserved(start_s=NOW_S - 10.0, end_s=NOW_S + 900.0, purpose="look")
POLICIES = ["fifo", "deadline_energy"]


def waits(jobs, view, name="wide", policy="deadline_energy"):
    return place(jobs, held_by(jobs, view), NOW_S, policy=policy).waits[name]


def small_on(core, **more):
    return runs(job("small", way(1, run_s=300.0), at=NOW_S - 5.0, **more), "n1", core, since=NOW_S - 5.0)


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("run_s", [60.0, 0.0])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_waits_for_a_job_and_for_a_reservation_is_told_of_both(policy, run_s, spans):
    view = pool(node(cpus=2, reserved={"cpu0": (LOOK,)}), spans=spans)
    told = waits([small_on("cpu1"), job("wide", way(2, run_s=run_s), at=NOW_S - 60.0)], view, policy=policy)
    assert told.code == "reserved" and told.kept_until_s == LOOK.end_s
    assert told.text.endswith("free, and 1 is reserved (look), now or before it would end.")
    assert (
        told.remedy == "It starts once jobs have given back what else it needs, and the reservation ends or is lifted."
    )
    assert spans or told.holders == ("small",)


def test_what_is_free_and_reserved_says_until_when():
    view = pool(node(cpus=2, reserved={"cpu0": (LOOK,), "cpu1": (replace(LOOK, end_s=NOW_S + 50.0),)}))
    told = waits([job("wide", way(2, run_s=60.0))], view)
    assert told.text == "It needs 2 CPU cores; what is free on n1 is reserved (look), now or before it would end."
    assert told.kept_until_s == LOOK.end_s
    assert waits([job("wide", way(1, run_s=60.0))], view).kept_until_s == NOW_S + 50.0


def test_a_reserved_device_on_which_a_job_still_runs_is_told_too():
    view = pool(node(cpus=2, reserved={"cpu1": (LOOK,)}))
    told = waits([small_on("cpu1"), job("wide", way(2, run_s=60.0))], view)
    assert told.text.endswith("n1 has 1 free, and 1 is reserved (look), now or before it would end.")


def test_a_reservation_is_not_told_where_jobs_alone_are_in_the_way():
    keeps = {"cpu0": (LOOK,)}
    view = pool(node(cpus=3, reserved=keeps))
    busy = [small_on("cpu1"), replace(small_on("cpu2"), job_id="other")]
    told = waits([*busy, job("wide", way(2, run_s=60.0))], view)
    assert "reserved" not in told.words and told.kept_until_s == 0.0
    assert (
        told.text == "It is planned on 2 CPU cores, once the jobs that run there, or are planned before it, have ended."
    )


def test_a_reservation_that_begins_after_it_would_have_ended_is_not_told():
    later = Reserved(start_s=NOW_S + 9e5, end_s=NOW_S + 1e6, purpose="look")
    view = pool(node(cpus=2, reserved={"cpu0": (later,)}))
    assert "reserved" not in waits([small_on("cpu1"), job("wide", way(2, run_s=60.0))], view).words
    long_run = waits([small_on("cpu1"), job("wide", way(2, run_s=2e6))], view)
    assert "and 1 is reserved (look)" in long_run.text


def test_a_job_that_is_planned_elsewhere_before_the_reservation_ends_is_told_of_that():
    view = pool(node(cpus=2, reserved={"cpu0": (LOOK,)}))
    told = waits([small_on("cpu1"), job("wide", way(2, run_s=600.0), way(1, run_s=900.0))], view)
    assert told.text.startswith("It is planned on 1 CPU core, once the jobs that run there")


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        (False, "It asks for 6 GiB and n1 has 2 GiB left."),
        (True, "It asks for 3 GiB for each device; beside the devices that are free there is memory left for 0 of 2."),
    ],
)
def test_who_waits_for_memory_beside_free_devices_is_told_so(spans, text):
    view = pool(node("n1", cpus=4, memory_gib=8), spans=spans)
    small = runs(job("small", way(1, run_s=300.0, memory_gib=6)), "n1", "cpu0")
    told = waits([small, job("wide", way(2, run_s=60.0, memory_gib=6))], view, policy="fifo")
    assert told.code == "memory_busy" and told.text.endswith(text)


def test_memory_on_several_nodes_that_is_enough_together_is_no_reason():
    nodes = [node(name, cpus=2, memory_gib=8) for name in ("n1", "n2")]
    small = runs(job("small", way(1)), "n1", "cpu0")
    before, wide = job("before", way(4)), job("wide", way(3, memory_gib=12), at=NOW_S - 1.0)
    told = waits([small, before, wide], pool(*nodes, spans=True), policy="fifo")
    assert told.code == "behind"


def test_a_job_whose_deadline_is_lost_is_told_what_else_it_waits_for():
    lost = job("wide", way(2, run_s=600.0), deadline_s=NOW_S + 60.0)
    told = waits([small_on("cpu1"), lost], pool(node(cpus=2)))
    assert told.text.startswith("Its deadline can no longer be kept") and told.text.endswith("n1 has 1 free.")
    assert told.remedy.startswith("It starts when 1 more is given back.") and told.holders == ("small",)
    kept = waits([lost], pool(node(cpus=2, reserved={"cpu0": (LOOK,)})))
    assert kept.code == "reserved" and "reserved (look)" in kept.text and kept.kept_until_s == LOOK.end_s
