"""Real optimizer steps of a program, timed: `python -m worker.runtime.inspection.measure --program DIR [...]`.

train.py runs with a stand-in for `Run` that hands it batches and watches the clock: model, loss, optimizer, clipping,
averaging and augmentation are the program's own. A few rows are enough, real ones (`--data`) or made up from the
shape in spec.yaml; batches repeat them as often as needed. Lines `{"mark": "begin"}` and `{"mark": "end"}` around the
timed steps let a watcher read its energy counters, more than once where a quiet host was waited for. The last line
printed is JSON:

    ok, problem          as `worker.runtime.inspection.trace` tells them
    workload             of ONE rank's share of the batch; null if the program cannot be traced (see `trace_problem`)
    step_s               seconds per step, one figure per visit: median of the steps, plus the mean time of their data
    noise                spread of the visits over their mean; 0 for a single visit
    steps, warmup_s      timed steps per visit; seconds of the steps before (the first also sets up the optimizer)
    data_s               mean seconds per step until its batch is there (part of step_s)
    evaluation_row_s     seconds per row of a forward pass as between epochs
    peak_bytes           CPU: peak resident memory of the steps above `idle_bytes`; CUDA: most memory allocated.
                         Of the rank that takes most. The few rows held (`sample_bytes`) are part of it
    run_peak_bytes       the same with the evaluation
    idle_bytes           resident memory of a process that has loaded torch and this library, and nothing else
    load_row_s           seconds per row to read the data
    load_once_s          seconds until all that reads it is loaded and the model is made, beside the rows
    quickest_s           the quickest survey that steps were held against (`--quickest`); null where there was none
    loud_s               seconds that went by because the host was busy for others: steps then are made again
    power_w              mean of the GPU's own counter over the timed steps; null where none can be read, and for CPUs
    precision            in which products were computed: float32, tf32 (on GPUs since Ampere), bfloat16 or float16
    gradient_bytes, step_messages  what ranks add up in each step (see `Workload`), be there others or not
    device, threads, ranks, batch_size (over all ranks)

`--quickest`, the quickest survey of `worker.quiet` here, has one rank on a CPU take only steps of a quiet host, for a
while (`quiet.PATIENCE_S`). `--steps` is the least number of steps per visit: short ones are repeated for
`timing.VISIT_S`, `--budget` cuts long ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from worker.plan import EXIT_REPORTED
from worker.quiet import Gauge
from worker.runtime.device import set_up_torch
from worker.runtime.inspection import trace as tracing
from worker.runtime.inspection.few_rows import FewRows, GivenShapeSpec, few_rows
from worker.runtime.inspection.standin import drive
from worker.runtime.inspection.synthetic_rows import make_rows
from worker.runtime.inspection.timing import MeasureRun
from worker.runtime.inspection.workloads import sums_of
from worker.runtime.memory import idle_bytes, peak_bytes
from worker.runtime.rng import seed_all
from worker.runtime.spec import Spec, load_spec


def measure(
    program: Path, data: Path | None, options: argparse.Namespace, idle: int, gauge: Gauge | None = None
) -> dict[str, Any]:
    """The answer of this rank. Never raises for a fault of the program."""
    answer: dict[str, Any] = {"ok": False, "problem": None, "workload": None}
    with tracing.problem_told(answer, program), ExitStack() as stack:
        spec = load_spec(program / "spec.yaml")
        rows, spec = _rows(stack, spec, data)
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="measure-")))
        run = MeasureRun(
            spec, rows.folder, work, options.batch, steps=options.steps, visits=options.repeats,
            budget_s=options.budget, gauge=gauge, DLH_DEVICE=options.device,
        )  # fmt: skip
        set_up_torch(run.device, options.threads)
        seed_all(run.seed)
        drive(program, run)
        answer |= _figures(run, idle)
        if run.group is not None:
            run.group.close()
        if run.rank == 0:
            answer |= _traced(program, data or rows.folder, run)  # the rows are counted, so not the few alone
    return answer


def _rows(stack: ExitStack, spec: Spec, data: Path | None) -> tuple[FewRows, Spec]:
    if data is not None:
        rows = stack.enter_context(few_rows(data, spec))
        return rows, spec if rows.whole else GivenShapeSpec(spec)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="made-up-")))
    return FewRows(folder=make_rows(spec, folder), share=1.0), GivenShapeSpec(spec)


def _figures(run: MeasureRun, idle: int) -> dict[str, Any]:
    if run.dataset is None or not run.step_s:
        raise ValueError("train.py trained no step: it has to take its batches from run.batches(...).")
    dataset, steps_peak = run.dataset, peak_bytes(run.device, idle)
    parts = (dataset.train, dataset.val, dataset.test)
    row_s = run.evaluation_row_s()
    return {
        "ok": True,
        "step_s": run.step_s,
        "noise": (max(run.step_s) - min(run.step_s)) / fmean(run.step_s),
        "steps": run.steps,
        "warmup_s": run.warmup_s,
        "data_s": fmean(run.data_s),
        "evaluation_row_s": row_s,
        "peak_bytes": steps_peak,
        "run_peak_bytes": max(steps_peak, peak_bytes(run.device, idle)),
        "idle_bytes": idle,
        "sample_bytes": sum(len(part) * part.row_bytes for part in parts),
        "load_row_s": run.loaded_s / sum(map(len, parts)),
        "load_once_s": run.load_once_s,
        "quickest_s": run.gauge.quickest_s if run.gauge else None,
        "loud_s": run.loud_s,
        "power_w": run.power_w,
        "precision": run.autocast.products,
        "device": str(run.device),
        "threads": torch.get_num_threads(),
        "ranks": run.world_size,
        "batch_size": run.batch_size,
        "parameters": sum(weight.numel() for weight in run.net.parameters()) if run.net else 0,
        **(sums_of(run.net, synced=run.spec.training.get("batch_norm") == "synced") if run.net else {}),
    }


def _traced(program: Path, data: Path, run: MeasureRun) -> dict[str, Any]:
    found = tracing.trace(program, data, max(1, run.batch_size // run.world_size))
    return {"workload": found["workload"], "trace_problem": found["problem"]}


def together(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """One answer of all ranks: the first one's, with the largest memory, and the fault of whichever has one."""
    bad = [answer for answer in answers if not answer["ok"]]
    if bad:
        return bad[0]
    most = {name: max(answer[name] for answer in answers) for name in ("peak_bytes", "run_peak_bytes")}
    slowest = [max(times) for times in zip(*(answer["step_s"] for answer in answers), strict=True)]
    watts = [answer["power_w"] for answer in answers]
    # each GPU counts its own energy, a processor that of all its cores
    apart = answers[0]["device"].startswith("cuda") and None not in watts
    return {**answers[0], **most, "step_s": slowest, "power_w": sum(watts) if apart else watts[0]}


def main() -> None:
    """Measure and print the answer."""
    options = _options()
    gauge = Gauge(options.quickest) if options.quickest else None
    idle = idle_bytes()
    if options.ranks > 1 and "DLH_RANK" not in os.environ:
        answer = _several(options)
    else:
        data = options.data.absolute() if options.data else None
        answer = measure(options.program.absolute(), data, options, idle, gauge)
    print("\n" + json.dumps(answer, separators=(",", ":")), flush=True)
    os._exit(0 if answer["ok"] else EXIT_REPORTED)  # a program's threads or exit hooks must not hold up the answer


def _several(options: argparse.Namespace) -> dict[str, Any]:
    from worker.runtime.inspection.local_ranks import run_ranks

    try:
        answers = run_ranks(
            "worker.runtime.inspection.measure",
            sys.argv[1:],
            options.ranks,
            threads=options.threads,
            device=options.device,
        )
    except RuntimeError as error:
        answers = [{"ok": False, "problem": {"code": "program_error", "message": str(error), "hint": ""}}]
    return together(answers)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time real steps of a program.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, help="packed data; without it rows are made up from spec.yaml")
    parser.add_argument("--batch", type=int, help="rows of a step over all ranks, instead of the spec's")
    parser.add_argument("--steps", type=int, default=5, help="least timed steps per visit")
    parser.add_argument("--repeats", type=int, default=3, help="visits")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for the timed steps, about")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("DLH_THREADS", "1")))
    parser.add_argument("--ranks", type=int, default=1, help="joined ranks on this host")
    parser.add_argument("--quickest", type=float, help="seconds of the quickest survey here: wait for a quiet host")
    options = parser.parse_args()
    if min(options.steps, options.repeats, options.threads, options.ranks) < 1 or (options.batch or 1) < 1:
        parser.error("numbers must be at least 1")
    return options


if __name__ == "__main__":
    main()
