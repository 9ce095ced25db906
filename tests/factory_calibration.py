"""Sweeps, a device model with its errors, and finished jobs with their forecasts, as pages show them."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

FAMILIES = ("cnn", "resnet", "convnext", "mlp", "resmlp", "ft_transformer")
DEVICE = "Example CPU 3 GHz"
GPU = "Example GPU 80 GB"


def figures(mape: float, count: int) -> dict[str, float]:
    return {"n": count, "mape": mape, "median": 0.6 * mape, "p90": 2.2 * mape}


def points_make(chance: random.Random, count: int, scale: tuple[float, float], spread: float) -> list[Any]:
    """Measured values between two powers of ten, and what was foretold of them."""
    points = []
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)] if number % 3 == 0 else "cnn"
        measured = 10 ** chance.uniform(*scale)
        error = chance.gauss(0, (2.4 if family == "ft_transformer" else 1.0) * spread)
        points.append([family, measured, measured * (1 + error), error, f"{family}-{number:012d}", abs(error) < 0.08])
    return points


def section_make(points: list[Any], total: float, rivals: dict[str, float], coverage: float | None) -> dict[str, Any]:
    count = len(points)
    by_family = {family: figures((2.4 if family == "ft_transformer" else 1.0) * total, 30) for family in FAMILIES}
    return {
        "points": points, "families": by_family, "total": figures(total, count), "coverage": coverage,
        "baselines": {name: figures(value, count) for name, value in rivals.items()},
    }  # fmt: skip


def report_make(count: int = 180, *, power: bool = False) -> dict[str, Any]:
    """Errors as a fit would report them: most near zero, one family harder than the rest."""
    chance = random.Random(7)
    times = points_make(chance, count, (-3, 0), 0.05)
    rivals = {
        "linear regression on knobs": 1.12, "FLOPs only, relative NNLS": 0.31, "curve fit (power law)": 0.24,
        "boosted trees": 0.14,
    }  # fmt: skip
    peaks = points_make(chance, count, (7.3, 9), 0.03)
    others = {"linear regression on knobs": 0.9, "curve fit (power law)": 0.11, "boosted trees": 0.09}
    report = section_make(times, 0.058, rivals, 0.81) | {
        "noise": 0.018, "memory": section_make(peaks, 0.031, others, 0.93),
    }  # fmt: skip
    if power:
        # One figure stands for all programs.
        read = points_make(chance, count, (2.3, 2.7), 0.0)
        watts = [[family, fact, 331.0, 331.0 / fact - 1, number, None] for family, fact, _, _, number, _ in read]
        report["power"] = section_make(watts, 0.13, {**others, "boosted trees": 0.08}, None)
    return report


def model_make() -> Any:
    """The fitted model of the CPU cores of the pool, and that of a GPU whose power can be read."""
    from django.utils import timezone

    from harness.calibration.models import DeviceModelRow
    from scheduler.estimation.prior import prior_for

    def body(kind: str, name: str, *modelled: str) -> dict[str, Any]:
        made = prior_for(kind, name).to_dict()
        made["correction"] = {"factor": 1.043, "n_jobs": 14, "n_left_out": 1}
        for part in modelled:
            made[part]["basis"] = "modelled"
        return {**made, "basis": "modelled", "n_points": 180}

    common = {"n_points": 180, "n_finished": 15, "fitted_at": timezone.now() - timedelta(hours=2)}
    gpu = body("cuda", GPU, "memory")
    gpu["power"] |= {"busy_w": 331.0, "basis": "measured", "source": "180 points"}
    DeviceModelRow.objects.create(
        kind="cuda", model_name=GPU, fitted=gpu, model=gpu, report=report_make(power=True), **common
    )
    cpu = body("cpu", DEVICE, "memory")
    return DeviceModelRow.objects.create(
        kind="cpu", model_name=DEVICE, fitted=cpu, model=cpu, report=report_make(), **common
    )


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


def calibration_make(admin: Any) -> Any:
    """All of it; the model of the CPU cores."""
    runs_make(admin)
    finished_make()
    return model_make()
