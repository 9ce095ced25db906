"""Deadlines, energy and decision time of the scheduler, replayed by the published rules beside published rivals.

    python -m tests.benchmarks.bench_schedule --traces DIR       all replays; DIR holds elasticflow_*.csv.gz
    python -m tests.benchmarks.bench_schedule --quick            the small ones, and a shorter made trace

Without --traces the folder is taken from DLH_TRACES, else `../shared/traces` beside the clone; without either the
public replays are left out, with a message. Every line is printed beside the rival's published figure and our own EDF
and FIFO of the same run. "at once": every deadline that fits is promised at submission, as `admit` does. "blind": the
same policy with energy ignored. "no cost": decisions cost no time. Energy is modelled: the power table times the time
that devices are held or idle. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.place import place
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.simulate.metrics import Metrics, measure
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import Rules
from scheduler.simulate.run import policy_for, simulate
from scheduler.simulate.tables import Tables
from scheduler.simulate.traces import TraceJob, read_trace
from scheduler.types import JobView, Option, Policy, Running
from tests.benchmarks.gather import traces_folder

SECTIONS = ("replays", "decisions", "long")
MOST_DECISION_MS = 100.0
MOST_REPLAY_S = 600.0
LEAST_SAVING = 0.25
MOST_LOST = 0.01
EDF_WITHIN = 0.05
TURNS = 5
"""How often each decision is timed."""


@dataclass(frozen=True)
class Case:
    """One replay of the table."""

    trace: str
    devices: int
    bar: float
    rival: float | None
    """ElasticFlow: published on the full pools, its simulator as run for this project on the small ones."""
    edf: float | None
    """The same source's EDF."""
    quick: bool = False


CASES = (
    Case("cluster01", 512, 0.98, 0.788, 0.182),
    Case("cluster02", 512, 0.96, 0.822, 0.228),
    Case("cluster03", 512, 0.77, 0.455, 0.095),
    Case("cluster10", 256, 0.99, 0.981, 0.769, quick=True),
    Case("philly", 256, 0.93, 0.87, None),
    Case("195job", 128, 0.90, 0.877, 0.097, quick=True),
    Case("195job", 32, 0.62, 0.538, 0.010, quick=True),
    Case("cluster10", 64, 0.985, 0.977, 0.250, quick=True),
    Case("cluster10", 32, 0.93, 0.908, 0.269, quick=True),
    Case("cluster01", 128, 0.87, None, None),
    Case("cluster01", 64, 0.66, None, None),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help=f"of {', '.join(SECTIONS)}, comma separated")
    options = parser.parse_args()
    only = set(options.only.split(",")) - {""} or set(SECTIONS)
    if unknown := only - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    found: dict[str, Any] = {"benchmark": "schedule", "load": os.getloadavg()[0]}
    folder = traces_folder(options.traces)
    if "replays" in only:
        if folder is None or not (folder / "throughput_a100").is_dir():
            print("No public traces: give --traces DIR or set DLH_TRACES. Their replays are left out.")
        else:
            found["replays"] = replays(folder, quick=options.quick)
            found |= totals(found["replays"])
    if "decisions" in only:
        found["decisions"] = decisions()
    if "long" in only:
        found["long"] = long_replay(5_000 if options.quick else 100_000)
    print(json.dumps(found))


def replays(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    tables = Tables.read(folder / "throughput_a100")
    rows = []
    print("satisfied deadlines / all jobs; energy in kWh per finished job, modelled")
    print(
        f"{'trace':>10} {'GPUs':>4} | {'bar':>5} {'ours':>6} {'':>4} | {'EFlow':>5} {'their EDF':>9} {'our EDF':>7} "
        f"{'no cost':>7} {'fifo':>6} | {'no cost':>7} {'at once':>7} {'blind':>6} | "
        f"{'kWh':>7} {'blind':>7} {'saved':>6} | "
        f"{'promised':>8} {'late':>4} {'s':>5}"
    )
    for case in CASES:
        if quick and not case.quick:
            continue
        rows.append(_row(case, folder, tables))
        print(_line(case, rows[-1]), flush=True)
    return rows


def _row(case: Case, folder: Path, tables: Tables) -> dict[str, Any]:
    trace = read_trace(folder / f"elasticflow_{case.trace}.csv.gz")
    pool = SimPool.parse(f"{case.devices // 8}x8")
    rules = Rules.published(case.devices)
    energy = policy_for("deadline_energy", rules)
    assert isinstance(energy, DeadlineEnergy)

    def replay(policy: str | Policy, *, overheads: bool = True) -> Metrics:
        return measure(simulate(trace, pool, policy, tables=tables, overheads=overheads))

    start = time.perf_counter()
    ours = replay(energy)
    took_s = time.perf_counter() - start
    blind = replay("deadline")
    return {
        "trace": case.trace,
        "devices": case.devices,
        "bar": case.bar,
        "satisfaction": ours.satisfaction,
        "elasticflow": case.rival,
        "edf_published": case.edf,
        "edf": replay("edf_widest").satisfaction,
        "edf_no_cost": replay("edf_widest", overheads=False).satisfaction,
        "fifo": replay("fifo").satisfaction,
        "no_cost": replay("deadline_energy", overheads=False).satisfaction,
        "at_once": replay(replace(energy, promise_at_once=True)).satisfaction,
        "blind": blind.satisfaction,
        "finished": ours.finished,
        "finished_blind": blind.finished,
        "kwh": ours.energy_kwh,
        "kwh_blind": blind.energy_kwh,
        "promised": ours.promised,
        "promises_late": ours.promises_broken,
        "replay_s": round(took_s, 1),
        "figures": ours.to_dict(),
    }


def _line(case: Case, row: dict[str, Any]) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.4f}"[1:] if value < 1 else "1.0"

    each, blind = row["kwh"] / row["finished"], row["kwh_blind"] / row["finished_blind"]
    met = "ok" if row["satisfaction"] >= case.bar else f"-{case.bar - row['satisfaction']:.4f}"[:6]
    return (
        f"{case.trace:>10} {case.devices:>4} | {share(case.bar):>5} {share(row['satisfaction']):>6} {met:>4} | "
        f"{share(case.rival):>5} {share(case.edf):>9} {share(row['edf']):>7} {share(row['edf_no_cost']):>7} "
        f"{share(row['fifo']):>6} | {share(row['no_cost']):>7} "
        f"{share(row['at_once']):>7} {share(row['blind']):>6} | "
        f"{each:>7.2f} {blind:>7.2f} {100 * (1 - each / blind):>5.1f}% | "
        f"{row['promised']:>8} {row['promises_late']:>4} {row['replay_s']:>5.0f}"
    )


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all replays together, and what was to be shown."""
    ours = sum(row["kwh"] for row in rows) / sum(row["finished"] for row in rows)
    blind = sum(row["kwh_blind"] for row in rows) / sum(row["finished_blind"] for row in rows)
    worst = max(row["blind"] - row["satisfaction"] for row in rows)
    checked = [row for row in rows if (row["trace"], row["devices"]) in {("cluster01", 512), ("cluster10", 256)}]
    off = max((abs(row["edf"] - row["edf_published"]) for row in checked), default=None)
    missed = [f"{row['trace']}/{row['devices']}" for row in rows if row["satisfaction"] < row["bar"]]
    print(
        f"energy per finished job over all replays: {ours:.2f} kWh, energy ignored {blind:.2f} kWh: "
        f"{100 * (1 - ours / blind):.1f} % less (bar {100 * LEAST_SAVING:.0f} %); "
        f"satisfaction at most {worst:.4f} lower (bar {MOST_LOST}). Below their bar: {', '.join(missed) or 'none'}. "
        f"EDF is off the published one by {'-' if off is None else f'{off:.4f}'} at most (bar {EDF_WITHIN})."
    )
    return {"saving": 1 - ours / blind, "satisfaction_lost": worst, "below_bar": missed, "edf_off": off}


def _option(width: int, base_s: float) -> Option:
    return Option(kind="cuda", count=width, model_name="A100", rate_per_s=width**0.85 / base_s, power_w=400.0 * width)


def decisions() -> dict[str, float]:
    """1,000 queued jobs, 10,000 devices of which 500 running jobs hold half: median time of `place`, by the clock and
    by the processor, which other load on the machine lengthens less."""
    rng = np.random.default_rng(0)
    found = {}
    for name, spans in (("gangs span nodes", True), ("one node per gang", False)):
        pool = SimPool.parse("1250x8", spans_nodes=spans)
        widths = (1, 2, 4, 8, 16, 32) if spans else (1, 2, 4, 8)
        jobs = _running(pool, rng, widths) + [_queued(number, rng, widths) for number in range(1_000)]
        for policy in ("deadline_energy", "edf", "edf_widest", "fair_share", "fifo"):
            took, used = [], []
            for _ in range(TURNS):
                start_s, start_used_s = time.perf_counter(), time.process_time()
                place(jobs, pool.view, 10_000.0, policy=policy)
                took.append(1000 * (time.perf_counter() - start_s))
                used.append(1000 * (time.process_time() - start_used_s))
            median_ms, used_ms = statistics.median(took), statistics.median(used)
            found[f"{policy}, {name}"] = round(median_ms, 1)
            found[f"{policy}, {name}, processor"] = round(used_ms, 1)
            spread = f"{min(took):.1f} to {max(took):.1f} ms in {TURNS} turns: the noise"
            print(
                f"decision, {policy}, {name}: {median_ms:.1f} ms (bar {MOST_DECISION_MS:.0f} ms; {spread}); "
                f"of the processor {used_ms:.1f} ms"
            )
    return found


def _queued(number: int, rng: np.random.Generator, widths: tuple[int, ...]) -> JobView:
    base_s = float(rng.lognormal(8.5, 1.0))
    return JobView(
        job_id=f"q{number}",
        options=tuple(_option(width, base_s) for width in widths),
        submitted_s=10_000.0 - number,
        deadline_s=10_000.0 + base_s * float(rng.uniform(0.3, 1.5)),
        can_pause=True,
    )


def _running(pool: SimPool, rng: np.random.Generator, widths: tuple[int, ...]) -> list[JobView]:
    nodes = pool.view.nodes
    jobs = []
    for number in range(500):
        job = replace(_queued(number, rng, widths), job_id=f"r{number}", promised=True)
        option = next(option for option in job.options if option.count == 8)
        node = nodes[number]
        running = Running(
            option=option,
            nodes=(node.name,),
            device_ids=tuple(device.device_id for device in node.devices),
            started_s=9_000.0,
            last_change_s=9_000.0,
        )
        jobs.append(replace(job, running=running, work_left=float(rng.uniform(0.1, 0.9))))
    return jobs


def long_replay(count: int) -> dict[str, Any]:
    """A made trace of many jobs on 512 devices, through `place`."""
    rng = np.random.default_rng(1)
    submitted = np.cumsum(rng.exponential(26.0, count))
    hours = rng.lognormal(-1.1, 1.0, count)
    trace = []
    for number in range(count):
        width = int(rng.choice([1, 1, 2, 4, 8]))
        run_s = 3600.0 * float(hours[number])
        trace.append(
            TraceJob(
                job_id=f"{number:06d}",
                submitted_s=float(submitted[number]),
                deadline_s=float(submitted[number]) + run_s * float(rng.uniform(0.6, 3.0)) + 120.0,
                model="made",
                batch_size=64,
                iterations=run_s * width**0.85,
                count=width,
            )
        )
    tables = Tables({("made", 64): {width: width**0.85 for width in (1, 2, 4, 8, 16, 32, 64)}})
    start = time.perf_counter()
    found = measure(simulate(trace, SimPool.parse("64x8"), "deadline_energy", tables=tables))
    took_s = time.perf_counter() - start
    print(
        f"made trace of {count} jobs on 512 devices: {took_s:.0f} s (bar for 100,000: {MOST_REPLAY_S:.0f} s), "
        f"{found.decisions} decisions, {found.decisions_per_s:.0f}/s, satisfaction {found.satisfaction:.3f}, "
        f"utilisation {found.utilisation:.2f}"
    )
    return {"jobs": count, "took_s": round(took_s, 1), "satisfaction": found.satisfaction, "decisions": found.decisions}


if __name__ == "__main__":
    main()
