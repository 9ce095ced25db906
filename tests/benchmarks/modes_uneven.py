"""Uneven batches on unlike devices: `python -m tests.benchmarks.modes_uneven [--traces DIR] [--rounds 3] [--steps 60]`.

Ranks: two one-thread Horovod ranks of the generated program (a small conv net), the second slowed down two and four
times (emulated), in turns with the same even split. First plan: the estimator's line of the untouched program on an
uncalibrated core, scaled by what is declared. Corrections: from even shares, nothing known. The ideal is the sum of
the ranks' own speeds (rows over seconds worked, the best seen in the round). Of its own: against the speeds of the same
run, so without what the machine does to one run and not to the next; what is missing there is waiting and messages.
Steps count in which the host worked for nobody else (`worker.quiet`), where there are enough of them.

Tables (`--traces`, a folder with step_times/*.csv of columns local_batch, step_s; no ranks, seconds): the truth is the
whole table; known to the first plan is every second point of it; then simulated steps with 3 % noise go to the
corrector. Also printed: a first plan by a line fitted to the same points.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import math
import os
import random
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from scheduler.estimation.prior import prior_for
from scheduler.estimation.split import StepTable, rank_line
from scheduler.workload import Workload
from tests.benchmarks.bench_ranks import pictures
from tests.benchmarks.calm import calm_steps, quiet_steps
from tests.benchmarks.gather import traces_folder
from tests.benchmarks.rank_processes import figures_of, launched
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.pacing import Corrector
from worker.quiet import Gauge
from worker.shares import Line, Planned, SecondsOf, equal_finish, even, finish_s
from worker.words import counted

FACTORS = (2.0, 4.0)
NEAR = 1.25
"""Rows so many times as few and as many are the neighbourhood of a split."""
FIRST_BAR, CORRECTED_BAR = 0.95, 0.98
TABLE_FIRST_BAR, TABLE_CORRECTED_BAR = 0.05, 0.01
FIGURES = ("step_s", "share_of_ideal", "share_of_own", "speedup", "quiet")
CORRECTIONS = 3
KNOWN_EVERY = 2  # about powers of two, as a calibration would measure
NOISE = 0.03
Tables = dict[str, list[tuple[int, float]]]
"""(rows, seconds) by kind of device."""


# ---- tables of measured step times -------------------------------------------------------------------------------
def tables_read(folder: Path) -> Tables:
    """Points of each kind of device."""
    found = {}
    for path in sorted(folder.glob("step_times/*.csv")):
        with path.open() as file:
            rows = [(int(row["local_batch"]), float(row["step_s"])) for row in csv.DictReader(file)]
        found[path.stem.rpartition("_")[2]] = rows
    return found


def gangs(tables: Tables) -> list[tuple[str, ...]]:
    """Every set of two to four devices that are not all alike."""
    every = [group for size in (2, 3, 4) for group in itertools.combinations_with_replacement(tables, size)]
    return [group for group in every if len(set(group)) > 1]


def line_near(seconds_of: SecondsOf, rows: int) -> Line:
    """The line that stands for any law in the neighbourhood of `rows`: from here a run corrects its split."""
    low, high = max(1, math.floor(rows / NEAR)), math.ceil(rows * NEAR)
    row_s = min((seconds_of(high) - seconds_of(low)) / (high - low), seconds_of(rows) / rows)
    return Line(seconds_of(rows) - row_s * rows, row_s)


def table_case(
    tables: dict[str, list[tuple[int, float]]], gang: Sequence[str], batch: int, seed: int
) -> dict[str, Any]:
    """How far splits of one gang are above the least possible step time, as shares of it."""
    truth = [StepTable.of(tables[name]) for name in gang]
    most = [tables[name][-1][0] for name in gang]
    known = [StepTable.of([*tables[name][::KNOWN_EVERY], tables[name][-1]]) for name in gang]
    best_s = finish_s(truth, equal_finish(truth, batch, most=most))

    def above(shares: Sequence[int]) -> float:
        return finish_s(truth, shares) / best_s - 1.0

    first = equal_finish(known, batch, most=most)
    lines = [table.line for table in known]
    near = [line_near(table, rows) for table, rows in zip(known, first, strict=True)]
    return {
        "gang": "+".join(gang),
        "batch": batch,
        "best_s": best_s,
        "even": above(even(batch, len(gang))),
        "first_all_in_line": above(equal_finish([table.line for table in truth], batch, most=most)),
        "first": above(first),
        "first_by_lines": above(equal_finish(lines, batch, most=most)),
        "corrected": above(corrected(truth, first, near, most, seed)),
        "corrected_from_even": above(corrected(truth, even(batch, len(gang)), [], most, seed)),
    }


def corrected(
    truth: Sequence[Any], split: Sequence[int], lines: Sequence[Any], most: Sequence[int], seed: int
) -> tuple[int, ...]:
    """The split after at most three corrections from noisy steps."""
    source, corrector, made = random.Random(seed), Corrector(split, lines=lines, most=most), 0
    for _ in range(600):
        work_s = [
            seconds(rows) * source.lognormvariate(0.0, NOISE)
            for seconds, rows in zip(truth, corrector.split, strict=True)
        ]
        found = corrector.observe(work_s)
        if found is not None:
            corrector.adopt(found.after)
            made += 1
            if made == CORRECTIONS:
                break
    return corrector.split


def tables_run(folder: Path) -> dict[str, Any]:
    """Every gang at several batches; worst and median."""
    tables = tables_read(folder)
    cases = []
    for number, (gang, each) in enumerate(itertools.product(gangs(tables), (64, 128, 256, 512))):
        batch = each * len(gang)
        if all(tables[name][0][0] <= each for name in gang):
            cases.append(table_case(tables, gang, batch, number))
    names = ("even", "first_all_in_line", "first", "first_by_lines", "corrected", "corrected_from_even")
    print(f"{len(cases)} cases over {', '.join(tables)}; step time above the least possible:")
    found: dict[str, Any] = {"cases": len(cases)}
    for name in names:
        values = sorted(case[name] for case in cases)
        found[name] = {"median": median(values), "worst": values[-1]}
        bar = TABLE_CORRECTED_BAR if name.startswith("corrected") else TABLE_FIRST_BAR
        within = found[name]["within_bar"] = sum(value <= bar for value in values) / len(values)
        print(f"  {name:20s} median {median(values):7.2%}  worst {values[-1]:7.2%}  within {bar:.0%}: {within:.0%}")
    worst = max(cases, key=lambda case: case["first"])
    print(f"  worst first plan: {worst['gang']} at {worst['batch']} rows")
    found["met"] = found["first"]["worst"] <= TABLE_FIRST_BAR and found["corrected"]["worst"] <= TABLE_CORRECTED_BAR
    return found


# ---- real ranks ----------------------------------------------------------------------------------------------------
def rank_main(steps: int) -> None:
    """One rank of the program: each step, each rank's work in it, whether the host was quiet after it; corrections."""
    from worker.runtime import Run
    from worker.runtime.collective import PeerLost, broadcast_bytes
    from worker.runtime.pace import Pace

    marks: list[float] = []
    quiet: list[bool] = []
    gauge = Gauge()
    groups: list[Any] = []
    told: list[list[float]] = []
    splits: list[tuple[int, ...]] = []
    log_step, agree, take = Run.log_step, Pace.agree, Pace._take

    def marked(run: Run, *values: Any, **named: Any) -> None:
        log_step(run, *values, **named)
        groups.append(run.group)
        with run.pace.waiting():  # a look is no work of this rank
            quiet.append(gauge.is_quiet())
        marks.append(time.perf_counter())
        if len(marks) > steps:
            raise Enough

    def heard(pace: Pace, sums: Sequence[float]) -> None:
        told.append(list(sums[: pace.run.world_size]))
        agree(pace, sums if len(splits) < CORRECTIONS else sums[: pace.run.world_size])

    def taken(pace: Pace, split: tuple[int, ...]) -> None:
        splits.append(split)
        take(pace, split)

    Run.log_step, Pace.agree, Pace._take = marked, heard, taken  # type: ignore[method-assign]
    sys.argv = ["train.py", "--fresh"]
    with contextlib.suppress(Enough):
        runpy.run_path("train.py", run_name="__main__")
    step_s = [after - before for before, after in itertools.pairwise(marks)]
    print(json.dumps({"step_s": step_s, "work_s": told, "quiet": quiet, "splits": splits}), flush=True)
    with contextlib.suppress(PeerLost):
        broadcast_bytes(groups[-1], b"")  # who leaves first would tear the last step of the other
    os._exit(0)


class Enough(Exception):
    """All steps were timed."""


def launch(program: Path, steps: int, planned: Planned, factor: float) -> dict[str, Any]:
    """Two ranks with this plan, the second slowed down; what the slower of them measured."""
    ranks = rank_environments(2, "horovod")
    ranks[1]["DLH_SLOWDOWN"] = str(factor)
    argv = [sys.executable, "-m", "tests.benchmarks.modes_uneven", "--rank", "--steps", str(steps)]
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": "1", "DLH_WORK": str(program / "work")}
    common["DLH_SPLIT"] = planned.to_json()
    told = figures_of(launched(argv, program, [common | rank for rank in ranks], 900))
    rows = told[0]["splits"][-1] if told[0]["splits"] else planned.rows
    return {**timed(told, steps), "rows": list(rows), "corrections": len(told[0]["splits"])}


def timed(told: Sequence[dict[str, Any]], steps: int) -> dict[str, Any]:
    """Medians over the last half of the steps, as far as the host was quiet.

    Work is told within the step that it belongs to, so before that step's own look and mark: one place later.
    """
    last = range(steps - steps // 2, steps)
    looks = [rank["quiet"] for rank in told]
    taken = calm_steps(looks, last)
    works = [work_s for step in taken if min(work_s := told[0]["work_s"][step + 1]) > 0]
    return {
        "step_s": max(median(rank["step_s"][step] for step in taken) for rank in told),
        "work_s": [median(column) for column in zip(*works, strict=True)],
        "quiet": len(quiet_steps(looks, last)) / len(last),
    }


def first_plan(program: Path, batch: int, factor: float) -> Planned:
    """As the platform plans it: the program read without running it, priced on a core that nobody has calibrated."""
    command = [sys.executable, "-m", "worker.runtime.inspection.trace", "--batch", str(batch // 2)]
    environment = samples.BARE | {"PYTHONPATH": str(samples.PROJECT)}
    done = subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, check=True)
    workload = Workload.from_dict(json.loads(done.stdout.splitlines()[-1])["workload"])
    lines = [rank_line(workload, prior_for("cpu", "core"), ranks=2, slowdown=slow) for slow in (1.0, factor)]
    return Planned(rows=equal_finish(lines, batch, least=2), lines=tuple(lines), correct=False)


def round_run(program: Path, batch: int, steps: int, factor: float) -> dict[str, Any]:
    """Even, first plan and corrected, one after the other."""
    even_rows = Planned(rows=even(batch, 2), correct=False)
    runs = {
        "even": launch(program, steps, even_rows, factor),
        "first": launch(program, steps, first_plan(program, batch, factor), factor),
        "corrected": launch(program, 2 * steps, replace(even_rows, correct=True), factor),
    }
    speeds = [
        max(run["rows"][rank] / run["work_s"][rank] for run in runs.values()) for rank in range(2)
    ]  # rows per second of each device while it works
    for run in runs.values():
        run["share_of_ideal"] = batch / run["step_s"] / sum(speeds)
        own = sum(rows / seconds for rows, seconds in zip(run["rows"], run["work_s"], strict=True))
        run["share_of_own"] = batch / run["step_s"] / own
        run["speedup"] = runs["even"]["step_s"] / run["step_s"]
    return runs


def ranks_run(rounds: int, steps: int, batch: int) -> dict[str, Any]:
    """Medians over rounds, by factor."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        model = {"family": "cnn", "params": {"conv_layers": 4, "filters": 32, "image_size": 32}}
        training = {"epochs": 1000, "batch_size": batch, "patience": 0, "augment": "none", "ema": 0}
        samples.program(program, pictures(program / "data", 40 * batch), model=model, training=training)
        made = [{factor: round_run(program, batch, steps, factor) for factor in FACTORS} for _ in range(rounds)]
    found: dict[str, Any] = {"met": True}
    for factor in FACTORS:
        ideal = (1.0 + 1.0 / factor) / (2.0 / factor)
        of_factor: dict[str, Any] = {"ideal_speedup": ideal}
        for name in ("even", "first", "corrected"):
            runs = [one[factor][name] for one in made]
            of_factor[name] = {
                "rows": runs[-1]["rows"],
                "corrections": max(run["corrections"] for run in runs),
                **{key: median(run[key] for run in runs) for key in FIGURES},
            }
            shown = of_factor[name]
            print(
                f"{factor:g}:1 {name:9s} {shown['rows']}  {shown['step_s'] * 1e3:6.1f} ms/step  "
                f"{shown['share_of_ideal']:.3f} of the ideal, {shown['share_of_own']:.3f} of its own  "
                f"{shown['speedup']:.2f}x even (ideal {ideal:.2f}x)  {counted(shown['corrections'], 'correction')}  "
                f"host quiet in {shown['quiet']:.0%} of the steps"
            )
        found["met"] &= of_factor["first"]["share_of_ideal"] >= FIRST_BAR
        found["met"] &= of_factor["corrected"]["share_of_ideal"] >= CORRECTED_BAR
        found[f"{factor:g}:1"] = of_factor
    return found


def main() -> None:
    """Print what was found, and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3, help="0: no ranks, only the tables")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--traces", type=Path, help="folder with step_times/*.csv")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank_main(options.steps)
    body: dict[str, Any] = {}
    traces = traces_folder(options.traces)
    if traces and (traces / "step_times").is_dir():
        body["tables"] = tables_run(traces)
    else:
        print("No public tables: give --traces DIR or set DLH_TRACES. They are left out.")
    if options.rounds:
        body["ranks"] = ranks_run(options.rounds, options.steps, options.batch)
    met = bool(body) and all(part["met"] for part in body.values())
    print(json.dumps({"benchmark": "modes_uneven", "met": met, "cores": os.cpu_count(), **body}))


if __name__ == "__main__":
    main()
