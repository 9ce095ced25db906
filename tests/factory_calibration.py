"""Sweeps, a device model with its errors, and finished jobs with their forecasts, as pages show them."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

FAMILIES = ("cnn", "resnet", "convnext", "mlp", "resmlp", "ft_transformer")
DEVICE = "Example CPU 3 GHz"


def figures(mape: float, count: int) -> dict[str, float]:
    return {"n": count, "mape": mape, "median": 0.6 * mape, "p90": 2.2 * mape}


def report_make(count: int = 180) -> dict[str, Any]:
    """Errors as a fit would report them: most near zero, one family harder than the rest."""
    chance = random.Random(7)
    points = []
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)] if number % 3 == 0 else "cnn"
        measured_s = 10 ** chance.uniform(-3, 0)
        error = chance.gauss(0, 0.12 if family == "ft_transformer" else 0.05)
        points.append(
            [family, measured_s, measured_s * (1 + error), error, f"{family}-{number:012d}", abs(error) < 0.08]
        )
    rivals = {
        "linear regression on knobs": 1.12, "FLOPs only, relative NNLS": 0.31, "curve fit (power law)": 0.24,
        "boosted trees": 0.14,
    }  # fmt: skip
    by_family = {family: figures(0.12 if family == "ft_transformer" else 0.05, 30) for family in FAMILIES}
    return {
        "points": points, "families": by_family, "total": figures(0.058, count), "coverage": 0.81, "noise": 0.018,
        "baselines": {name: figures(value, count) for name, value in rivals.items()},
    }  # fmt: skip


def model_make() -> Any:
    """The fitted model of the CPU cores of the pool."""
    from django.utils import timezone

    from harness.calibration.models import DeviceModelRow
    from scheduler.estimation.prior import prior_for

    body = prior_for("cpu", DEVICE).to_dict()
    body["correction"] = {"factor": 1.043, "n_jobs": 14, "n_left_out": 1}
    return DeviceModelRow.objects.create(
        kind="cpu", model_name=DEVICE, fitted=body, model=body, n_points=180, n_finished=15, report=report_make(),
        fitted_at=timezone.now() - timedelta(hours=2),
    )  # fmt: skip


def runs_make(admin: Any) -> None:
    """One that measures, one that has ended."""
    from django.utils import timezone

    from harness.calibration.models import CalibrationRun

    now = timezone.now()
    common = {"kind": "cpu", "model_name": DEVICE, "planned": 300, "started_by": admin}
    CalibrationRun.objects.create(
        node_name="node-1", budget_s=600.0, used_s=214.0, state="running", before=100, measured=61, running_at=now,
        refused=[{"point_id": "convnext-0123456789ab", "family": "convnext", "problem": "a step took (nan,) seconds"}],
        **common,
    )  # fmt: skip
    ended = CalibrationRun.objects.create(
        node_name="gpu-1", budget_s=300.0, used_s=300.0, state="finished", measured=100, ended_at=now,
        message="The budget is used up.", **common,
    )  # fmt: skip
    CalibrationRun.objects.filter(pk=ended.pk).update(created_at=now - timedelta(days=1))


def finished_make(count: int = 60) -> None:
    """Finished jobs over a month; the estimates get better."""
    from django.utils import timezone

    from harness.calibration.models import FinishedJobRow

    chance = random.Random(11)
    now = timezone.now()
    for number in range(count):
        spread = 0.35 * math.exp(-number / 25) + 0.05
        truth = {"step_s": 10 ** chance.uniform(-2.5, -0.5), "run_s": 10 ** chance.uniform(1, 3.5)}
        truth |= {"peak_bytes": 10 ** chance.uniform(7.5, 9), "energy_j": 15 * truth["run_s"]}
        predicted = {}
        for name, value in truth.items():
            mid = value * math.exp(chance.gauss(0, spread))
            predicted[name] = {"low": mid * math.exp(-1.3 * spread), "mid": mid, "high": mid * math.exp(1.3 * spread)}
        FinishedJobRow.objects.create(
            kind="cuda" if number % 7 == 0 else "cpu", model_name=DEVICE, family=FAMILIES[number % 6],
            predicted=predicted,
            energy_basis="modelled", count=1 + number % 2, mode="single",
            finished_at=now - timedelta(hours=12 * (count - number)), **truth,
        )  # fmt: skip


def calibration_make(admin: Any) -> None:
    """All of it."""
    model_make()
    runs_make(admin)
    finished_make()
