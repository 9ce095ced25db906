"""Calibrations that ship with the harness, held against the points that lie beside them: files alone, no database."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.calibration.shipped import FOLDER, POINTS_SUFFIX, Shipped
from scheduler.estimation.calibration import LEAST_HELD_OUT, CalibrationPoint, from_json, noise_of
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit import fit_device_model, folds_of
from scheduler.estimation.predict import predict
from scheduler.estimation.prior import prior_for
from scheduler.estimation.transfer import transferred
from scheduler.workload import OpClass, Operator
from tests.harness.calibration.lending import HERE
from tests.scheduler.made_workloads import KIND, allocation, workload

FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("size", [1e12, 1e20, 9e29])
@pytest.mark.parametrize("op", list(OpClass))
def test_shapes_that_no_program_has_are_priced_without_end_or_gap(file: Path, size: float, op: OpClass) -> None:
    model = Shipped.from_dict(json.loads(file.read_text())).model
    shape = dict.fromkeys(("batch", "in", "out", "kernel", "size", "groups", "count", "elements", "queries"), size)
    huge = Operator(op=op, flops=size, read_bytes=size, write_bytes=size, shape=shape)
    way = replace(allocation(), kind=model.kind, model_name=model.model_name)
    found = estimate(replace(workload(), operators=(huge,)), way, model)
    assert all(
        0.0 <= low <= high < math.inf
        for low, high in ((found.step_s.low, found.step_s.high), (found.energy_j.low, found.energy_j.high))
    )


def _off(model: DeviceModel, unseen: list[CalibrationPoint]) -> float:
    """Typical distance of log step times from what was measured."""
    guesses = predict(model, [one.workload for one in unseen]).log_step_s
    return float(np.abs(guesses - np.log([one.typical_s for one in unseen])).mean())


@pytest.fixture(scope="module")
def lent() -> tuple[DeviceModel, list[CalibrationPoint]]:
    """What two thirds of the architectures that were measured lend to a core here, and the points of the others."""
    text = gzip.decompress((FOLDER / f"amd-epyc{POINTS_SUFFIX}").read_bytes()).decode()
    known = [one for one in from_json(text) if one.count == one.threads == 1]
    folds = folds_of([one.architecture for one in known], 3)
    there = [one for one, fold in zip(known, folds, strict=True) if fold]
    model = transferred(fit_device_model(there), prior_for(KIND, HERE))
    return model, [one for one, fold in zip(known, folds, strict=True) if not fold]


@pytest.mark.parametrize(("count", "times"), [(6, 2.0), (12, 0.6), (24, 2.0)])
def test_few_points_beside_it_foretell_programs_that_neither_has_seen_better_than_they_do_alone(
    lent: tuple[DeviceModel, list[CalibrationPoint]], count: int, times: float
) -> None:
    ships, points = lent
    here = [replace(one, model_name=HERE, step_s=tuple(times * step_s for step_s in one.step_s)) for one in points]
    own, unseen = here[:count], here[24:]
    beside = _off(fit_device_model(own, prior=ships), unseen)
    assert beside < _off(fit_device_model(own, prior=prior_for(KIND, HERE)), unseen)
    assert beside < _off(ships, unseen)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_ships_is_fitted_to_the_points_that_lie_beside_it(path: Path) -> None:
    one = Shipped.from_dict(json.loads(path.read_text(encoding="utf-8")))
    text = gzip.decompress(path.with_name(f"{path.stem}{POINTS_SUFFIX}").read_bytes()).decode()
    known = from_json(text)
    assert hashlib.sha256(text.encode()).hexdigest() == one.provenance.sha256
    assert {(made.kind, made.model_name) for made in known} == {one.model.measured_key}
    assert len(known) == one.provenance.points and one.model.n_points >= LEAST_HELD_OUT
    assert one.provenance.measured_on and one.provenance.software and one.provenance.conditions
    assert one.model.noise == pytest.approx(noise_of(known))
    # Where the terms of the estimator changed, it has to be fitted anew (tests/benchmarks/ship_calibration.py).
    single = [made for made in known if made.count == made.threads == 1]
    guesses = np.exp(predict(one.model, [made.workload for made in single]).log_step_s)
    errors = np.abs(guesses / [made.typical_s for made in single] - 1)
    assert np.median(errors) < one.model.errors["architectures_p90"]
