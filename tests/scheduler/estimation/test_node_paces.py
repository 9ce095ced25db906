"""Nodes of unlike pace are found by their finished jobs, alike ones are not told apart, and names do not flap."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.learning import Finished, corrected
from scheduler.estimation.node_paces import FROM, LEAST, NEWEST, Seen, coarse, node_paces
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.kinds import kind_name
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)
ALIKE = {"a": 1.0, "b": 1.0}


def seen(
    seed: int,
    paces: dict[str, float],
    *,
    each: int = NEWEST,
    programs: int = 6,
    apart: bool = False,
    noise: float = 0.08,
) -> list[Seen]:
    """Jobs in turn on all nodes: of programs whose estimates are off by 15 %, under a common error of a third."""
    draw = np.random.default_rng(seed)
    off = draw.normal(0.0, 0.15, programs * len(paces))
    found = []
    for _ in range(each):
        for number, (node, pace) in enumerate(paces.items()):
            program = int(draw.integers(programs)) + (programs * number if apart else 0)
            found.append(Seen(node, program, 0.3 + math.log(pace) + off[program] + draw.normal(0.0, noise)))
    return found


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.floats(1.3, 3.0), st.booleans())
def test_a_node_of_another_pace_is_recovered_within_its_range(seed: int, size: float, is_slow: bool) -> None:
    true = size if is_slow else 1.0 / size
    found = node_paces(seen(seed, {"a": 1.0, "b": true, "c": 1.0}), {**ALIKE, "c": 1.0})
    told = found["b"]
    assert told.factor == pytest.approx(true, rel=0.2)
    assert told.low / 1.1 < true < told.high * 1.1, "shrunk towards 1 it may lie a little outside"
    assert told.n_jobs <= NEWEST
    assert (told.step > 1.0) == is_slow and told.step == pytest.approx(told.factor, rel=0.06)
    assert (found["a"].step, found["c"].step) == (1.0, 1.0)


def test_alike_nodes_are_rarely_told_apart() -> None:
    """Of 500 pools of four, with programs of their own or shared ones, on quiet hosts and loud ones."""
    for others, most in (({}, 2), ({"apart": True}, 5), ({"noise": 0.2}, 25)):
        pool = dict.fromkeys("abcd", 1.0)
        found = [node_paces(seen(seed, pool, **others), pool) for seed in range(500)]
        assert sum(any(pace.step != 1.0 for pace in one.values()) for one in found) <= most, others


def test_a_node_is_not_blamed_for_the_programs_that_run_there_alone() -> None:
    """Each has one program, and that of b is 40 % slower than foretold: nobody can say that b is."""
    jobs = [Seen(node, ord(node), error) for node, error in (("a", 0.0), ("b", math.log(1.4))) for _ in range(NEWEST)]
    found = node_paces(jobs, ALIKE)
    assert found["b"].low < 1.0 < found["b"].factor and found["b"].step == 1.0
    both = [Seen(node, program, error) for node, _, error in jobs for program in (1, 2)]
    assert node_paces(both, ALIKE)["b"].step == 1.4


def test_few_jobs_say_nothing_of_a_node_and_leave_what_was_known() -> None:
    few = seen(1, {"a": 1.0, "b": 2.0}, each=LEAST - 1)
    assert node_paces(few, ALIKE) == {} == node_paces([], ALIKE) == node_paces(few, {})
    assert node_paces(seen(1, {"b": 2.0}), ALIKE) == {}, "one node has nothing to be compared with"


def test_of_a_node_its_newest_jobs_count_and_a_wild_one_does_not() -> None:
    before, after = seen(1, {"a": 1.0, "b": 2.0}), seen(2, {"a": 1.0, "b": 1.0})
    assert node_paces([*before, *after], ALIKE)["b"].step == 1.0
    jobs = seen(3, {"a": 1.0, "b": 1.0})
    jobs[-1] = jobs[-1]._replace(error=5.0)
    found = node_paces(jobs, ALIKE)["b"]
    assert (found.n_jobs, found.step) == (NEWEST - 1, 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.12, FROM, 1.2, 1.25, 1.3, 1.45]))
def test_names_do_not_flap_while_jobs_come_in(seed: int, true: float) -> None:
    """A node at the edge of a step keeps the name that it has got, but for rare changes."""
    jobs, step, changes = seen(seed, {"a": 1.0, "b": true}, each=60, noise=0.06), 1.0, 0
    for end in range(2 * LEAST, len(jobs), 2):
        found = node_paces(jobs[:end], {"a": 1.0, "b": step})
        changes += found.get("b") is not None and found["b"].step != step
        step = found["b"].step if "b" in found else step
    assert changes <= 5


@given(st.floats(0.1, 10.0))
def test_a_step_is_coarse_and_never_1(factor: float) -> None:
    step = coarse(factor)
    assert max(step, 1 / step) >= 1.2 and (step > 1) == (factor > 1)
    assert kind_name("Xeon", pace=step) == kind_name("Xeon", pace=float(f"{step:.6f}"))


def finished(paces: dict[str, float], *, each: int = NEWEST, common: float = 1.2) -> list[Finished]:
    """Jobs of six programs on each node, that took so many times what the prior says."""
    found = []
    for number in range(each):
        work = workload(filters=8 + number % 6)
        step_s = common * estimate(work, allocation(), PRIOR).step_s.mid
        for node, pace in paces.items():
            found.append(Finished(workload=work, allocation=allocation(), step_s=pace * step_s, nodes=(node,)))
    return found


def paced(model: DeviceModel, pace: float) -> float:
    """Seconds of a step on devices of that pace."""
    way = replace(allocation(), model_name=kind_name(NAME, pace=pace))
    return estimate(workload(), way, replace(model, pace=pace)).step_s.mid


def test_jobs_of_a_slow_node_make_the_estimates_of_the_others_no_worse_and_its_own_right() -> None:
    alone = corrected(PRIOR, finished({"a": 1.0}), in_force={"a": 1.0})
    model = corrected(PRIOR, finished({"a": 1.0, "b": 1.5}), in_force=ALIKE)
    assert model.correction.paces["b"].step == 1.5 and model.correction.n_left_out == 0
    assert model.correction.factor == pytest.approx(alone.correction.factor, rel=0.04)
    assert paced(model, 1.0) == pytest.approx(1.2 * paced(PRIOR, 1.0), rel=0.04)
    assert paced(model, 1.5) == pytest.approx(1.5 * paced(model, 1.0))
    mixed = corrected(PRIOR, finished({"a": 1.0, "b": 1.5})).correction.factor
    assert mixed > 1.1 * model.correction.factor, "where nothing is known of the pool one factor holds both"


def test_jobs_over_several_nodes_count_as_on_the_slowest_of_them() -> None:
    jobs = finished({"a": 1.0, "b": 1.5})
    gangs = [replace(job, nodes=("a", "b"), step_s=1.5 * job.step_s) for job in finished({"a": 1.0})]
    found = corrected(PRIOR, [*jobs, *gangs], in_force={"a": 1.0, "b": 1.5}).correction
    assert found.factor == pytest.approx(corrected(PRIOR, jobs, in_force=ALIKE).correction.factor, rel=0.03)


def test_a_pace_goes_the_way_of_the_model_through_json() -> None:
    model = corrected(PRIOR, finished({"a": 1.0, "b": 1.5}), in_force=ALIKE)
    assert DeviceModel.from_dict(model.to_dict()) == model
    body = PRIOR.to_dict()
    del body["correction"]["paces"], body["pace"]
    assert DeviceModel.from_dict(body) == PRIOR, "as they were kept before"


def test_a_probe_on_a_slow_node_says_of_the_others_that_they_are_faster() -> None:
    model, way = replace(PRIOR, pace=1.5), replace(allocation(), model_name=kind_name(NAME, pace=1.5))
    probe = Probe(allocation=allocation(), step_s=(3.0,), pace=1.5, evaluation_row_s=0.03)
    there = estimate(workload(), way, model, probe=probe)
    other = estimate(workload(), allocation(), PRIOR, probe=probe)
    assert (there.step_s.mid, other.step_s.mid) == (pytest.approx(3.0), pytest.approx(2.0))
    assert there.step_s.high / there.step_s.mid < other.step_s.high / other.step_s.mid, "it ran on the one itself"
    assert there.run_s.mid > other.run_s.mid


def test_the_note_says_which_node_and_by_how_many_jobs() -> None:
    model = replace(corrected(PRIOR, finished({"a": 1.0, "b": 1.5}), in_force=ALIKE), pace=1.5)
    note = estimate(workload(), replace(allocation(), model_name=kind_name(NAME, pace=1.5)), model).note
    assert "steps on b are 1.5 times as slow as on other nodes with such devices, as 16 finished jobs showed" in note
    assert "32 finished jobs" in note


def test_a_node_is_not_blamed_for_the_ranks_of_the_jobs_that_run_there() -> None:
    """What several ranks cost each other is assumed: where one node alone runs gangs, nobody knows which it is."""
    alone = finished({"a": 1.0})
    gangs = [
        replace(job, nodes=("b",), allocation=way, step_s=1.4 * estimate(job.workload, way, PRIOR).step_s.mid)
        for job in alone
        for way in [allocation(2, rows=(16, 16))]
    ]
    assert corrected(PRIOR, [*alone, *gangs], in_force=ALIKE).correction.paces["b"].step == 1.0
    more = finished({"b": 1.4})[:6]
    assert corrected(PRIOR, [*alone, *gangs, *more], in_force=ALIKE).correction.paces["b"].step != 1.0
