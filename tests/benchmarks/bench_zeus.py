"""Cheapest GPU kind, power limit and batch size within a time limit, on the measured tables of ml-energy/zeus.

    python -m tests.benchmarks.bench_zeus --traces DIR

`DIR/zeus` holds `summary_train.csv` (epochs to a target, by batch size and seed) and `summary_power_<kind>.csv`
(seconds per epoch and watts). A setting is (kind, power limit, batch size); its time is seconds per epoch times the
mean number of epochs to the target, its energy that times the watts. A batch size of which no seed reached the target
never ends. The start is V100, 250 W and the workload's usual batch size; a choice may take `--slowdown` times as long.
Ours sees at most 30 % of the settings, epochs of a batch size included only once it is tried. The rival moves the
power limit alone, with perfect knowledge. Other targets of the same workloads, which had no part in writing `search`,
are printed beside. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tests.benchmarks.gather import traces_folder
from tests.benchmarks.search import Found, Trial, search

KINDS = ("v100", "a40", "p100")
SHARE = 0.3
START_KIND, START_LIMIT_W = "v100", 250
SLOWDOWNS = (1.0, 1.1, 1.25)
BAR_SLOWDOWN = 1.1


@dataclass(frozen=True)
class Workload:
    """One row of the comparison."""

    dataset: str
    optimizer: str
    target: float
    lower_is_better: bool
    """Of the target metric (word error rate)."""
    start_batch: int
    """The usual batch size of the workload in the Zeus paper (You et al., NSDI 2023, table 1)."""
    other_targets: tuple[float, ...]


WORKLOADS = (
    Workload("cifar100", "adadelta", 0.6, False, 1024, (0.5, 0.55)),
    Workload("imagenet", "adadelta", 0.65, False, 256, (0.5, 0.6)),
    Workload("librispeech", "adamw", 40.0, True, 192, (45.0, 50.0)),
    Workload("movielens-1m", "adam", 0.41, False, 1024, (0.375, 0.4)),
    Workload("squad", "adamw", 84.0, False, 32, (83.0, 83.5)),
    Workload("sentiment140", "adamw", 0.84, False, 128, (0.83, 0.835)),
)


@dataclass(frozen=True)
class Cell:
    """One setting and what a run at it costs."""

    kind: str
    limit_w: int
    batch: int
    run_s: float
    energy_j: float


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file as dictionaries."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def epochs_by_batch(train: Iterable[dict[str, str]], workload: Workload, target: float) -> dict[int, float]:
    """Mean epochs to the target over the seeds that reached it; infinite where none did."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in train:
        if (row["dataset"], row["optimizer"]) != (workload.dataset, workload.optimizer):
            continue
        found[int(row["batch_size"])] += []
        if math.isclose(float(row["target_metric"]), target, abs_tol=1e-9) and row["target_epoch"]:
            epochs = float(row["target_epoch"])
            found[int(row["batch_size"])] += [epochs] if math.isfinite(epochs) and epochs > 0 else []
    return {batch: fmean(epochs) if epochs else math.inf for batch, epochs in found.items()}


def cells_of(folder: Path, workload: Workload, target: float) -> list[Cell]:
    """All settings of a workload that were measured on all three counts."""
    epochs = epochs_by_batch(rows(folder / "summary_train.csv"), workload, target)
    cells = []
    for kind in KINDS:
        for row in rows(folder / f"summary_power_{kind}.csv"):
            batch = int(row["batch_size"])
            if (row["dataset"], row["optimizer"]) != (workload.dataset, workload.optimizer) or batch not in epochs:
                continue
            run_s = float(row["time_per_epoch"]) * epochs[batch]
            cells.append(Cell(kind, int(row["power_limit"]), batch, run_s, run_s * float(row["average_power"])))
    return cells


def features(cell: Cell) -> list[float]:
    """What `search` sees of a setting before it is tried."""
    return [float(cell.kind == kind) for kind in KINDS] + [math.log2(cell.batch), float(cell.limit_w)]


def start_of(cells: list[Cell], workload: Workload) -> int:
    """Index of the setting everything is compared with."""
    wanted = (START_KIND, START_LIMIT_W, workload.start_batch)
    return next(index for index, cell in enumerate(cells) if (cell.kind, cell.limit_w, cell.batch) == wanted)


def found_by_search(cells: list[Cell], start: int, slowdown: float) -> Found:
    """Our choice."""

    def measure(index: int) -> Trial:
        return Trial(index=index, run_s=cells[index].run_s, energy_j=cells[index].energy_j)

    first = [start, *_one_of_each_kind(cells, start)]
    return search(
        [features(cell) for cell in cells], measure, first=first, limit_s=lambda trial: trial.run_s * slowdown,
        trials_max=math.floor(SHARE * len(cells)),
    )  # fmt: skip


def _one_of_each_kind(cells: list[Cell], start: int) -> list[int]:
    """On each other kind the setting nearest to the start."""

    def distance(index: int) -> tuple[float, int]:
        mine, begin = cells[index], cells[start]
        return abs(math.log(mine.batch / begin.batch)), abs(mine.limit_w - begin.limit_w)

    others = [kind for kind in KINDS if kind != START_KIND]
    return [min((i for i, c in enumerate(cells) if c.kind == kind), key=distance) for kind in others]


def least_energy_j(cells: Iterable[Cell], limit_s: float) -> float:
    """With perfect knowledge."""
    return min(cell.energy_j for cell in cells if cell.run_s <= limit_s)


def compared(cells: list[Cell], workload: Workload, slowdown: float) -> dict[str, float]:
    """Savings against the start, as shares of its energy."""
    start = start_of(cells, workload)
    begin = cells[start]
    limit_s = begin.run_s * slowdown
    same = [cell for cell in cells if (cell.kind, cell.batch) == (begin.kind, begin.batch)]
    found = found_by_search(cells, start, slowdown)
    best = found.best
    energy_j = best.energy_j if best else begin.energy_j
    return {
        "seen": len(found.trials) / len(cells),
        "perfect": 1 - least_energy_j(cells, limit_s) / begin.energy_j,
        "ours": 1 - energy_j / begin.energy_j,
        "power_only": 1 - least_energy_j(same, limit_s) / begin.energy_j,
        "miss": float(best is None or best.run_s > limit_s),
    }


def printed(name: str, slowdown: float, figures: dict[str, float]) -> None:
    """One line of the table."""
    print(
        f"{name:<26} {slowdown:>5.2f} {figures['seen']:>6.1%} {figures['perfect']:>8.1%} "
        f"{figures['ours']:>8.1%} {figures['power_only']:>11.1%} {int(figures['miss']):>5}"
    )


def summary(results: list[dict[str, float]]) -> dict[str, float]:
    """Means over workloads; the share is of the mean saving with perfect knowledge."""
    means = {key: fmean(item[key] for item in results) for key in ("seen", "perfect", "ours", "power_only")}
    return {**means, "share": means["ours"] / means["perfect"], "misses": sum(item["miss"] for item in results)}


def main() -> None:
    """Print the table and the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--traces", type=Path, help="folder that holds zeus/; else DLH_TRACES, else ../shared/traces")
    traces = traces_folder(parser.parse_args().traces)
    if traces is None or not (traces / "zeus").is_dir():
        print("No public tables: give --traces DIR or set DLH_TRACES.")
        print(json.dumps({"benchmark": "zeus", "skipped": ["zeus"]}))
        return
    folder = traces / "zeus"
    print(f"{'workload':<26} {'limit':>5} {'seen':>6} {'perfect':>8} {'ours':>8} {'power only':>11} {'miss':>5}")
    answer: dict[str, object] = {"benchmark": "zeus", "share_of_cells": SHARE}
    for slowdown in SLOWDOWNS:
        results = []
        for workload in WORKLOADS:
            results.append(compared(cells_of(folder, workload, workload.target), workload, slowdown))
            printed(workload.dataset, slowdown, results[-1])
        total = summary(results)
        printed("mean of six", slowdown, {**total, "miss": total["misses"]})
        answer[f"at_{slowdown}"] = {key: round(value, 4) for key, value in total.items()}
    others = []
    for workload in WORKLOADS:
        for target in workload.other_targets:
            others.append(compared(cells_of(folder, workload, target), workload, BAR_SLOWDOWN))
            printed(f"{workload.dataset} to {target:g}", BAR_SLOWDOWN, others[-1])
    answer["other_targets_at_1.1"] = {key: round(value, 4) for key, value in summary(others).items()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
