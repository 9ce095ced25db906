"""A sweep of a GPU in few warm processes, where `dlh pool calibrate` takes minutes more: a process for each point.

    python -m tests.benchmarks.gpu_points measure VISITS.jsonl [--budget SECONDS] [--most N] [--visits 1]
                                                  [--device cuda:0]
    python -m tests.benchmarks.gpu_points jobs JOBS.jsonl
    python -m tests.benchmarks.gpu_points join VISITS.jsonl POINTS.json

`measure` and `jobs` (whole ones) need the GPU, and keep each as a line at once. Processes take turns on the GPU: one
builds its model on the host while another one measures. A point that ends the process (a fault of the GPU spoils all
that comes after it in the same process) is left out, and the next process goes on. `join` reads the programs, which
needs no GPU, and writes what `dlh pool calibration import` and `ship_calibration` take.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from harness.measuring.points import point_profile
from scheduler.estimation.calibration import CalibrationPoint, to_json
from scheduler.estimation.extent import extent_of
from scheduler.estimation.sweep import SweepPoint, plan_sweep
from scheduler.workload import Workload
from tests.benchmarks.estimate_measure import as_point, joined, options
from tests.benchmarks.estimate_programs import write_spec
from worker.words import counted

if TYPE_CHECKING:
    from torch import nn

    from worker.runtime.data import Dataset

MOST = 300
OTHERS_SHARE = 1 / 3
"""Of the points, not CNNs: what is shipped is for all families."""
STEPS, REPEATS, BUDGET_S = 5, 2, 0.7
PROCESSES = 3
ROWS = 64
"""Made up for a program; batches repeat them."""
Visit = dict[str, Any]


def planned(model_name: str, memory_bytes: float) -> list[SweepPoint]:
    """The points, in order: as large as a sweep of such a GPU has them."""
    return plan_sweep(most=MOST, others_share=OTHERS_SHARE, extent=extent_of("cuda", model_name, memory_bytes))


def gpu_of(device: str) -> dict[str, Any]:
    """What the node would report of it. Raises `SystemExit` where there is none."""
    import torch

    from worker import devices

    found, index = [one for one in devices.devices() if one["kind"] == "cuda"], torch.device(device).index or 0
    if index >= len(found):
        raise SystemExit(f"nothing can be measured on {device}: this machine has {counted(len(found), 'GPU')}")
    return found[index]


def lines(path: Path) -> list[Visit]:
    """What is measured. A line that a process left unfinished when a point ended it is none."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def keep(path: Path, row: Visit) -> None:
    """Write a line, and at once; not behind one that another process left unfinished."""
    with path.open("ab+") as kept:
        size = kept.seek(0, os.SEEK_END)
        kept.seek(max(0, size - 1))
        begin = b"" if kept.read(1) in (b"", b"\n") else b"\n"
        kept.write(begin + json.dumps(row).encode() + b"\n")


def measured(path: Path, chosen: argparse.Namespace, until_s: float, share: int) -> None:
    """Visit what is not visited yet of every third point, until time is up; this process ends where a point ends it."""
    import torch

    torch.set_num_threads(1)
    gpu = gpu_of(chosen.device)
    plan, seen = planned(gpu["model_name"], gpu["memory_bytes"])[: chosen.most], lines(path)
    done = {(row["point_id"], row["visit"]) for row in seen}
    facts = {"model_name": gpu["model_name"], "memory_bytes": gpu["memory_bytes"], "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as root, path.with_suffix(".turn").open("w") as turn:
        for visit in range(chosen.visits):
            for point in plan[share::PROCESSES]:
                if (point.point_id, visit) in done:
                    continue
                if time.time() > until_s:
                    return
                row = {"point_id": point.point_id, "visit": visit, **facts}
                keep(path, {**row, "ok": False, "begun": True})
                keep(path, {**row, **visited(point, Path(root), chosen.device, turn)})


def visited(point: SweepPoint, root: Path, device: str, turn: TextIO) -> Visit:
    """One measurement, without the program's workload. What needs the GPU is done while `turn` is locked."""
    import torch

    from worker.runtime.inspection import measure as measuring
    from worker.runtime.inspection.synthetic_rows import make_rows

    class Turn(measuring.MeasureRun):
        """A visit is short: passes between epochs are no part of a point."""

        began_s, left_bytes = 0.0, 0

        def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
            fcntl.flock(turn, fcntl.LOCK_EX)
            Turn.began_s = time.monotonic()
            Turn.left_bytes = torch.cuda.memory_allocated(self.device)
            """Of programs before, which was not given back."""
            return super().place(net, dataset)

        def evaluation_row_s(self) -> float:
            return 0.0

    measuring.MeasureRun = Turn  # type: ignore[misc]
    measuring._traced = lambda *_: {}  # type: ignore[assignment]  # `join` reads the programs
    measuring.make_rows = partial(make_rows, rows=ROWS)  # type: ignore[attr-defined]
    program, asked_s = program_of(point, root), time.monotonic()
    chosen = options(steps=STEPS, repeats=REPEATS, budget=BUDGET_S, device=device)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        answer = measuring.measure(program, None, chosen, 0)
    gc.collect()
    torch.cuda.empty_cache()
    fcntl.flock(turn, fcntl.LOCK_UN)
    now_s = time.monotonic()
    return {**answer, "left_bytes": Turn.left_bytes, "turn_s": now_s - Turn.began_s, "took_s": now_s - asked_s}


def program_of(point: SweepPoint, root: Path) -> Path:
    """Its folder; no data are made for it."""
    return write_spec(point.spec, point_profile(point), root / point.point_id)


def measure(path: Path, chosen: argparse.Namespace) -> None:
    """Until the plan is done or the time is up; a process that a point ended has a successor."""
    gpu_of(chosen.device)  # else each process ends at that, and has a successor until the time is up
    until_s = time.time() + chosen.budget
    running = {share: _started(path, chosen, until_s, share) for share in range(PROCESSES)}
    while running:
        for share, process in list(running.items()):
            process.join(timeout=0.2)
            if process.exitcode == 0 or (process.exitcode is not None and time.time() > until_s):
                del running[share]
            elif process.exitcode is not None:
                running[share] = _started(path, chosen, until_s, share)
    told(path)


def _started(path: Path, chosen: argparse.Namespace, until_s: float, share: int) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(target=measured, args=(path, chosen, until_s, share))
    process.start()
    return process


def told(path: Path) -> None:
    """Print what is measured, and what could not be."""
    found = [row for row in lines(path) if not row.get("begun")]
    good = [row for row in found if row["ok"]]
    turn = f"; on the GPU {median(row['turn_s'] for row in good):.2f} s each" if good else ""
    print(f"{len(good)} of {len(found)} visits gave figures{turn}")
    for row in found:
        if not row["ok"]:
            print(f"  left out: {row['point_id']}: {(row['problem'] or {}).get('message', '')[:200]}")


def join(path: Path, target: Path) -> None:
    """Visits and programs to calibration points."""
    found = [row for row in lines(path) if row["ok"]]
    names = {(row["model_name"], row["memory_bytes"]) for row in found}
    if len(names) != 1:
        raise SystemExit(f"{path} is of {len(names)} kinds of GPU; one is needed")
    plan = {point.point_id: point for point in planned(*names.pop())}
    with tempfile.TemporaryDirectory() as root:
        points = list(points_of(found, plan, Path(root)))
    target.write_text(to_json(points), encoding="utf-8")
    print(f"{len(points)} points written")


def points_of(found: Sequence[Visit], plan: dict[str, SweepPoint], root: Path) -> Iterator[CalibrationPoint]:
    """A point for all visits of a program."""
    for point_id in dict.fromkeys(row["point_id"] for row in found):
        point = plan[point_id]
        read = {"workload": workload_of(point, root).to_dict()}
        visits = [row | read | {"peak_bytes": peak_of(row)} for row in found if row["point_id"] == point_id]
        yield joined([as_point(point, visit, "cuda", visit["model_name"]) for visit in visits])


def peak_of(row: Visit) -> float:
    """Of the program alone; 0 where it was not told what others had left."""
    return float(row["peak_bytes"] - row["left_bytes"]) if "left_bytes" in row else 0.0


def workload_of(point: SweepPoint, root: Path) -> Workload:
    """Of the point's program. Raises `ValueError` where it cannot be read."""
    from worker.runtime.inspection.synthetic_rows import make_rows
    from worker.runtime.inspection.trace import trace
    from worker.runtime.spec import load_spec

    program = program_of(point, root)
    with tempfile.TemporaryDirectory() as rows:
        answer = trace(program, make_rows(load_spec(program / "spec.yaml"), Path(rows)), point.batch_size)
    if not answer["ok"]:
        raise ValueError(f"{point.point_id}: {answer['problem']}")
    return Workload.from_dict(answer["workload"])


def main() -> None:
    """Measure, or join."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("measure", "jobs", "join"))
    parser.add_argument("visits_file", type=Path)
    parser.add_argument("points_file", type=Path, nargs="?")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds")
    parser.add_argument("--most", type=int, default=MOST, help="the first of the plan")
    parser.add_argument("--visits", type=int, default=1, help="to each")
    parser.add_argument("--device", default="cuda:0")
    chosen = parser.parse_args()
    if chosen.what == "measure":
        measure(chosen.visits_file, chosen)
    elif chosen.what == "jobs":
        from tests.benchmarks import gpu_jobs

        gpu_jobs.measure(chosen.visits_file, gpu_of(chosen.device)["model_name"], chosen.budget)
    elif chosen.points_file is None:
        parser.error("join wants the file to write")
    else:
        join(chosen.visits_file, chosen.points_file)


if __name__ == "__main__":
    main()
