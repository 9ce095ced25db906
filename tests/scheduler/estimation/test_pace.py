"""The pace of a host that is shared: found where neighbours tell of it, and left out of what is fitted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.pace import LEAST_POINTS, pace_of
from scheduler.estimation.predict import predict
from tests.scheduler.made_workloads import points, true_step_s


def drift(count: int, *, size: float, length: float, seed: int) -> np.ndarray:
    """A pace that stays about the same for `length` points."""
    generator, kept = np.random.default_rng(seed), math.exp(-1.0 / length)
    found = [size * generator.normal()]
    for _ in range(count - 1):
        found.append(kept * found[-1] + math.sqrt(1.0 - kept**2) * size * generator.normal())
    return np.array(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_pace_under_noise_is_found(seed: int) -> None:
    true = drift(200, size=0.08, length=15.0, seed=seed)
    noise = 0.06 * np.random.default_rng(100 + seed).normal(size=200)
    left = true - pace_of(0.3 + true + noise)
    assert np.std(left) < 0.7 * np.std(true)


def test_errors_that_tell_nothing_of_their_neighbours_have_no_pace() -> None:
    found = [pace_of(0.1 * np.random.default_rng(seed).normal(size=150)).any() for seed in range(40)]
    assert sum(found) <= 2


def test_of_few_points_or_of_equal_errors_no_pace_is_told() -> None:
    assert not pace_of(drift(LEAST_POINTS - 1, size=0.3, length=20.0, seed=0)).any()
    assert not pace_of(np.zeros(80)).any()


def test_a_single_wild_error_is_no_pace() -> None:
    error = 0.05 * np.random.default_rng(3).normal(size=120)
    error[60] = 2.0
    assert np.abs(pace_of(error)).max() < 0.1


def test_what_is_fitted_is_the_usual_pace() -> None:
    steady = points(90, noise=0.01, seed=6)
    paces = drift(90, size=0.25, length=12.0, seed=5)
    paces -= np.median(paces)

    def slowed(factors: np.ndarray) -> list[CalibrationPoint]:
        return [
            replace(made, step_s=tuple(value * math.exp(factor) for value in made.step_s))
            for made, factor in zip(steady, factors, strict=True)
        ]

    def miss(known: list[CalibrationPoint]) -> float:
        new = [made.workload for made in points(40, seed=7)]
        told = predict(fit_device_model(known), new).log_step_s
        return float(np.abs(told - np.log([true_step_s(work) for work in new])).mean())

    shuffled = np.random.default_rng(0).permutation(paces)
    assert miss(slowed(paces)) < 0.7 * miss(slowed(shuffled))
