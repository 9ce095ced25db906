"""Steps of two ranks, foretold after one core has tried the rows of one of them, beside what a run takes.

So an offer does for a job of several devices (docs/decisions/062): what the probe took counts for what a rank computes,
and how ranks slow each other down, and what they send, stays modelled. Beside it stands the same without a probe.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.probe import Probe
from scheduler.estimation.ranks import step_time
from scheduler.estimation.sweep import SweepPoint
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload
from tests.benchmarks.estimate_jobs import JOBS, allocations, whole_steps
from tests.benchmarks.estimate_measure import in_process
from tests.benchmarks.estimate_programs import write_program
from tests.benchmarks.estimate_runs import BROKEN, run_whole

STEPS = 3
"""As a node makes them, in one visit."""


def gangs(model: DeviceModel, root: Path, most: int = len(JOBS)) -> dict[str, dict[str, float]]:
    """Figures of steps on two ranks over the first `most` jobs, by basis: `bare`, and `probed` on one core."""
    print("steps of two ranks after one core has tried the rows of one, and without")
    errors: dict[str, list[float]] = {"bare": [], "probed": []}
    inside: dict[str, list[bool]] = {"bare": [], "probed": []}
    for job in JOBS[:most]:
        way = allocations(job.batch_size)[2]
        try:
            program, data = write_program(job, root)
            workload, probe = rank_probed(job, program, data)
            parts = run_whole(program, data, way, root / "work")[1]
        except BROKEN as error:
            print(f"  left out: {job.family}: {error}", flush=True)
            continue
        measured_s = parts.steps_s / whole_steps(workload)
        told = {"bare": estimate(workload, way, model), "probed": estimate(workload, way, model, probe=probe)}
        for name, found in told.items():
            errors[name].append(found.step_s.mid / measured_s - 1.0)
            inside[name].append(found.step_s.low <= measured_s <= found.step_s.high)
        said = "  ".join(
            f"{name} {1e3 * each.step_s.mid:.2f} ms ({errors[name][-1]:+.1%})" for name, each in told.items()
        )
        sent_s = step_time(workload, way, model).communication_s
        print(f"  {job.family:15} measured {1e3 * measured_s:.2f} ms  {said}", flush=True)
        print(f"    one core took {1e3 * min(probe.step_s):.2f} ms, messages are modelled as {1e3 * sent_s:.2f} ms")
    figures = {name: _figures(errors[name], inside[name]) for name in errors if errors[name]}
    for name, row in figures.items():
        print(f"  {name:10} " + "  ".join(f"{key} {value:.1%}" for key, value in row.items() if key != "runs"))
    return figures


def rank_probed(job: SweepPoint, program: Path, data: Path) -> tuple[Workload, Probe]:
    """The program's workload, and steps of one core on the rows of one of two ranks. Raises `RuntimeError`."""
    rows = job.batch_size // 2
    tried = in_process(program, data=data, batch=rows, steps=STEPS, repeats=1, budget=5)
    if not tried.get("ok"):
        raise RuntimeError(f"{program}: {tried.get('problem')}")
    like = allocations(job.batch_size)[0]
    alone = Allocation(kind=like.kind, model_name=like.model_name, count=1, mode="single", batch_split=(rows,))
    workload = replace(Workload.from_dict(tried["workload"]), global_batch_size=job.batch_size)
    return workload, Probe(allocation=alone, step_s=tuple(tried["step_s"]))


def _figures(errors: list[float], inside: list[bool]) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "step_mape": float(size.mean()), "step_median": float(np.median(size)), "step_max": float(size.max()),
        "inside": sum(inside) / len(inside), "runs": len(errors),
    }  # fmt: skip
