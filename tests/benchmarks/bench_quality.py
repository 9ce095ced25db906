"""Quality of the default spec, nothing tuned by hand, next to boosted trees on the same split in the same run.

    python -m tests.benchmarks.bench_quality --data FOLDER       all sets; FOLDER holds those of FILES
    python -m tests.benchmarks.bench_quality --sets wine digits  some of those that scikit-learn carries

Each set goes the way of a job: file -> profile -> resolved default spec -> rendered program -> `python train.py` in a
process of its own. The rival, scikit-learn's HistGradientBoosting with its defaults and of texts (ag_news) a logistic
regression on tf-idf, is trained on exactly the program's training rows; `rival+val` also gets the validation rows,
which the program uses only to choose its best checkpoint. Sets of less than 1,000 rows are repeated with other seeds
(other splits), since their test parts are a few dozen rows. Of a forecast (daily_min_temperatures, 14 days ahead) the
figure is the mean absolute error, the rival gets the same windows and learns the same difference, and the simple
forecasts that need no model stand beside it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn import datasets as sk

from codegen.profile import profile_dataset
from codegen.profile.types import ProfileOptions
from codegen.render import render, runtime_files
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from codegen.types import Hardware
from tests.benchmarks.gather import data_folder
from tests.benchmarks.quality_rival import rival_scores

GIB = 2**30
MOST_BEHIND = 1.0
"""Points (accuracy or R2 x 100) that the program may lie behind the rival."""
LEAST = {"digits": 0.98, "cifar10_6k": 0.60}
"""Absolute bars of the picture sets."""
MOST_S = 600.0
"""Of a training; one of three times that is ended."""
SMALL_ROWS = 1000
FILES = {
    "adult": "adult.csv.gz", "abalone": "abalone.csv.gz", "ag_news": "ag_news.csv.gz", "cifar10_6k": "cifar10_6k.zip",
    "daily_min_temperatures": "daily_min_temperatures.csv.gz",
}  # fmt: skip
BUILT_IN = ("wine", "breast_cancer", "diabetes", "digits")
REPEATS = 5


@dataclass
class Outcome:
    """Figures of one set, one entry per seed."""

    name: str
    family: str = ""
    metric: str = ""
    ours: list[float] = field(default_factory=list)
    rival: list[float] = field(default_factory=list)
    rival_val: list[float] = field(default_factory=list)
    train_s: list[float] = field(default_factory=list)
    rival_s: list[float] = field(default_factory=list)
    simple: dict[str, float] = field(default_factory=dict)
    """Of a forecast: the error of each that needs no model."""

    @property
    def behind_points(self) -> float:
        """Points behind the rival, of an error percent of its; negative: ahead."""
        if self.metric == "mae":
            return 100 * (mean(self.ours) / mean(self.rival) - 1)
        return 100 * (mean(self.rival) - mean(self.ours))

    @property
    def passed(self) -> bool:
        """Within the bars: time, points behind the rival, and of pictures the least accuracy."""
        enough = mean(self.ours) >= LEAST.get(self.name, -math.inf)
        return max(self.train_s) <= MOST_S and self.behind_points <= MOST_BEHIND and enough


def write_source(name: str, folder: Path, data: Path | None) -> Path | None:
    """The file that a person would upload, or None where it is not there."""
    if name in FILES:
        path = data / FILES[name] if data else None
        return path if path and path.is_file() else None
    if name == "digits":
        return write_digits(folder / "digits.zip")
    bunch = getattr(sk, f"load_{name}")()
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*bunch.feature_names, "target"])
        for row, target in zip(bunch.data.tolist(), bunch.target.tolist(), strict=True):
            writer.writerow([*row, bunch.target_names[target] if "target_names" in bunch else target])
    return path


def write_digits(path: Path) -> Path:
    """scikit-learn's digits as pictures in class folders."""
    digits = sk.load_digits()
    with zipfile.ZipFile(path, "w") as archive:
        for index, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
            out = io.BytesIO()
            Image.fromarray((pixels * (255 / 16)).astype(np.uint8)).save(out, "PNG")
            archive.writestr(f"{digit}/{index:04d}.png", out.getvalue())
    return path


def make_program(source: Path, folder: Path, seed: int, cores: int) -> dict[str, Any]:
    """Profile, resolve and render into `folder`; returns the resolved spec."""
    packed = folder / "data"
    packed.mkdir(parents=True)
    profile = profile_dataset(source, packed, ProfileOptions(), lambda share, note: None)
    spec = TaskSpec.model_validate({"training": {"seed": seed}})
    resolved = resolve(spec, profile, Hardware(cpu_cores=cores, cpu_memory_bytes=8 * GIB))
    for name, text in {**render(resolved, profile).files, **runtime_files()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return resolved.spec


def train(folder: Path, threads: int) -> tuple[float, str, float]:
    """Run the program; returns (test figure, metric, seconds with start and results). Raises `RuntimeError`."""
    began = time.perf_counter()
    environment = {**os.environ, "DLH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 3 * MOST_S}
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, env=environment, **pipes)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"train.py failed in {folder}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    results = json.loads((folder / "work/results/results.json").read_text())
    if results["task"] == "forecast":
        return float(results["metrics"]["test"]["mae"]), "mae", took
    metric = results["metric"]
    check_metric(results["task"], str(metric["name"]))
    return float(metric["value_test"]), str(metric["name"]), took


def check_metric(task: str, name: str) -> None:
    """Raises `RuntimeError` where the program is judged by something else than what the rival's `score` tells."""
    scored = "r2" if task == "tabular_regression" else "accuracy"
    if name != scored:
        raise RuntimeError(f"the rival is scored by {scored}, not by {name}")


def simple_errors(folder: Path) -> dict[str, float]:
    """Of the forecasts that need no model, as the program tells them; none of other tasks."""
    charts = json.loads((folder / "work/results/results.json").read_text())["charts"]
    tables = [chart for chart in charts if chart["id"] == "simple_forecasts"]
    return {name: error for table in tables for name, error, _ in table["rows"][1:]}


def measure(name: str, source: Path, folder: Path, threads: int, large_repeats: int) -> Outcome:
    """All repeats of one set, `large_repeats` where it is not small."""
    outcome = Outcome(name)
    seed, repeats = 0, 1
    while seed < repeats:
        place = folder / f"{name}-{seed}"
        spec = make_program(source, place, seed, threads)
        rows = pq.read_metadata(next((place / "data").glob("*.parquet"))).num_rows
        repeats = REPEATS if rows < SMALL_ROWS else large_repeats
        figure, outcome.metric, took = train(place, threads)
        outcome.family = f"{spec['model']['family']}-{spec['model']['size']}"
        outcome.ours.append(figure)
        outcome.train_s.append(took)
        began = time.perf_counter()
        rival, rival_val = rival_scores(place, spec)
        outcome.rival.append(rival)
        outcome.rival_val.append(rival_val)
        outcome.rival_s.append(time.perf_counter() - began)
        outcome.simple = simple_errors(place)
        seed += 1
    return outcome


def line(outcome: Outcome) -> str:
    """One row of the printed table."""
    return (
        f"{outcome.name:14} {outcome.metric:9} {outcome.family:20} {len(outcome.ours):5} {mean(outcome.ours):8.4f} "
        f"{mean(outcome.rival):8.4f} {mean(outcome.rival_val):10.4f} {outcome.behind_points:8.2f} "
        f"{max(outcome.train_s):8.1f} {'ok' if outcome.passed else 'MISSED'}"
        + "".join(f"\n{'':14} {name}: {error:.4f}" for name, error in outcome.simple.items())
    )


def main() -> int:
    """Measure, print, and return 0 only if every set passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with " + ", ".join(FILES.values()))
    parser.add_argument("--sets", nargs="*", default=[*BUILT_IN, *FILES], choices=[*BUILT_IN, *FILES])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of the one process (default 2)")
    parser.add_argument(
        "--seeds", type=int, default=1, help=f"seeds for sets of {SMALL_ROWS:,} rows or more (default 1)"
    )
    given = parser.parse_args()
    data = data_folder(given.data)
    print(
        "set            metric    model                runs     ours    rival  rival+val   behind    max s", flush=True
    )
    outcomes, skipped, broken = [], [], []
    with tempfile.TemporaryDirectory(prefix="bench-quality-") as temporary:
        for name in given.sets:
            source = write_source(name, Path(temporary), data)
            if source is None:
                skipped.append(name)
                print(f"{name:14} SKIPPED: {FILES[name]} is not in the folder of --data or DLH_BENCH_DATA", flush=True)
                continue
            try:
                outcomes.append(measure(name, source, Path(temporary), given.threads, max(1, given.seeds)))
            except (RuntimeError, subprocess.SubprocessError) as error:
                broken.append(name)
                print(f"{name:14} BROKEN: {error}", flush=True)
                continue
            print(line(outcomes[-1]), flush=True)
    body = {
        outcome.name: {
            **vars(outcome),
            "behind_points": round(outcome.behind_points, 3),
            "passed": outcome.passed,
        }
        for outcome in outcomes
    }
    told = {"threads": given.threads, "sets": body, "skipped": skipped, "broken": broken}
    print(json.dumps({"benchmark": "quality", **told}))
    return 0 if not broken and all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
