"""A learning-rate range test of a program: `python -m worker.runtime.rates.range_test --program DIR --data DIR [...]`.

train.py runs with a stand-in for `Run` that hands it batches and notes the loss of every step, while each optimizer's
learning rate rises exponentially from `--low` to `--high`, whatever train.py sets: model, loss, optimizer, clipping and
augmentation are the program's own, and nothing of a run is read or written. A sweep ends at its last rate, or when the
loss has left for good; further sweeps with other seeds follow while the time lasts. The last line printed is JSON:

    ok, problem      as `worker.runtime.inspection.trace` tells them
    record           {rates, sweeps: [{losses, scores}], score}, as `scheduler.rates.record.RangeRecord` reads it;
                     a loss is of the step's own batch, before the step; `score` is `accuracy`, `r2` or empty
    batch_size       rows of a step
    rate             peak learning rate that spec.yaml names
    optimizer        of train.py, by the name of its class
    took_s, device, threads
    run_s            what the whole run would take here, about

Lines `{"mark": "progress", "share": 0.4}` tell how far it is. `dlh lr-find` reads an interval and a centre off the
record.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from worker.plan import EXIT_REPORTED
from worker.rate_search import USUAL_HIGH, USUAL_LOW, range_fault
from worker.runtime.data import DataError
from worker.runtime.device import default_threads, set_up_torch
from worker.runtime.inspection import trace as tracing
from worker.runtime.inspection.few_rows import GivenShapeSpec, few_rows
from worker.runtime.inspection.standin import drive
from worker.runtime.rates.sweep import Ramp, SweepRun
from worker.runtime.rng import seed_all
from worker.runtime.spec import Spec, load_spec

DATA_BYTES = 256 << 20
"""Packed data up to this size are taken whole; a sweep of a hundred steps sees few rows."""


def rate_test(program: Path, data: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """The answer. Never raises for a fault of the program."""
    answer: dict[str, Any] = {"ok": False, "problem": None, "record": None}
    began_s = time.monotonic()
    with tracing.problem_told(answer, program):
        if data is None or not data.is_dir():
            raise DataError("A range test needs the program's data.", "Name their folder: --data FOLDER")
        with few_rows(data, load_spec(program / "spec.yaml"), DATA_BYTES) as rows:
            sweeps = _sweeps(program, rows.folder, rows.whole, options)
            answer["run_s"] = sweeps[0].run_s / rows.share
        answer |= _told(sweeps, options) | {"took_s": time.monotonic() - began_s}
    return answer


def _sweeps(program: Path, data: Path, whole: bool, options: argparse.Namespace) -> list[SweepRun]:
    """As many sweeps as were asked for and the time allows, one at least; all over the same rates."""
    ramp = Ramp(options.low, options.high, options.steps, options.budget)
    done: list[SweepRun] = []
    for number in range(options.sweeps):
        began_s = time.monotonic()
        spec = load_spec(program / "spec.yaml")
        done.append(_sweep(program, data, spec if whole else GivenShapeSpec(spec), ramp, number, options))
        _mark((number + 1) / options.sweeps)
        if ramp.left_s() < 1.2 * (time.monotonic() - began_s):
            break
    return done


def _sweep(program: Path, data: Path, spec: Spec, ramp: Ramp, number: int, options: argparse.Namespace) -> SweepRun:
    spec |= {"mode": "single", "budget": Spec()}
    spec["checkpoints"] = Spec({**spec.get("checkpoints", {}), "every_minutes": math.inf})
    spec["training"]["seed"] = int(spec.training.seed) + number
    with tempfile.TemporaryDirectory(prefix="rates-") as work:
        run = SweepRun(
            spec, data, Path(work), options.batch, ramp=ramp,
            tell=lambda share: _mark((number + share) / options.sweeps), DLH_DEVICE=options.device,
        )  # fmt: skip
        set_up_torch(run.device, options.threads or default_threads(run.spec, 1))
        seed_all(run.seed)
        with run.rates_forced():
            drive(program, run)
    if not run.losses:
        raise ValueError("train.py trained no step: it has to take its batches from run.batches(...).")
    return run


def _told(sweeps: list[SweepRun], options: argparse.Namespace) -> dict[str, Any]:
    first = sweeps[0]
    scored = all(any(map(math.isfinite, run.scores)) for run in sweeps)
    return {
        "ok": True,
        "record": {
            "rates": first.ramp.rates,
            "sweeps": [{"losses": _finite(run.losses), "scores": _finite(run.scores)} for run in sweeps],
            "score": first.score_name if scored else "",
        },
        "batch_size": first.batch_size,
        "rate": float(first.spec.training.learning_rate),
        "optimizer": first.optimizer_name,
        "device": str(first.device),
        "threads": torch.get_num_threads(),
    }


def _finite(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _mark(share: float) -> None:
    print("\n" + json.dumps({"mark": "progress", "share": round(min(1.0, share), 3)}), flush=True)


def main() -> None:
    """Test and print the answer."""
    options = _options()
    answer = rate_test(options.program.absolute(), options.data.absolute() if options.data else None, options)
    text = json.dumps(answer, separators=(",", ":"))
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    print("\n" + text, flush=True)
    os._exit(0 if answer["ok"] else EXIT_REPORTED)  # a program's threads or exit hooks must not hold up the answer


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find usable learning rates of a program by a range test.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, default=Path("data"), help="packed data")
    parser.add_argument("--batch", type=int, help="rows of a step, instead of the spec's")
    parser.add_argument("--low", type=float, default=USUAL_LOW, help="first learning rate")
    parser.add_argument("--high", type=float, default=USUAL_HIGH, help="last learning rate")
    parser.add_argument("--steps", type=int, default=120, help="steps of a sweep, fewer where they are slow")
    parser.add_argument("--sweeps", type=int, default=3, help="sweeps at most, each with a seed of its own")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for all steps, about")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    threads = int(os.environ.get("DLH_THREADS") or 0)
    parser.add_argument("--threads", type=int, default=threads, help="0: as many as train.py alone takes")
    parser.add_argument("--out", type=Path, help="write the answer to this file as well")
    options = parser.parse_args()
    if min(options.steps - 1, options.sweeps, options.threads + 1) < 1 or (options.batch or 1) < 1:
        parser.error("numbers must be at least 1, steps at least 2")
    if not options.budget > 0:
        parser.error("--budget must be above 0")
    if fault := range_fault(options.low, options.high, prefix="--"):
        parser.error(f"{fault.message} {fault.hint}")
    return options


if __name__ == "__main__":
    main()
