"""What a device draws: a core the same whatever it runs, a GPU by how much of a step it computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation import fit_power as module
from scheduler.estimation.calibration import LEAST_POINTS, CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import POWER_HALF
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.fit_power import fit_power, fitted_power, held_out_w, work_shares
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Allocation, Basis
from tests.scheduler.made_workloads import points, workload

GPU = prior_for("cuda", "NVIDIA H200")
SHARES = np.array([0.0, 0.1, 0.3, 0.5, 0.8, 0.9, 1.0])


def on_gpu(rows: int) -> Allocation:
    return Allocation(kind="cuda", model_name="NVIDIA H200", count=1, mode="single", batch_split=(rows,))


def test_a_gpu_whose_host_keeps_it_waiting_draws_less_than_one_that_computes() -> None:
    waits = estimate(workload(filters=8, size=8, batch=8), on_gpu(8), GPU).power_w
    computes = estimate(workload(filters=512, size=128, batch=256), on_gpu(256), GPU).power_w
    assert GPU.power.waiting_w is not None
    assert GPU.power.idle_w < GPU.power.waiting_w < waits < computes < GPU.power.busy_w
    assert waits < computes / 2


def test_both_ends_are_found_from_readings_that_lie_on_a_line() -> None:
    found = fitted_power(110.0 + 380.0 * SHARES, SHARES, GPU.power)
    assert (found.waiting_w, found.busy_w) == (pytest.approx(110.0), pytest.approx(490.0))
    assert (found.idle_w, found.basis) == (GPU.power.idle_w, Basis.MEASURED)


@given(st.lists(st.tuples(st.floats(20.0, 900.0), st.floats(0.0, 1.0)), min_size=1, max_size=30))
def test_no_reading_makes_watts_that_fall_with_work_or_lie_below_nothing(read: list[tuple[float, float]]) -> None:
    found = fitted_power(np.array([watts for watts, _ in read]), np.array([share for _, share in read]), GPU.power)
    assert 0.0 <= found.at(0.0) <= found.at(0.5) <= found.at(1.0) < float("inf")
    assert found.idle_w <= found.at(0.0)


def read_on_gpus(count: int, factor: float) -> list[CalibrationPoint]:
    """Programs on so many GPUs, of which each draws `factor` of what it would alone."""
    told = [replace(point, kind="cuda", model_name="NVIDIA H200", count=count) for point in points(9)]
    shares = work_shares(GPU, told)
    watts = count * factor * (110.0 + 380.0 * shares)
    return [replace(point, power_w=float(one_w)) for point, one_w in zip(told, watts, strict=True)]


def test_gpus_that_wait_for_each_other_do_not_tell_what_one_draws_that_waits_for_its_host() -> None:
    found = fit_power([*read_on_gpus(1, 1.0), *read_on_gpus(2, 0.6)], GPU)
    assert (found.waiting_w, found.busy_w) == (pytest.approx(110.0), pytest.approx(490.0))
    assert fit_power(read_on_gpus(2, 0.6), GPU).basis is Basis.MEASURED, "where there is nothing else to go by"


def test_a_few_readings_give_one_figure_and_none_the_prior() -> None:
    few = fitted_power(np.full(LEAST_POINTS - 1, 300.0), SHARES[: LEAST_POINTS - 1], GPU.power)
    assert (few.waiting_w, few.busy_w) == (None, 300.0)
    assert fitted_power(np.zeros(0), np.zeros(0), GPU.power) == GPU.power


def test_a_core_draws_the_same_whatever_it_runs() -> None:
    told_w = (3.0, 5.0, 4.0, 4.0, 4.0, 9.0, 1.0)
    read = [replace(point, power_w=watts) for point, watts in zip(points(7), told_w, strict=True)]
    power = fit_device_model(read).power
    assert (power.waiting_w, power.busy_w) == (None, 4.0)
    assert power.at(0.1) == power.at(1.0) == 4.0


def test_of_a_core_nobody_asks_how_long_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "predict", lambda *_: pytest.fail("this takes as long as 360 points have operators"))
    assert work_shares(prior_for("cpu", "a core"), points(3)).tolist() == [0.0, 0.0, 0.0]


def test_what_is_held_out_is_told_by_the_others_alone() -> None:
    read_w = 110.0 + 380.0 * SHARES
    read_w[0] *= 3.0
    folds = np.array([0, 1, 1, 1, 1, 1, 1])
    assert held_out_w(read_w, SHARES, folds, GPU.power)[0] == pytest.approx(110.0)


def test_the_doubt_about_watts_is_what_programs_left_out_of_the_fit_were_off_by() -> None:
    told = [replace(point, power_w=4.0 * factor) for point, factor in zip(points(40), OFF, strict=True)]
    power = fit_device_model(told).power
    assert power.held_out_half == pytest.approx(np.log(1.5), rel=0.05)
    assert power.half == power.held_out_half
    held = [abs(np.log(factor)) <= power.half + 1e-9 for factor in OFF]
    assert np.mean(held) >= 0.8


OFF = (1.0, 1.2, 1 / 1.2, 1.5, 1 / 1.5) * 8
"""Of 40 readings, over what is usual: 4 of 10 are off by half."""


def test_where_too_few_were_read_the_basis_tells_the_doubt() -> None:
    few = fit_power([replace(point, power_w=4.0) for point in points(5)], prior_for("cpu", "a core"))
    assert (few.held_out_half, few.half) == (None, POWER_HALF[Basis.MEASURED])
    assert GPU.power.half == POWER_HALF[Basis.ASSUMED] > POWER_HALF[Basis.MODELLED] > few.half


def test_a_model_of_before_has_the_doubt_of_its_basis() -> None:
    body = GPU.to_dict()
    del body["power"]["held_out_half"]
    assert DeviceModel.from_dict(body) == GPU
