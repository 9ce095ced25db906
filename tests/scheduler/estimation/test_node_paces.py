"""Nodes of unlike pace are found by their finished jobs, alike ones are not told apart; ranges hold what is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import NodePace
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.node_paces import FROM, LEAST, NEWEST, Seen, node_paces
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)


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
@given(st.integers(0, 10**6), st.floats(1.4, 3.0), st.booleans())
def test_a_node_of_another_pace_is_recovered_within_its_range(seed: int, size: float, is_slow: bool) -> None:
    true = size if is_slow else 1.0 / size
    found = node_paces(seen(seed, {"a": 1.0, "b": true, "c": 1.0}), {})
    assert list(found) == ["b"], "the others have none of their own"
    told = found["b"]
    assert told.factor == pytest.approx(true, rel=0.2) and (told.factor > FROM or told.factor < 1.0 / FROM)
    assert told.low / 1.1 < true < told.high * 1.1, "shrunk towards 1 it may lie a little outside"
    assert told.n_jobs <= NEWEST


def test_alike_nodes_are_rarely_told_apart() -> None:
    """Of 500 pools of four, with programs of their own or shared ones, on quiet hosts and loud ones."""
    for others, most in (({}, 2), ({"apart": True}, 5), ({"noise": 0.2}, 25)):
        pool = dict.fromkeys("abcd", 1.0)
        assert sum(bool(node_paces(seen(seed, pool, **others), {})) for seed in range(500)) <= most, others


def test_a_node_is_not_blamed_for_the_programs_that_run_there_alone() -> None:
    """Each has one program, and that of b is 40 % slower than foretold: nobody can say that b is."""
    jobs = [Seen(node, ord(node), error) for node, error in (("a", 0.0), ("b", math.log(1.4))) for _ in range(NEWEST)]
    assert node_paces(jobs, {}) == {}
    both = [Seen(node, program, error) for node, _, error in jobs for program in (1, 2)]
    assert node_paces(both, {})["b"].factor == pytest.approx(1.4, rel=0.1)


def test_few_jobs_say_nothing_of_a_node_and_leave_what_was_known() -> None:
    few, before = (
        seen(1, {"a": 1.0, "b": 2.0}, each=LEAST - 1),
        {"b": NodePace(factor=2.0, low=1.8, high=2.2, n_jobs=9)},
    )
    assert node_paces(few, {}) == {} == node_paces([], {})
    assert node_paces(few, before) == before == node_paces([], before)
    assert node_paces(seen(1, {"b": 2.0}), {}) == {}, "one node has nothing to be compared with"


def test_nodes_that_have_paces_are_not_compared_with_each_other_alone() -> None:
    """Else the slow ones would become what all devices take once the others have no jobs left."""
    jobs = seen(1, {"a": 1.0, "b": 2.0, "c": 2.0, "d": 1.0, "e": 1.0})
    before = node_paces(jobs, {})
    assert list(before) == ["b", "c"]
    left = [one for one in jobs if one.node in before]
    assert node_paces(left, before) == before and node_paces(left, {}) == {}


def test_of_a_node_its_newest_jobs_count_and_a_wild_one_does_not() -> None:
    before, after = seen(1, {"a": 1.0, "b": 2.0}), seen(2, {"a": 1.0, "b": 1.0})
    known = node_paces(before, {})
    assert list(known) == ["b"] and node_paces([*before, *after], known) == {}
    jobs = seen(3, {"a": 1.0, "b": 1.0})
    jobs[-1] = jobs[-1]._replace(error=5.0)
    assert node_paces(jobs, {}) == {}


def finished(paces: dict[str, float], *, each: int = NEWEST, common: float = 1.2) -> list[Finished]:
    """Jobs of six programs on each node, that took so many times what the prior says."""
    found = []
    for number in range(each):
        work = workload(filters=8 + number % 6)
        step_s = common * estimate(work, allocation(), PRIOR).step_s.mid
        for node, pace in paces.items():
            found.append(Finished(workload=work, allocation=allocation(), step_s=pace * step_s, nodes=(node,)))
    return found


def test_jobs_of_a_slow_node_leave_the_middle_and_widen_the_range_to_what_it_takes() -> None:
    alone, model = corrected(PRIOR, finished({"a": 1.0})), corrected(PRIOR, finished({"a": 1.0, "b": 1.5}))
    pace = model.paces["b"].factor
    assert list(model.paces) == ["b"] and model.correction.n_left_out == 0 and pace == pytest.approx(1.5, rel=0.1)
    assert model.correction.factor == pytest.approx(alone.correction.factor, rel=0.04)
    wide, narrow = (estimate(workload(), allocation(), one) for one in (model, replace(model, paces={})))
    assert (wide.step_s.low, wide.step_s.mid) == (narrow.step_s.low, narrow.step_s.mid)
    assert wide.step_s.high == pytest.approx(pace * narrow.step_s.high)
    assert (wide.run_s.low, wide.run_s.mid) == (narrow.run_s.low, narrow.run_s.mid)
    assert wide.run_s.high > 1.2 * narrow.run_s.high


def test_a_fast_node_widens_the_range_downwards() -> None:
    model = corrected(PRIOR, finished({"a": 1.0, "b": 0.5, "c": 1.0}))
    wide, narrow = (estimate(workload(), allocation(), one) for one in (model, replace(model, paces={})))
    assert wide.step_s.low == pytest.approx(model.paces["b"].factor * narrow.step_s.low)
    assert (wide.step_s.mid, wide.step_s.high) == (narrow.step_s.mid, narrow.step_s.high)


def test_the_common_factor_does_not_drift_to_a_slow_node_that_alone_has_jobs_left() -> None:
    both = corrected(PRIOR, finished({"a": 1.0, "b": 1.5}))
    left = corrected(PRIOR, finished({"b": 1.5}), before=both.paces)
    assert left.paces == both.paces
    assert left.correction.factor == pytest.approx(both.correction.factor, rel=0.04)
    assert corrected(PRIOR, [], before=both.paces).paces == both.paces


def test_jobs_over_several_nodes_count_as_on_the_slowest_of_them() -> None:
    jobs = finished({"a": 1.0, "b": 1.5})
    gangs = [replace(job, nodes=("a", "b"), step_s=1.5 * job.step_s) for job in finished({"a": 1.0})]
    found = corrected(PRIOR, [*jobs, *gangs]).correction
    assert found.factor == pytest.approx(corrected(PRIOR, jobs).correction.factor, rel=0.03)


def test_a_pace_goes_the_way_of_the_model_through_json() -> None:
    model = corrected(PRIOR, finished({"a": 1.0, "b": 1.5}))
    assert model.paces and DeviceModel.from_dict(model.to_dict()) == model
    body = PRIOR.to_dict()
    del body["paces"]
    assert DeviceModel.from_dict(body) == PRIOR, "as they were kept before"


def test_a_probe_on_a_slow_node_says_of_the_others_that_they_are_faster() -> None:
    model = replace(PRIOR, paces={"b": NodePace(factor=1.5, low=1.4, high=1.6, n_jobs=16)})
    probe = Probe(allocation=allocation(), step_s=(3.0,), node="b", evaluation_row_s=0.03)
    there = estimate(workload(), allocation(), model, probe=probe)
    other = estimate(workload(), allocation(), model, probe=replace(probe, node="a"))
    assert (there.step_s.mid, other.step_s.mid) == (pytest.approx(2.0), pytest.approx(3.0))
    assert there.step_s.high > 3.0, "it may run there again"
    assert there.run_s.mid < other.run_s.mid
    drained = replace(model, paces={"b": replace(model.paces["b"], takes_work=False)})
    gone = estimate(workload(), allocation(), drained, probe=probe)
    assert gone.step_s.mid == pytest.approx(2.0) and gone.step_s.high < there.step_s.high


def test_the_note_says_which_node_and_by_how_many_jobs() -> None:
    model = corrected(PRIOR, finished({"a": 1.0, "b": 1.5}))
    note = estimate(workload(), allocation(), model).note
    assert "times as long on b as on other nodes with such devices, as 16 finished jobs showed" in note
    assert "32 finished jobs" in note


def test_a_node_is_not_blamed_for_how_the_rows_of_its_jobs_are_shared_out() -> None:
    """What ranks cost each other, and rows at once, is assumed: where one node alone runs so, nobody knows which."""
    alone = finished({"a": 1.0})
    for way in (allocation(2, rows=(16, 16)), allocation(1, rows=(64,))):
        others = [
            replace(job, nodes=("b",), allocation=way, step_s=1.4 * estimate(job.workload, way, PRIOR).step_s.mid)
            for job in alone
        ]
        assert corrected(PRIOR, [*alone, *others]).paces == {}
        assert "b" in corrected(PRIOR, [*alone, *others, *finished({"b": 1.6})]).paces
