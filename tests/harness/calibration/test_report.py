"""How well a fit does on what it has not seen, figure by figure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.calibration.report import report_of
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.prior import prior_for
from tests.scheduler.made_workloads import KIND, NAME, points

PRIOR = prior_for(KIND, NAME)
GENERAL = {"linear regression on knobs", "totals, relative NNLS", "curve fit (power law)", "boosted trees"}


def judged(known: list[CalibrationPoint]) -> dict[str, Any]:
    return report_of(known, fit_device_model(known, prior=PRIOR), PRIOR)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """Of points whose power is 10 W, and 12 W of the programs with most rows."""
    return judged([replace(made, power_w=12.0 if made.batch_size > 64 else 10.0) for made in points(30)])


def test_peaks_are_held_against_what_the_fit_says_without_their_architecture(report: dict[str, Any]) -> None:
    memory = report["memory"]
    assert 0.0 < memory["total"]["mape"] < 0.1 and set(memory["baselines"]) == GENERAL
    assert memory["total"]["mape"] < memory["baselines"]["linear regression on knobs"]["mape"]
    for _, measured, predicted, error, _, held in memory["points"]:
        assert predicted == pytest.approx(measured * (1.0 + error)) and isinstance(held, bool)
    assert memory["coverage"] == pytest.approx(sum(row[-1] for row in memory["points"]) / 30)


def test_power_is_held_against_the_one_figure_of_the_others(report: dict[str, Any]) -> None:
    power = report["power"]
    assert {row[2] for row in power["points"]} <= {10.0, 11.0, 12.0}
    assert power["total"]["mape"] > 0.0 and power["coverage"] is None and set(power["baselines"]) == GENERAL


def test_power_of_several_devices_is_told_of_one() -> None:
    made = points(24)
    both = [*(replace(one, power_w=10.0) for one in made), *(replace(one, count=2, power_w=20.0) for one in made[:4])]
    assert {row[1] for row in judged(both)["power"]["points"]} == {10.0}


def test_without_a_counter_there_is_nothing_to_say_of_power() -> None:
    found = judged(points(12))
    assert found["points"] and found["memory"] and found["power"] == {}


def test_points_of_one_architecture_are_fitted_but_not_judged() -> None:
    assert judged([replace(made, params={}) for made in points(12)]) == {}
