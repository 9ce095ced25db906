"""Step times and memory of programs that the fit has not seen, by architecture, by family and on two devices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median
from typing import Any

import numpy as np

from scheduler.estimation.baselines import baselines, seconds
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit import fit_device_model, folds_of
from scheduler.estimation.values import Allocation, Estimate
from tests.benchmarks.estimate_measure import AGREE
from worker.shares import even

SEEDS = (0, 1, 2)
HELD_OUT = 3
"""One of so many architectures is held out."""
SURE = "ours, where visits agree"
"""Held-out programs that were measured at least twice, within `AGREE`: what is wrong there is the estimate's."""
BARS = {
    "cnn_mape": 0.06, "cnn_p90": 0.14, "families_mape": 0.15, "memory_mape": 0.10, "memory_under": 0.15,
    "ranks_mape": 0.12, "probe_median": 0.04, "allocation_energy": 0.05,
}  # fmt: skip
Table = dict[str, Any]
Vector = np.ndarray


def alone(point: CalibrationPoint) -> Allocation:
    """Where a point was measured."""
    split = even(point.batch_size, point.count)
    mode = "sync" if point.count > 1 else "single"
    count = max(point.count, point.threads)
    return Allocation(
        kind=point.kind, model_name=point.model_name, count=count, mode=mode, batch_split=split, threads=point.threads
    )


def estimates(model: DeviceModel, points: Sequence[CalibrationPoint]) -> list[Estimate]:
    """Estimates of points that the model has not seen, each at the rows of one rank; a sweep makes no last steps."""
    works = [(point.workload, point.workload.global_batch_size) for point in points]
    whole = [replace(work, train_rows=batch * max(1, work.train_rows // batch)) for work, batch in works]
    return [estimate(work, alone(point), model) for work, point in zip(whole, points, strict=True)]


def figures(errors: Vector) -> dict[str, float]:
    """Mean, median, 90th percentile and largest of relative errors."""
    size = np.abs(errors)
    names = ("mape", "median", "p90", "max")
    return dict(zip(names, map(float, (size.mean(), np.median(size), np.quantile(size, 0.9), size.max())), strict=True))


def show(name: str, found: dict[str, float], bar: str = "") -> None:
    """One line of the table."""
    told = "  ".join(f"{key} {value:7.1%}" for key, value in found.items())
    print(f"  {name:32} {told}  {bar}", flush=True)


def errors_of(predicted_s: Vector, points: Sequence[CalibrationPoint]) -> Vector:
    """Relative errors of step times."""
    return predicted_s / np.array([point.typical_s for point in points]) - 1.0


def inside(found: Sequence[Estimate], points: Sequence[CalibrationPoint]) -> list[bool]:
    """Whether each interval holds what was measured."""
    return [each.step_s.low <= point.typical_s <= each.step_s.high for each, point in zip(found, points, strict=True)]


def held_out_cnns(points: Sequence[CalibrationPoint]) -> Table:
    """Fit to two thirds of the CNN architectures, predict the last third; the same for every rival."""
    print(f"step time, held-out CNN architectures ({len(points)} CNNs, a third held out, {len(SEEDS)} splits)")
    errors: dict[str, list[Vector]] = {}
    holds: list[bool] = []
    sure: list[bool] = []
    peaks: list[float] = []
    fit_s = []
    for seed in SEEDS:
        folds = folds_of([point.architecture for point in points], HELD_OUT, seed)
        known = [point for point, fold in zip(points, folds, strict=True) if fold]
        unknown = [point for point, fold in zip(points, folds, strict=True) if not fold]
        began_s = time.process_time()
        model = fit_device_model(known)
        fit_s.append(time.process_time() - began_s)
        found = estimates(model, unknown)
        errors.setdefault("ours", []).append(errors_of(np.array([each.step_s.mid for each in found]), unknown))
        holds += inside(found, unknown)
        sure += [0.0 < point.noise <= AGREE for point in unknown]
        pairs = zip(found, unknown, strict=True)
        peaks += [each.peak_bytes.mid / point.peak_bytes for each, point in pairs if point.peak_bytes]
        for name, fit in baselines().items():
            errors.setdefault(name, []).append(errors_of(fit(known, seconds(known))(unknown), unknown))
    table = {name: figures(np.concatenate(rows)) for name, rows in errors.items()}
    for name, row in table.items():
        show(name, row, f"(bar {BARS['cnn_mape']:.0%} / p90 {BARS['cnn_p90']:.0%})" if name == "ours" else "")
    if any(sure):
        table[SURE] = figures(np.concatenate(errors["ours"])[np.array(sure)])
        show(f"{SURE} ({sum(sure)})", table[SURE])
    memory = memory_figures(np.array(peaks)) if peaks else {}
    print(f"  80 % interval holds {np.mean(holds):.1%};  fit {median(fit_s):.1f} s of CPU")
    return {"errors": table, "coverage": float(np.mean(holds)), "fit_cpu_s": median(fit_s), "memory": memory}


def memory_figures(ratios: Vector) -> dict[str, float]:
    """Of predicted over measured peaks."""
    found = {"mape": float(np.abs(ratios - 1).mean()), "worst_under": float(max(0.0, 1 - ratios.min()))}
    show("peak memory above idle", found, f"(bars {BARS['memory_mape']:.0%}, under {BARS['memory_under']:.0%})")
    return found


def held_out_families(points: Sequence[CalibrationPoint]) -> Table:
    """Train on the CNNs and two other families, test on the rest: every pair; nothing where none is left to test on."""
    names = sorted({point.family for point in points} - {"cnn"})
    pairs = list(combinations(names, 2))
    if len(pairs) < 3:
        return {}
    print(f"step time, held-out families (train on CNNs + two others, all {len(pairs)} pairs)")
    errors: dict[str, list[Vector]] = {}
    by_family: dict[str, list[float]] = {name: [] for name in names}
    holds: list[bool] = []
    for pair in pairs:
        known = [point for point in points if point.family in ("cnn", *pair)]
        unknown = [point for point in points if point.family not in ("cnn", *pair)]
        found = estimates(fit_device_model(known), unknown)
        error = errors_of(np.array([each.step_s.mid for each in found]), unknown)
        errors.setdefault("ours", []).append(error)
        holds += inside(found, unknown)
        for point, value in zip(unknown, error, strict=True):
            by_family[point.family].append(value)
        for name, fit in baselines().items():
            errors.setdefault(name, []).append(errors_of(fit(known, seconds(known))(unknown), unknown))
    table = {name: figures(np.concatenate(rows)) for name, rows in errors.items()}
    for name, row in table.items():
        show(name, row, f"(bar {BARS['families_mape']:.0%})" if name == "ours" else "")
    for name, values in by_family.items():
        show(f"  ours on {name}", figures(np.array(values)))
    print(f"  80 % interval holds {np.mean(holds):.1%}")
    families = {name: figures(np.array(values)) for name, values in by_family.items()}
    return {"errors": table, "families": families, "coverage": float(np.mean(holds))}


def two_ranks(points: Sequence[CalibrationPoint], several: Sequence[CalibrationPoint]) -> Table:
    """Scaling: the model learns contention from half of the programs on two devices and predicts the other half."""
    if len(several) < 4:
        return {}
    print(f"step time on two devices ({len(several)} points; half of the architectures held out)")
    folds = folds_of([point.architecture for point in several], 2)
    found: Table = {}
    errors: dict[str, list[float]] = {"2 ranks": [], "2 threads": []}
    for fold in (0, 1):
        known = [point for point, number in zip(several, folds, strict=True) if number != fold]
        unknown = [point for point, number in zip(several, folds, strict=True) if number == fold]
        hidden = {point.architecture for point in unknown}
        model = fit_device_model([*(point for point in points if point.architecture not in hidden), *known])
        guesses = [each.step_s.mid for each in estimates(model, unknown)]
        for point, error in zip(unknown, errors_of(np.array(guesses), unknown), strict=True):
            errors["2 ranks" if point.count > 1 else "2 threads"].append(float(error))
    for name, values in errors.items():
        if values:
            found[name] = figures(np.array(values))
            show(name, found[name], f"(bar {BARS['ranks_mape']:.0%})" if name == "2 ranks" else "")
    return found
