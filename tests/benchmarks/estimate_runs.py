"""A small real job, probed and then run whole as on a node: how long it took, and where the time went."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from codegen.modes import STAGED
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import RunParts
from scheduler.estimation.sweep import SweepPoint
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload
from tests.benchmarks.estimate_measure import in_process
from tests.benchmarks.estimate_programs import write_program
from tests.worker.runtime.samples import PROJECT
from worker.launch_config import LaunchConfig, LocalRank

BROKEN = (RuntimeError, subprocess.TimeoutExpired)
"""What a job raises that does not run, or not to its end."""


@dataclass(frozen=True)
class Seen:
    """One job on one allocation: a probe of three steps, and the whole run."""

    job: SweepPoint
    workload: Workload
    probe: Probe
    run_s: float
    start_s: float
    parts: RunParts
    """Where the time went."""


def see(job: SweepPoint, allocation: Allocation, root: Path, written: tuple[Path, Path] | None = None) -> Seen:
    """Probe and run. `written`: folders of program and data, where they are there. Raises `RuntimeError`."""
    program, data = written or write_program(job, root)
    workload, probe = probed(program, data, allocation)
    run_s, parts = run_whole(program, data, allocation, root / "work")
    return Seen(job, workload, probe, run_s, parts.start_s, parts)


def probed(program: Path, data: Path, allocation: Allocation) -> tuple[Workload, Probe]:
    """The workload on one device, and a probe of three steps. Raises `RuntimeError` if the program fails."""
    ranks = len(allocation.batch_split)
    chosen = {"data": data, "ranks": ranks, "threads": allocation.threads, "device": _device_of(allocation)}
    figures = in_process(program, **chosen, steps=3, repeats=1, budget=5)
    if not figures.get("ok"):
        raise RuntimeError(f"{program}: {figures.get('problem')}")
    probe = Probe(
        allocation=allocation,
        step_s=tuple(figures["step_s"]),
        peak_bytes=figures["run_peak_bytes"],
        evaluation_row_s=figures["evaluation_row_s"],
        load_row_s=figures["load_row_s"],
        load_once_s=figures["load_once_s"] or None,
    )
    one = in_process(program, data=data, ranks=1, steps=1, repeats=1, budget=1) if ranks > 1 else figures
    return Workload.from_dict(one["workload"]), probe


def _device_of(allocation: Allocation) -> str:
    return "cuda:0" if allocation.kind == "cuda" else "cpu"


def run_whole(program: Path, data: Path, allocation: Allocation, work: Path) -> tuple[float, RunParts]:
    """(seconds of the whole run, where they went), launched as on a node."""
    shutil.rmtree(work, ignore_errors=True)
    arguments = ["--program", str(program), "--data", str(data), "--work", str(work)]
    argv = [sys.executable, "-m", "tests.benchmarks.timed_run", *arguments]
    with tempfile.TemporaryDirectory(prefix="launch-") as folder:
        began_s = time.time()
        code = _launched(argv, allocation, Path(folder))
        run_s = time.time() - began_s
        said = Path(folder, "rank0").read_text()
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if code or not lines:
        raise RuntimeError(f"train.py failed in {program}:\n{said[-2000:]}")
    told = json.loads(lines[-1])
    start_s = told.pop("first_step_s") - began_s
    counted = start_s + sum(told.values())
    told["end_s"] += max(0.0, run_s - counted)  # until the last process has ended
    return run_s, RunParts(start_s=start_s, **told)


def _launched(argv: list[str], allocation: Allocation, folder: Path) -> int:
    """Exit code of the process that starts the ranks on a node; what rank N says is in the file `rankN`."""
    ranks, threads = len(allocation.batch_split), str(allocation.threads)
    backend = "torch" if allocation.mode in STAGED else "horovod"
    placed = {"DLH_MODE": allocation.mode, "DLH_STAGES": str(allocation.stages)} if allocation.stages else {}
    quiet = os.open(os.devnull, os.O_WRONLY)
    local, kept = [], [quiet]
    for rank in range(ranks):
        out = os.open(folder / f"rank{rank}", os.O_WRONLY | os.O_CREAT)
        kept += [out, os.dup(out)]
        environment = {
            "DLH_RANK": str(rank), "DLH_DEVICE": _device_of(allocation), "DLH_BACKEND": backend, "DLH_THREADS": threads,
            "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": str(PROJECT), **placed,
        }  # fmt: skip
        fds = {"stdout_fd": kept[-2], "stderr_fd": kept[-1]}
        local.append(LocalRank(rank=rank, local_rank=rank, environment=environment, **fds))
    config = LaunchConfig(
        argv=argv, workdir=str(PROJECT), requests=str(folder), status_fd=quiet, backend=backend,
        hosts=[("localhost", ranks)], hostname="localhost", address="127.0.0.1", interface="lo", ranks=local,
    )  # fmt: skip
    file = folder / "launch.json"
    file.write_text(config.to_json())
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    launch = [sys.executable, "-m", "worker.launch", str(file)]
    try:
        return subprocess.run(launch, env=environment, cwd=PROJECT, pass_fds=kept, timeout=600).returncode
    finally:
        for number in kept:
            os.close(number)
