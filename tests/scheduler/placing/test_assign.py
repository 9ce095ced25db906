from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.place import place
from scheduler.placing.assign import assign
from scheduler.types import ChangeKind, Plan, Reserved
from tests.scheduler.pools import GIB, held_by, job, node, pool, runs, way

NAMES_ON = (("a", "n1"), ("b", "n2"))


def cores(counts, at):
    """Names of the cores that the job at this place has, of jobs that hold so many each."""
    first = sum(counts[:at])
    return [f"cpu{index}" for index in range(first, first + counts[at])]


def placed(decision):
    return {start.job_id: start for start in decision.placements}


def test_a_small_job_goes_where_least_is_left_over():
    view = pool(node("n1", cpus=4), node("n2", cpus=2))
    assert placed(place([job("a", way(2))], view, 0.0, policy="fifo"))["a"].node == "n2"


@pytest.mark.parametrize("others", [[], [job("b", replace(way(2), mode="single"), at=1.0)]])
def test_a_wide_gang_takes_the_fewest_nodes_and_one_rack_if_that_has_enough(others):
    """Also beside a job that stays on one node."""
    racks = [node(f"n{at}", cpus=4 if at < 2 else 3, near=f"rack{at % 2}") for at in range(6)]
    start = placed(place([job("a", way(7)), *others], pool(*racks, spans=True), 0.0, policy="fifo"))["a"]
    assert start.nodes == ("n0", "n2")
    assert len(start.device_ids) == 7
    wider = placed(place([job("a", way(15)), *others], pool(*racks, spans=True), 0.0, policy="fifo"))["a"]
    assert len(wider.nodes) == 5


def test_of_racks_that_have_enough_a_gang_takes_the_one_where_it_lies_on_the_fewest_nodes():
    slim, wide = (
        [node(f"{rack}{at}", cpus=cpus, near=rack) for at in range(4)] for rack, cpus in (("slim", 2), ("wide", 3))
    )
    for racks in ([*slim, *wide], [*wide, *slim]):
        start = placed(place([job("a", way(6))], pool(*racks, spans=True), 0.0, policy="fifo"))["a"]
        assert start.nodes == ("wide0", "wide1")


def test_a_gang_prefers_devices_of_one_model():
    view = pool(node("n1", gpus=4, cpus=0, models={"cuda0": "A", "cuda1": "B", "cuda2": "B", "cuda3": "A"}))
    start = placed(place([job("a", way(2, kind="cuda"))], view, 0.0, policy="fifo"))["a"]
    assert start.device_ids == ("n1/cuda0", "n1/cuda3")
    mixed = placed(place([job("a", way(3, kind="cuda"))], view, 0.0, policy="fifo"))["a"]
    assert len(set(mixed.device_ids)) == 3


def test_reserved_devices_are_left_to_those_they_are_kept_for():
    keep = {"cpu0": (Reserved(start_s=100.0, end_s=200.0, project="p"),)}
    view = pool(node(cpus=1, reserved=keep))
    for project, run_s, now_s, starts in [
        ("q", 50.0, 0.0, True),
        ("q", 150.0, 0.0, False),
        ("p", 150.0, 0.0, True),
        ("q", 10.0, 150.0, False),
        ("q", 10.0, 200.0, True),
    ]:
        decision = place([job("a", way(run_s=run_s), project=project)], view, now_s, policy="fifo")
        assert bool(decision.placements) == starts, (project, run_s, now_s)
    late = place([job("a", way(run_s=150.0), project="q")], view, 0.0, policy="fifo")
    assert late.waits["a"].code == "reserved"
    assert late.expected["a"] == (200.0, 350.0)


def test_a_job_that_shrinks_keeps_the_devices_where_it_has_most():
    view = pool(node("n1", cpus=1), node("n2", cpus=3), spans=True)
    wide = runs(job("a", way(4), way(3), can_pause=True), "n1", "cpu0")
    wide = replace(
        wide, running=replace(wide.running, nodes=("n1", "n2"), device_ids=("n1/cpu0", "n2/cpu0", "n2/cpu1", "n2/cpu2"))
    )
    done = assign([wide], held_by([wide], view), Plan(allotments={"a": way(3)}), 0.0)
    assert [(change.kind, change.device_ids) for change in done.changes] == [
        (ChangeKind.RESIZE, ("n2/cpu0", "n2/cpu1", "n2/cpu2"))
    ]


def test_a_gang_holds_on_each_node_the_memory_of_its_devices_there():
    held = runs(job("a", way(4, memory_gib=8)), "n1").running
    assert replace(held, nodes=("n1", "n2"), counts=(3, 1)).memory_on == {"n1": 6 * GIB, "n2": 2 * GIB}
    assert replace(held, nodes=("n1", "n2")).memory_on == {"n1": 4 * GIB, "n2": 4 * GIB}
    assert replace(held, option=way(4)).memory_on == {}


def test_a_job_that_grows_stays_on_its_node_and_waits_for_nobody():
    view = pool(node("n1", cpus=4), node("n2", cpus=8))
    small = runs(job("a", way(2), way(4), can_pause=True), "n1", "cpu1", "cpu2")
    done = assign([small], held_by([small], view), Plan(allotments={"a": way(4)}), 0.0)
    (change,) = done.changes
    assert change.nodes == ("n1",) and set(change.device_ids) == {f"n1/cpu{at}" for at in range(4)}
    assert change.waits_for == ()


def test_a_growth_for_which_there_is_no_room_leaves_the_job_as_it_is():
    view = pool(node("n1", cpus=2))
    small = runs(job("a", way(2), way(4), can_pause=True), "n1", "cpu0", "cpu1")
    done = assign([small], held_by([small], view), Plan(allotments={"a": way(4)}), 0.0)
    assert (done.running, done.changes) == (["a"], [])


def test_nobody_is_paused_for_a_job_that_finds_no_place_even_so():
    view = pool(node("n1", cpus=2), node("n2", cpus=2))
    old = runs(job("old", way(1), can_pause=True), "n1", "cpu0")
    done = assign([old, job("new", way(4))], held_by([old], view), Plan(allotments={"new": way(4)}), 0.0)
    assert (done.running, done.changes, done.unplaced) == (["old"], [], ["new"])


def test_nobody_is_paused_whose_devices_nobody_takes():
    view = pool(node("n1", cpus=2), node("n2", cpus=2))
    old = [runs(job(name, way(2), can_pause=True, project="p"), where, "cpu0", "cpu1") for name, where in NAMES_ON]
    jobs, plan = [*old, job("new", way(2), project="p")], Plan(allotments={"new": way(2)})
    done = assign(jobs, held_by(old, view), plan, 0.0)
    assert ([change.job_id for change in done.changes], done.running) == (["a"], ["b"])
    assert done.placements[0].waits_for == ("a",)
    # Within a quota it is the number of its devices that counts, wherever they are.
    limited = assign(jobs, held_by(old, view), plan, 0.0, limited={"p"})
    assert [change.job_id for change in limited.changes] == ["a", "b"]


def test_a_narrow_job_has_one_wide_run_paused_and_not_the_runs_beside_it_too():
    """The policy plans with numbers of devices: that they lie apart made it pause three."""
    view = pool(*(node(name, cpus=4) for name in ("n0", "n1", "n2")))
    held = {"n0": (1, 1, 2), "n1": (1, 3), "n2": (1, 1, 1, 1)}
    known = iter(((3, 4083), (0, 5781), (1, 5368), (1, 3811), (4, 4920), (1, 737), (5, 760), (1, 2517), (5, 1238)))
    running = [
        runs(job(f"{name}.{at}", way(count, run_s=run_s), at=at_s, can_pause=True), name, *cores(counts, at))
        for name, counts in held.items()
        for at, (count, (at_s, run_s)) in enumerate(zip(counts, known, strict=False))
    ]
    new = job("new", way(3, run_s=1200), at=9900.0, deadline_s=11230.0, promised=True, can_pause=True)
    decision = place([*running, new], held_by(running, view), 10000.0, policy="deadline_energy")
    assert [change.job_id for change in decision.changes] == ["n1.1"]
    assert placed(decision)["new"].waits_for == ("n1.1",)
    assert decision.expected["n2.1"] == (0.0, 10760.0)


def test_a_start_on_devices_of_somebody_who_leaves_says_whom_it_waits_for():
    view = pool(node(cpus=1))
    leaver = runs(job("old", way(), at=0.0), "n1", "cpu0", leaving=True)
    decision = place([leaver, job("new", at=1.0, priority=1)], held_by([leaver], view), 5.0, policy="fifo")
    assert placed(decision)["new"].waits_for == ("old",)
    assert decision.waits["old"].code == "paused"
    assert decision.changes == ()


def test_jobs_on_a_draining_node_go_on_and_are_not_touched():
    view = pool(node("n1", cpus=2, takes_work=False), node("n2", cpus=1))
    low = runs(job("low", way(2), can_pause=True, priority=-5), "n1", "cpu0", "cpu1")
    decision = place([low, job("high", way(1), priority=5)], held_by([low], view), 0.0, policy="fifo")
    assert decision.running == ("low",) and decision.changes == ()
    assert placed(decision)["high"].node == "n2"
