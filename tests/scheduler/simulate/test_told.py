"""The ways that an estimator told of a job, on the pool of a replay."""

from __future__ import annotations

import pytest

from scheduler.simulate.pool import SimPool
from scheduler.simulate.told import told_options
from scheduler.simulate.traces import Way
from scheduler.types import Option

RAN = Option(kind="cpu", count=1, rate_per_s=1 / 300, power_w=5.0)
WAYS = (
    Way(kind="cpu", count=1, run_s=100.0, power_w=6.0, model="Xeon", mode="single"),
    Way(kind="cpu", count=4, run_s=40.0, power_w=20.0, model="Xeon", mode="sync"),
    Way(kind="cuda", count=1, run_s=10.0, power_w=200.0, model="T4"),
    Way(kind="cuda", count=1, run_s=5.0, model="A100"),
)


def shown(options):
    return {(way.kind, way.model_name, way.count): (round(way.run_s, 6), way.power_w) for way in options}


def test_every_way_is_scaled_by_what_the_job_took_over_what_was_told():
    options = list(told_options(RAN, WAYS, SimPool.parse("1x4:cpu,1x1:T4")))
    assert options[0].run_s == pytest.approx(300.0), "as it ran comes first, as it was measured"
    assert shown(options) == {
        ("cpu", "cpu", 1): (300.0, 5.0),
        ("cpu", "cpu", 4): (120.0, 20.0),
        ("cuda", "T4", 1): (30.0, 200.0),
    }
    assert options[1].mode == "sync"


def test_gangs_that_fit_no_node_and_models_that_are_not_there_are_left_out():
    assert set(shown(told_options(RAN, WAYS, SimPool.parse("4x1:cpu", spans_nodes=False)))) == {("cpu", "cpu", 1)}
    assert set(shown(told_options(RAN, WAYS, SimPool.parse("1x2:A100")))) == {("cuda", "A100", 1)}


def test_a_way_of_unknown_power_draws_what_the_table_of_devices_says():
    (option,) = told_options(RAN, WAYS[3:], SimPool.parse("1x1:A100"))
    assert option.power_w == SimPool.parse("1x1:A100").parts[0].power.busy_w


def test_a_job_that_ran_as_nobody_foretold_keeps_that_way_beside_the_others():
    ran = Option(kind="cpu", count=3, rate_per_s=1 / 70, power_w=5.0)
    found = shown(told_options(ran, WAYS, SimPool.parse("1x8:cpu")))
    assert found == {("cpu", "cpu", 3): (70.0, 5.0), ("cpu", "cpu", 1): (100.0, 6.0), ("cpu", "cpu", 4): (40.0, 20.0)}


@pytest.mark.parametrize("wrong", [{"count": 0}, {"run_s": 0}, {"run_s": float("inf")}, {"power_w": -1}])
def test_a_way_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError):
        Way(**{"kind": "cpu", "count": 1, "run_s": 1.0} | wrong)
