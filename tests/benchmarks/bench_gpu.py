"""The estimator on a GPU, beside its rivals: programs that it has not seen.

    python -m tests.benchmarks.bench_gpu [--points POINTS.json] [--jobs JOBS.jsonl]
    python -m tests.benchmarks.bench_gpu --measure [--budget 600] [--visits 1] [--visits-file FILE]

Takes what was measured elsewhere, without a file of it the calibration of an H200 that ships, or measures the sweep of
`tests.benchmarks.gpu_points` on the GPU of this machine in one warm process, and judges as `bench_estimate` does a
core: held-out architectures, held-out families, memory; then power, what a GPU that nobody has calibrated would be told
by its data sheet alone, and whole jobs after a probe. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.calibration.shipped import FOLDER, POINTS_SUFFIX
from scheduler.estimation.calibration import CalibrationPoint, from_json
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.fit import fit_device_model, folds_of
from scheduler.estimation.prior import prior_for
from tests.benchmarks import gpu_jobs
from tests.benchmarks.estimate_held_out import (
    HELD_OUT,
    errors_of,
    estimates,
    figures,
    held_out_cnns,
    held_out_families,
    show,
)
from tests.benchmarks.gpu_points import MOST, gpu_of, join, measure
from tests.benchmarks.ship_calibration import read

MEASURED = FOLDER / f"nvidia-h200{POINTS_SUFFIX}"
Table = dict[str, Any]


def power_of(model: DeviceModel, points: Sequence[CalibrationPoint]) -> np.ndarray:
    """Relative errors of watts, of points whose meter was read."""
    metered = [point for point in points if point.power_w]
    found = estimates(model, metered)
    return np.array([each.power_w / (point.power_w or 1.0) - 1.0 for each, point in zip(found, metered, strict=True)])


def held_out_power(points: Sequence[CalibrationPoint]) -> Table:
    """Watts of a third of the architectures by the other two thirds, and by the data sheet."""
    if not any(point.power_w for point in points):
        print("power: no meter was read")
        return {}
    folds = folds_of([point.architecture for point in points], HELD_OUT)
    known = [point for point, fold in zip(points, folds, strict=True) if fold]
    unknown = [point for point, fold in zip(points, folds, strict=True) if not fold]
    sheet = prior_for(points[0].kind, points[0].model_name)
    print("power, held-out architectures")
    found = {
        "ours": figures(power_of(fit_device_model(known), unknown)),
        "data sheet": figures(power_of(sheet, unknown)),
    }
    for name, row in found.items():
        show(name, row)
    return found


def by_data_sheet(points: Sequence[CalibrationPoint]) -> Table:
    """Step times before anything was measured."""
    found = estimates(prior_for(points[0].kind, points[0].model_name), points)
    errors = errors_of(np.array([each.step_s.mid for each in found]), points)
    held = [each.step_s.low <= point.typical_s <= each.step_s.high for each, point in zip(found, points, strict=True)]
    print("step time by the data sheet alone")
    show("ours, nothing measured", figures(errors))
    print(f"  80 % interval holds {np.mean(held):.1%}")
    return {"errors": figures(errors), "coverage": float(np.mean(held))}


def main() -> None:
    """Measure or read, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=Path, default=MEASURED, help="of one kind of GPU, measured before")
    parser.add_argument("--measure", action="store_true", help="on the GPU of this machine")
    parser.add_argument("--jobs", type=Path, help="whole jobs there, measured before")
    parser.add_argument("--visits-file", type=Path, help="raw visits; kept and taken up again")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds")
    parser.add_argument("--most", type=int, default=MOST, help="of the sweep's plan")
    parser.add_argument("--visits", type=int, default=1)
    parser.add_argument("--device", default="cuda:0")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as folder:
        file = Path(folder) / "points.json" if chosen.measure else chosen.points
        if chosen.measure:
            visits = chosen.visits_file or Path(folder) / "visits.jsonl"
            measure(visits, chosen)
            join(visits, file)
            chosen.jobs = Path(folder) / "jobs.jsonl"
            gpu_jobs.measure(chosen.jobs, gpu_of(chosen.device)["model_name"])
        points = from_json(read(file))
        jobs = gpu_jobs.judge(chosen.jobs, fit_device_model(points)) if chosen.jobs else {}
    print(f"{len(points)} points of {points[0].model_name}")
    result = {
        "points": len(points),
        "model_name": points[0].model_name,
        "cnn": held_out_cnns([point for point in points if point.family == "cnn"]),
        "families": held_out_families(points),
        "power": held_out_power(points),
        "data_sheet": by_data_sheet(points),
        "jobs": jobs,
    }
    print(json.dumps({"benchmark": "gpu", **result}))


if __name__ == "__main__":
    main()
