"""Whole runs in two stages on two cores, beside what an offer says of them.

An offer can try the whole model on one device, never a stage of it; so each run is foretold without a probe, and after
three steps on one core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.pipelines import PIPELINE
from scheduler.estimation.values import Allocation, Estimate
from tests.benchmarks.estimate_jobs import RESMLP, allocations, job_of, parts_words, whole_steps
from tests.benchmarks.estimate_measure import NAME
from tests.benchmarks.estimate_programs import write_program
from tests.benchmarks.estimate_runs import BROKEN, Seen, probed, run_whole
from tests.run_parts import run_parts

STAGES = 2
JOBS = (
    job_of("mlp", 256, 16, 24_000, {"layers": 4, "width": 384}, features=40),
    job_of("mlp", 512, 8, 24_000, {"layers": 8, "width": 512}, features=64),
    job_of("resmlp", 128, 10, 12_000, {**RESMLP, "blocks": 2, "width": 160}, features=20),
    job_of("resmlp", 256, 8, 12_000, {**RESMLP, "blocks": 6, "width": 256}, features=20),
    job_of("ft_transformer", 128, 4, 5_000, {"blocks": 2, "width": 48, "heads": 4}, features=12),
    job_of("ft_transformer", 64, 4, 3_000, {"blocks": 4, "width": 64, "heads": 4}, features=16),
)
"""Of families whose programs can be cut and learn the same in stages: none normalises over a batch."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Foretold over measured, less 1, of one run."""

    step: float
    run: float
    inside: bool
    """Whether the run lay in its range."""


def in_stages(batch_size: int) -> Allocation:
    """One pipeline over two cores: all rows pass both stages."""
    split = (batch_size,) * STAGES
    return Allocation(kind="cpu", model_name=NAME, count=STAGES, mode=PIPELINE, batch_split=split, stages=STAGES)


def staged_runs(model: DeviceModel, root: Path) -> dict[str, dict[str, float]]:
    """Figures of all jobs that run, by basis: `bare`, and `probed` on one core."""
    found: dict[str, list[Errors]] = {"bare": [], "probed": []}
    for job in JOBS:
        way = in_stages(job.batch_size)
        try:
            program, data = write_program(job, root)
            workload, probe = probed(program, data, allocations(job.batch_size)[0])
            run_s, parts = run_whole(program, data, way, root / "work")
        except BROKEN as error:
            print(f"  left out: {job.family}: {error}", flush=True)
            continue
        seen = Seen(job, workload, probe, run_s, parts.start_s, parts)
        bare, after = estimate(workload, way, model), estimate(workload, way, model, probe=probe)
        for name, foretold in (("bare", bare), ("probed", after)):
            found[name].append(_errors(foretold, seen))
        told = ", ".join(f"{name} step {rows[-1].step:+.1%} run {rows[-1].run:+.1%}" for name, rows in found.items())
        print(f"  {job.family:15} in {STAGES} stages, measured {run_s:6.1f} s  {told}", flush=True)
        print(f"    {parts_words(parts, run_parts(workload, way, model, probe))}", flush=True)
    return {name: _figures(rows) for name, rows in found.items() if rows}


def _errors(foretold: Estimate, seen: Seen) -> Errors:
    step_s = seen.parts.steps_s / whole_steps(seen.workload)
    run_s = foretold.run_s
    return Errors(
        step=foretold.step_s.mid / step_s - 1.0,
        run=run_s.mid / seen.run_s - 1.0,
        inside=run_s.low <= seen.run_s <= run_s.high,
    )


def _figures(rows: Sequence[Errors]) -> dict[str, float]:
    step, run = (np.abs([getattr(row, name) for row in rows]) for name in ("step", "run"))
    return {
        "step_mape": float(step.mean()), "step_max": float(step.max()), "run_mape": float(run.mean()),
        "run_median": float(np.median(run)), "inside": sum(row.inside for row in rows) / len(rows), "runs": len(rows),
    }  # fmt: skip
