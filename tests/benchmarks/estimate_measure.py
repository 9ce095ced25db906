"""Measures points of a sweep in forks of one warm process, one thread each, and keeps every visit in a CSV file.

A fork starts with torch and its lazily loaded parts in memory, so that a point costs about a second; its peak memory is
counted above that process. Steps count while the host is quiet (`worker.quiet`). Visits to the same point lie a whole
pass apart: how far they differ is the noise, and all of them count alike.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from typing import Any

from scheduler.estimation.calibration import CalibrationPoint, from_csv, to_csv
from scheduler.estimation.sweep import SweepPoint
from scheduler.workload import Workload
from tests.benchmarks.estimate_programs import write_program
from tests.worker.runtime.samples import PROJECT
from worker.quiet import Gauge, Surveys

NAME = "bench core"
STEPS, REPEATS = 3, 3
VISITS_MOST = 3
PATIENCE_S = 2.0
LIMIT_S = 300.0
"""Of one measurement, which takes seconds."""
AGREE = 0.1
"""Two visits that differ by less are believed; else a third one is made."""


def options(**changes: Any) -> argparse.Namespace:
    """What `worker.runtime.inspection.measure` takes."""
    chosen = {"batch": None, "steps": STEPS, "repeats": REPEATS, "budget": 3.0, "device": "cpu", "threads": 1}
    return argparse.Namespace(**(chosen | {"ranks": 1} | changes))


def in_fork(program: Path, chosen: argparse.Namespace, gauge: Gauge) -> dict[str, Any]:
    """The measurement of a program by a child of this process."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(writer, program, chosen, gauge))
    child.start()
    writer.close()
    answer: dict[str, Any] = {"ok": False, "problem": {"message": f"no answer within {LIMIT_S:.0f} s"}}
    try:
        if reader.poll(LIMIT_S):
            answer = reader.recv()
    except EOFError:
        answer = {"ok": False, "problem": {"message": "the process ended without an answer"}}
    child.kill()  # one that stands still: who has answered has no more to do
    child.join()
    return answer


def _child(writer: Connection, program: Path, chosen: argparse.Namespace, gauge: Gauge) -> None:
    from worker.runtime.heap import give_back_freed_memory
    from worker.runtime.inspection.measure import idle_bytes, measure

    give_back_freed_memory()  # else what the parent's trial left free would hold a part of the peak
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        writer.send(measure(program, None, chosen, idle_bytes(), gauge))
    writer.close()
    os._exit(0)


def warm(program: Path) -> None:
    """Load in this process what a first step loads, so that no fork has to. Starts no threads."""
    from worker.runtime.inspection.measure import measure

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        measure(program, None, options(steps=1, repeats=1, budget=0.5), 0)


def in_process(program: Path, **changes: Any) -> dict[str, Any]:
    """The measurement by a process of its own: with several threads, or several ranks."""
    argv = [sys.executable, "-m", "worker.runtime.inspection.measure", "--program", str(program)]
    argv += [part for name, value in changes.items() for part in (f"--{name}", str(value))]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": str(changes.get("threads", 1))}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=program, timeout=LIMIT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"ok": False, "problem": {"message": done.stderr[-500:]}}


def as_point(point: SweepPoint, answer: dict[str, Any], kind: str = "cpu", model_name: str = NAME) -> CalibrationPoint:
    """A calibration point of one visit. Raises `ValueError` for a measurement that failed."""
    if not answer.get("ok") or not answer.get("workload"):
        problem = answer.get("problem") or answer.get("trace_problem") or {}
        raise ValueError(f"{point.point_id}: {problem.get('message', 'no answer')}")
    return CalibrationPoint(
        workload=Workload.from_dict(answer["workload"]),
        kind=kind,
        model_name=model_name,
        count=int(answer["ranks"]),
        threads=int(answer["threads"]),
        step_s=tuple(answer["step_s"]),
        peak_bytes=float(answer["peak_bytes"]),
        power_w=answer["power_w"],
        family=point.family,
        params=point.params,
        batch_size=point.batch_size,
        point_id=point.point_id,
        precision=answer.get("precision", ""),
    )


class Cache:
    """Every visit as a row of a CSV of calibration points; what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = from_csv(path.read_text()) if path.exists() else []

    def add(self, row: CalibrationPoint) -> None:
        """Keep a visit at once."""
        self.rows.append(row)
        text = to_csv([row])
        if self.path.exists():
            text = text.split("\r\n", 1)[1]
        with self.path.open("a", newline="") as file:
            file.write(text)

    def visits(self, point_id: str, count: int = 1, threads: int = 1) -> int:
        """Times a point was measured on such an allocation."""
        return sum((row.point_id, row.count, row.threads) == (point_id, count, threads) for row in self.rows)

    def again(self) -> list[float]:
        """Second visit over first, less 1, of every program measured twice on one device: what no estimate can beat."""
        first: dict[str, float] = {}
        second: dict[str, float] = {}
        for row in self.rows:
            if (row.count, row.threads) == (1, 1):
                (second if row.point_id in first else first).setdefault(row.point_id, row.typical_s)
        return [seconds / first[name] - 1.0 for name, seconds in second.items()]

    def typical(self, point_id: str) -> list[float]:
        """Seconds per step of each visit to a point on one device, rising."""
        return sorted(row.typical_s for row in self.rows if (row.point_id, row.count, row.threads) == (point_id, 1, 1))

    def points(self, plan: Sequence[SweepPoint], count: int = 1, threads: int = 1) -> list[CalibrationPoint]:
        """The planned points that are measured: the visits of each as one, with their noise."""
        found = []
        for planned in plan:
            key = (planned.point_id, count, threads)
            rows = [row for row in self.rows if (row.point_id, row.count, row.threads) == key]
            if rows:
                found.append(joined(rows))
        return found


def joined(rows: list[CalibrationPoint]) -> CalibrationPoint:
    """All visits to a point as one."""
    watts = [row.power_w for row in rows if row.power_w is not None]
    return replace(
        rows[0],
        step_s=tuple(value for row in rows for value in row.step_s),
        peak_bytes=median(row.peak_bytes for row in rows),
        power_w=fmean(watts) if watts else None,
        noise=_apart(sorted(row.typical_s for row in rows)),
    )


def _apart(typical: Sequence[float]) -> float:
    """How far the two quickest visits lie apart; 0 for one visit."""
    return (typical[1] - typical[0]) / fmean(typical[:2]) if len(typical) > 1 else 0.0


def collect(plan: Sequence[SweepPoint], cache: Cache, root: Path, visits: int) -> None:
    """Measure what the cache lacks, in passes over all points; from the third on, only points whose visits disagree."""
    warm(write_program(plan[0], root)[0])
    surveys, loud_s = Surveys(), 0.0
    for visit in range(visits):
        for number, point in enumerate(plan):
            seen = cache.typical(point.point_id)
            if len(seen) > visit or (visit and not seen) or (visit > 1 and _apart(seen) <= AGREE):
                continue
            program, _ = write_program(point, root)
            answer = in_fork(program, options(), Gauge(surveys.quickest_s(), PATIENCE_S))
            loud_s += answer.get("loud_s", 0.0)
            keep(cache, point, answer)
            if number % 20 == 0:
                told = f"{loud_s:.0f} s went by because the host was loud"
                print(f"  pass {visit + 1}: {number} of {len(plan)} points; {told}", flush=True)


def collect_ranks(plan: Sequence[SweepPoint], cache: Cache, root: Path) -> None:
    """Two joined ranks, each with half of the batch, and one rank alone with two threads."""
    for point in plan:
        program, _ = write_program(point, root)
        if not cache.visits(point.point_id, count=2):
            keep(cache, point, in_process(program, ranks=2, threads=1, steps=10, repeats=3, budget=6))
        if not cache.visits(point.point_id, threads=2):
            keep(cache, point, in_process(program, ranks=1, threads=2, steps=5, repeats=2, budget=4))


def keep(cache: Cache, point: SweepPoint, answer: dict[str, Any]) -> None:
    """Add a visit, or say why there is none."""
    try:
        cache.add(as_point(point, answer))
    except ValueError as error:
        print(f"  left out: {error}", flush=True)
