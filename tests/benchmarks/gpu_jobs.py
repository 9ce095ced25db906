"""Small real jobs on a GPU, each after a probe of three steps: what estimates of whole runs are held against."""

from __future__ import annotations

import json
import math
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.learning import corrected
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import RunParts
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload
from tests.benchmarks.estimate_jobs import CNN, RESMLP, finished, foretold, job_of, run_figures
from tests.benchmarks.estimate_programs import write_program
from tests.benchmarks.estimate_runs import Seen, see

LESSONS = (
    job_of("cnn", 256, 20, 4000, {**CNN, "conv_layers": 3, "filters": 48}, size=32),
    job_of("mlp", 1024, 20, 40_000, {"layers": 3, "width": 1024}, features=24),
)
"""Jobs that the model learns the start and the end of a run from before the others are predicted."""
JOBS = (
    job_of("cnn", 256, 40, 6000, {**CNN, "conv_layers": 5, "filters": 96}, size=48),
    job_of("mlp", 2048, 60, 60_000, {"layers": 5, "width": 2048}, features=40),
    job_of("resnet", 128, 30, 4000, {"blocks": 2, "width": 64}, size=48),
    job_of("ft_transformer", 512, 20, 20_000, {"blocks": 3, "width": 192, "heads": 8}, features=16),
    job_of("convnext", 128, 20, 4000, {"blocks": 2, "width": 96, "patch": 2}, size=48),
    job_of("resmlp", 1024, 30, 50_000, {**RESMLP, "blocks": 4, "width": 768}, features=20),
    job_of("cnn", 512, 60, 8000, {**CNN, "conv_layers": 4, "filters": 64}, size=32),
)


def measure(path: Path, model_name: str, budget_s: float = math.inf) -> None:
    """Run those that `path` does not hold yet on the first GPU, as far as time allows; a line each.

    Their data are made beforehand.
    """
    began_s, seen = time.monotonic(), {number for number, _ in read(path)} if path.exists() else set()
    jobs = {number: job for number, job in enumerate((*LESSONS, *JOBS)) if number not in seen}
    with tempfile.TemporaryDirectory() as root, path.open("a") as kept, ProcessPoolExecutor() as pool:
        places = list(pool.map(write_program, jobs.values(), [Path(root)] * len(jobs)))
        for (number, job), written in zip(jobs.items(), places, strict=True):
            if time.monotonic() - began_s > budget_s:
                break
            try:
                found = see(job, alone(job.batch_size, model_name), Path(root), written)
            except RuntimeError as error:
                print(f"  left out: {job.family}: {error}", flush=True)
                continue
            row = {"number": number, "model_name": model_name, "run_s": found.run_s, "parts": asdict(found.parts)}
            row |= {"probe": asdict(found.probe) | {"allocation": None}, "workload": found.workload.to_dict()}
            kept.write(json.dumps(row) + "\n")
            kept.flush()


def alone(batch: int, model_name: str) -> Allocation:
    """One GPU."""
    return Allocation(kind="cuda", model_name=model_name, count=1, mode="single", batch_split=(batch,), threads=1)


def read(path: Path) -> list[tuple[int, Seen]]:
    """What was measured."""
    return [_seen(json.loads(line)) for line in path.read_text().splitlines()]


def _seen(row: dict[str, Any]) -> tuple[int, Seen]:
    job = (*LESSONS, *JOBS)[row["number"]]
    probe = Probe(
        **{
            **row["probe"],
            "allocation": alone(job.batch_size, row["model_name"]),
            "step_s": tuple(row["probe"]["step_s"]),
            "left_out_s": tuple(row["probe"]["left_out_s"]),
        }
    )
    parts = RunParts(**row["parts"])
    return row["number"], Seen(job, Workload.from_dict(row["workload"]), probe, row["run_s"], parts.start_s, parts)


def judge(path: Path, model: DeviceModel) -> dict[str, float]:
    """Whole runs after their probes, by a model that has learnt from two others."""
    seen = read(path)
    model = corrected(model, [finished(one) for number, one in seen if number < len(LESSONS)])
    runs = [one for number, one in seen if number >= len(LESSONS)]
    if not runs:
        print("whole jobs: there was no time for one")
        return {}
    print("whole jobs (start to results) after three probe steps")
    pairs = [foretold(model, one) for one in runs]
    errors = [guess_s / one.run_s - 1.0 for (guess_s, _), one in zip(pairs, runs, strict=True)]
    bare = [plain_s / one.run_s - 1.0 for (_, plain_s), one in zip(pairs, runs, strict=True)]
    found = run_figures(errors, bare, runs)
    print(f"  the same steps in the run and in its probe differ by {found['noise']:.1%} (median)")
    print(f"  median {found['median']:.1%}, without a probe {found['without_probe_median']:.1%}")
    return found
