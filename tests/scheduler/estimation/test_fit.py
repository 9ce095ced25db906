"""A device whose law is known: what is held out is found again, and intervals hold what they say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from scheduler.estimation.baselines import baselines, seconds
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.predict import predict
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from tests.scheduler.made_workloads import KIND, NAME, allocation, point, points, workload


@pytest.fixture(scope="module")
def model() -> DeviceModel:
    return fit_device_model(points(70, seed=1))


@pytest.fixture(scope="module")
def unseen():
    return points(60, seed=2, noise=0.02)


def test_held_out_programs_are_predicted_within_four_percent_of_a_known_law(model, unseen) -> None:
    guesses = np.exp(predict(model, [made.workload for made in unseen]).log_step_s)
    errors = np.abs(guesses / [made.typical_s for made in unseen] - 1)
    assert errors.mean() < 0.04
    assert model.n_points == 70 and model.basis is Basis.MODELLED


def test_the_rivals_fit_the_same_points_and_do_worse(model, unseen) -> None:
    known, measured = points(70, seed=1), np.array([made.typical_s for made in unseen])
    ours = np.abs(np.exp(predict(model, [made.workload for made in unseen]).log_step_s) / measured - 1).mean()
    for name, fit in baselines().items():
        theirs = fit(known, seconds(known))(unseen)
        assert np.isfinite(theirs).all() and (theirs > 0).all(), name
        assert np.abs(theirs / measured - 1).mean() > ours, name


def test_an_80_percent_interval_holds_about_80_percent(model, unseen) -> None:
    held = 0
    for made in unseen:
        found = estimate(made.workload, allocation(rows=(made.batch_size,)), model).step_s
        held += found.low <= made.typical_s <= found.high
    assert 0.65 * len(unseen) <= held


def test_memory_is_found_and_its_upper_end_is_careful(model, unseen) -> None:
    for made in unseen:
        peak = estimate(made.workload, allocation(rows=(made.batch_size,)), model).peak_bytes
        assert abs(peak.mid / made.peak_bytes - 1) < 0.1
        assert peak.high >= made.peak_bytes


def test_a_model_comes_back_from_json(model, unseen) -> None:
    back = DeviceModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert back == model
    with pytest.raises(ValueError, match="version"):
        DeviceModel.from_dict({**model.to_dict(), "version": 0})
    with pytest.raises(ValueError, match="not a device model"):
        DeviceModel.from_dict({"version": model.version})


def test_a_few_wild_points_hardly_move_the_fit() -> None:
    known = points(60, seed=3, noise=0.01)
    spoilt = [
        replace(made, step_s=(made.typical_s * 6,)) if number % 20 == 0 else made for number, made in enumerate(known)
    ]
    new = points(30, seed=4, noise=0.0)
    guesses = np.exp(predict(fit_device_model(spoilt), [made.workload for made in new]).log_step_s)
    assert np.median(np.abs(guesses / [made.typical_s for made in new] - 1)) < 0.08


def test_without_points_the_prior_stands_and_says_so() -> None:
    found = estimate(workload(), allocation(), prior_for(KIND, NAME))
    assert found.time_basis is found.memory_basis is found.energy_basis is Basis.ASSUMED
    assert found.step_s.high > 2 * found.step_s.mid > 4 * found.step_s.low
    assert "nothing measured" in found.note


@pytest.mark.parametrize("count", [6, 7, 12])
def test_intervals_of_a_few_points_hold_what_they_say(count, unseen) -> None:
    held = 0
    for seed in (10, 11):
        made = fit_device_model(points(count, seed=seed))
        for point_ in unseen:
            found = estimate(point_.workload, allocation(rows=(point_.batch_size,)), made).step_s
            held += found.low <= point_.typical_s <= found.high
    assert held >= 0.75 * 2 * len(unseen)


def test_points_of_one_architecture_claim_no_accuracy_for_others() -> None:
    same = [replace(made, params={}) for made in points(12)]
    made = fit_device_model(same)
    assert made.spread.floor > 0.1
    assert made.memory.low_ratio < 0.9


def test_too_few_points_leave_the_prior() -> None:
    made = fit_device_model(points(3))
    assert made.members == prior_for(KIND, NAME).members and made.n_points == 0


def test_points_of_several_kinds_or_none_are_refused() -> None:
    with pytest.raises(ValueError, match="exactly one kind"):
        fit_device_model([])
    with pytest.raises(ValueError, match="exactly one kind"):
        fit_device_model([*points(2), point(workload(), model_name="Other")])


def test_measured_power_replaces_the_table() -> None:
    known = [replace(made, power_w=12.0) for made in points(8)]
    power = fit_device_model(known).power
    assert (power.busy_w, power.basis) == (12.0, Basis.MEASURED)


def test_two_ranks_teach_contention() -> None:
    known = points(40, seed=5, noise=0.0)
    slowed = [replace(made, count=2, step_s=(made.typical_s * 1.3 + 5e-4,), point_id="") for made in known[:10]]
    made = fit_device_model([*known, *slowed])
    assert made.contention == pytest.approx(0.3, abs=0.06)
    assert made.contention_basis is Basis.MODELLED
    assert made.message_link == prior_for("cpu", made.model_name).link, "a message by itself costs what it did"


def test_a_program_unlike_all_measured_ones_gets_a_wider_range(model) -> None:
    like = estimate(points(70, seed=1)[0].workload, allocation(), model)
    unlike = estimate(workload(layers=400, filters=900, nodes=9000), allocation(), model)
    assert unlike.step_s.high / unlike.step_s.low > 1.5 * like.step_s.high / like.step_s.low


def test_channels_of_a_convolution_in_whole_blocks_may_cost_less() -> None:
    def made(seed: int, count: int) -> list[CalibrationPoint]:
        generator, found = np.random.default_rng(seed), []
        for number in range(count):
            filters = int(generator.integers(5, 25)) if number % 2 else 8 * int(generator.integers(1, 4))
            work = workload(filters=filters, size=int(generator.integers(12, 40)), batch=int(generator.integers(8, 64)))
            measured = point(work, noise=0.01, number=seed * 1000 + number)
            rest = 1.3 if filters % 8 else 1.0
            found.append(replace(measured, step_s=tuple(rest * value for value in measured.step_s)))
        return found

    new = made(22, 40)
    guesses = np.exp(predict(fit_device_model(made(21, 80)), [one.workload for one in new]).log_step_s)
    errors = np.abs(guesses / [one.typical_s for one in new] - 1)
    assert errors.mean() < 0.06


def test_a_model_from_before_a_column_was_added_foretells_what_it_did(model, unseen) -> None:
    body = json.loads(json.dumps(model.to_dict()))
    for member in body["members"]:
        member["conv"] = [*member["conv"][:-1], 0.0]
    some = [made.workload for made in unseen]
    wanted = predict(DeviceModel.from_dict(body), some).log_step_s
    for member in body["members"]:
        member["conv"] = member["conv"][:-1]
    assert predict(DeviceModel.from_dict(body), some).log_step_s == pytest.approx(wanted)
