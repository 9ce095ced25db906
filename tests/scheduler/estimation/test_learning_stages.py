"""Runs in stages teach how much longer steps in stages take than the model of one device says, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Correction
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Allocation
from tests.scheduler.made_workloads import KIND, NAME, allocation, workload

PRIOR = prior_for(KIND, NAME)
STAGED = replace(allocation(2, (32, 32)), mode="pipeline")


def job(way: Allocation, factor: float, number: int = 0, model: DeviceModel = PRIOR) -> Finished:
    work = workload(layers=4, filters=16 + number, batch=32)
    return Finished(
        workload=work, allocation=way, step_s=factor * estimate(work, way, model).step_s.mid, run_s=900.0,
        start_s=90.0, peak_bytes=9e9, nodes=("node-1",),
    )  # fmt: skip


def test_runs_in_stages_correct_steps_in_stages_and_leave_the_device_as_it_is() -> None:
    model = corrected(PRIOR, [job(STAGED, 1.3, number) for number in range(9)])
    assert model.stages == Correction(factor=pytest.approx(1.3 ** (9 / 12)), n_jobs=9)
    assert replace(model, stages=Correction()) == PRIOR
    work = workload(layers=4, filters=20, batch=32)
    taught, before = estimate(work, STAGED, model), estimate(work, STAGED, PRIOR)
    assert taught.step_s.mid == pytest.approx(1.3 ** (9 / 12) * before.step_s.mid)
    assert "9 finished runs in stages" in taught.note and "in stages" not in estimate(work, allocation(), model).note


def test_what_the_device_takes_is_not_held_against_stages() -> None:
    slow = replace(PRIOR, correction=Correction(factor=2.0))
    whole = [job(allocation(), 2.0, number) for number in range(60)]
    staged = [job(STAGED, 1.0, number, slow) for number in range(6)]
    model = corrected(PRIOR, whole + staged)
    assert model.correction.factor == pytest.approx(2.0, rel=0.05)
    assert model.stages.factor == pytest.approx(1.0, rel=0.05)


def test_a_run_in_stages_that_is_far_off_is_left_out_and_counted() -> None:
    staged = [*(job(STAGED, 1.2, number) for number in range(9)), job(STAGED, 6.0)]
    assert (corrected(PRIOR, staged).stages.n_jobs, corrected(PRIOR, staged).stages.n_left_out) == (9, 1)


def test_what_is_learnt_of_stages_is_kept_and_models_from_before_know_nothing_of_it() -> None:
    model = corrected(PRIOR, [job(STAGED, 1.3)])
    body = model.to_dict()
    assert DeviceModel.from_dict(body) == model
    body.pop("stages")
    assert DeviceModel.from_dict(body).stages == Correction()
