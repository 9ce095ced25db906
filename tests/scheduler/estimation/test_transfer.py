"""A calibration of one core as the prior of another."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import POWER_HALF, Spread
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.intervals import log_range
from scheduler.estimation.learning import corrected
from scheduler.estimation.predict import predict
from scheduler.estimation.prior import prior_for
from scheduler.estimation.transfer import nearest, transferred
from scheduler.estimation.values import Basis
from tests.scheduler.made_workloads import KIND, NAME, allocation, points, true_step_s, workload

OTHER = "Other core"
"""With the same entry of the table as `NAME`."""


@pytest.fixture(scope="module")
def source() -> DeviceModel:
    return fit_device_model(points(50, seed=1))


@pytest.fixture(scope="module")
def model(source: DeviceModel) -> DeviceModel:
    return transferred(source, prior_for(KIND, OTHER))


def test_it_says_whose_calibration_it_is_and_is_never_called_measured(model: DeviceModel) -> None:
    found = estimate(workload(), replace(allocation(), model_name=OTHER), model)
    assert f"a calibration of {NAME} that ships with the harness" in found.note
    assert "calibrate to measure yours" in found.note and "nothing measured" not in found.note
    assert found.time_basis is found.memory_basis is Basis.MODELLED and found.energy_basis is Basis.ASSUMED
    assert model.key == (KIND, OTHER) and model.n_points == 0


def test_the_level_is_that_of_the_middle_of_the_machines_that_are_known(source: DeviceModel) -> None:
    some = [made.workload for made in points(8, seed=9)]
    middle = transferred(source, prior_for(KIND, OTHER), middle=1.5)
    assert predict(middle, some).log_step_s == pytest.approx(predict(source, some).log_step_s + np.log(1.5))


def test_a_core_of_the_same_entry_of_the_table_is_foretold_alike(source: DeviceModel, model: DeviceModel) -> None:
    some = [made.workload for made in points(8, seed=9)]
    assert predict(model, some).log_step_s == pytest.approx(predict(source, some).log_step_s)
    wide = predict(prior_for(KIND, OTHER), some).log_step_s
    truth = np.log([true_step_s(work) for work in some])
    assert np.abs(predict(model, some).log_step_s - truth).mean() < 0.5 * np.abs(wide - truth).mean()


def test_the_level_is_that_of_the_other_core_s_own_data_sheet(source: DeviceModel) -> None:
    xeon, other = figures_for(KIND, "Xeon"), figures_for(KIND, NAME)
    some = [workload(filters=200, batch=256)]
    faster = transferred(source, prior_for(KIND, "Xeon"))
    ratio = float(np.exp(predict(source, some).log_step_s - predict(faster, some).log_step_s)[0])
    assert 1.0 < ratio <= xeon.flops_per_s / other.flops_per_s + 1e-9


def test_its_ranges_are_wider_than_those_of_the_device_that_was_measured(
    source: DeviceModel, model: DeviceModel
) -> None:
    for work in (workload(), workload(layers=400, filters=900, nodes=9000)):
        own = estimate(work, allocation(), source)
        lent = estimate(work, replace(allocation(), model_name=OTHER), model)
        assert lent.step_s.high / lent.step_s.mid > own.step_s.high / own.step_s.mid
        assert lent.step_s.low / lent.step_s.mid < own.step_s.low / own.step_s.mid
        assert lent.peak_bytes.high > own.peak_bytes.high and lent.peak_bytes.low < own.peak_bytes.low


SCORES = st.lists(st.floats(-6, 6), min_size=10, max_size=60).map(sorted).map(tuple)


@given(near=SCORES, far=SCORES, floor=st.floats(0.03, 1.0), disagreement=st.floats(0.0, 3.0), is_near=st.booleans())
def test_no_range_gets_narrower_whatever_was_held_out(
    source: DeviceModel,
    near: tuple[float, ...],
    far: tuple[float, ...],
    floor: float,
    disagreement: float,
    is_near: bool,
) -> None:
    told = replace(source, spread=Spread(floor=floor, near=near, far=far))
    low, high = log_range(told, is_near, disagreement)
    lent_low, lent_high = log_range(transferred(told, prior_for(KIND, OTHER)), is_near, disagreement)
    assert lent_low <= min(low, -0.3) + 1e-12 and lent_high >= max(high, 0.3) - 1e-12


def test_finished_jobs_correct_it(model: DeviceModel) -> None:
    way = replace(allocation(), model_name=OTHER)
    before = estimate(workload(), way, model)
    jobs = [Finished(workload=workload(), allocation=way, step_s=2.0 * before.step_s.mid)] * 12
    after = corrected(model, jobs)
    assert 1.6 < estimate(workload(), way, after).step_s.mid / before.step_s.mid < 2.0
    assert after.transferred == model.transferred and "12 finished jobs" in estimate(workload(), way, after).note


def test_it_goes_through_json_and_models_of_before_are_read(model: DeviceModel) -> None:
    body = json.loads(json.dumps(model.to_dict()))
    assert DeviceModel.from_dict(body) == model
    body.pop("transferred")
    assert DeviceModel.from_dict(body).transferred is None


def test_the_nearest_is_of_the_same_entry_of_the_table_then_with_most_points(source: DeviceModel) -> None:
    xeon = replace(source, model_name="Xeon Gold", n_points=40)
    epyc = replace(source, model_name="EPYC 1", n_points=60)
    newer = replace(source, model_name="EPYC 2", n_points=90)
    known = [xeon, epyc, newer]
    assert nearest(known, KIND, "Intel Xeon Platinum") is xeon
    assert nearest(known, KIND, "AMD EPYC 9") is newer and nearest(known, KIND, "Nobody's") is newer


def test_few_points_and_other_kinds_lend_nothing(source: DeviceModel) -> None:
    assert nearest([source], "cuda", "H100") is None
    assert nearest([replace(source, n_points=29)], KIND, OTHER) is None


def gpu_of(source: DeviceModel, name: str) -> DeviceModel:
    return replace(source, kind="cuda", model_name=name)


def test_a_gpu_stands_in_for_its_like_then_for_its_generation(source: DeviceModel) -> None:
    h200, h100 = gpu_of(source, "NVIDIA H200"), gpu_of(source, "NVIDIA H100 80GB HBM3")
    assert nearest([h200], "cuda", "NVIDIA H200 NVL") is h200
    assert nearest([h200], "cuda", "NVIDIA H100 80GB HBM3") is h200
    assert nearest([h200, h100], "cuda", "NVIDIA H100 NVL") is h100
    assert nearest([h200, h100], "cuda", "NVIDIA H100 PCIe") is h100, "its data sheet is the nearer one"


def test_gpus_of_other_generations_and_those_nobody_knows_lend_nothing(source: DeviceModel) -> None:
    known = [gpu_of(source, "NVIDIA H200"), gpu_of(source, "Made-up GPU")]
    assert nearest(known, "cuda", "NVIDIA A100-SXM4-80GB") is None
    assert nearest(known, "cuda", "Tesla V100") is None
    assert nearest(known[:1], "cuda", "Another made-up GPU") is None


def test_gpus_of_one_model_are_nearer_to_each_other_than_kin_and_those_than_cores(source: DeviceModel) -> None:
    core = transferred(source, prior_for(KIND, OTHER)).spread
    h200 = gpu_of(source, "NVIDIA H200")
    like, kin = (transferred(h200, prior_for("cuda", name)).spread for name in ("NVIDIA H200", "NVIDIA H100"))
    assert source.spread.floor < like.floor < kin.floor < core.floor


def test_a_gpu_s_power_is_taken_over_where_it_was_read(source: DeviceModel) -> None:
    prior = prior_for("cuda", "NVIDIA H200")
    read = replace(prior.power, waiting_w=111.0, basis=Basis.MEASURED, held_out_half=0.3)
    gpu = replace(source, kind="cuda", model_name="NVIDIA H200", power=read)
    moved = transferred(gpu, prior).power
    assert moved == replace(read, basis=Basis.MODELLED, held_out_half=moved.held_out_half)
    assert transferred(replace(gpu, power=prior.power), prior).power == prior.power
    kin = prior_for("cuda", "NVIDIA H100 PCIe")
    assert transferred(gpu, kin).power == kin.power
    core = prior_for(KIND, OTHER)
    assert transferred(replace(source, power=read), core).power == core.power


@pytest.mark.parametrize("half", [0.1, 0.25, 0.5])
def test_watts_of_another_gpu_are_more_in_doubt_than_where_they_were_read(source: DeviceModel, half: float) -> None:
    prior = prior_for("cuda", "NVIDIA H200")
    read = replace(prior.power, waiting_w=111.0, basis=Basis.MEASURED, held_out_half=half)
    gpu = replace(source, kind="cuda", model_name="NVIDIA H200", power=read)
    assert transferred(gpu, prior).power.half > half
    few = replace(gpu, power=replace(read, held_out_half=None))
    assert transferred(few, prior).power.half == POWER_HALF[Basis.MODELLED]
    as_usual = replace(gpu, power=replace(read, held_out_half=POWER_HALF[Basis.MEASURED]))
    assert transferred(as_usual, prior).power.half == pytest.approx(POWER_HALF[Basis.MODELLED])
