"""Small real jobs, run whole on every allocation that two cores give: what estimates of whole runs are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codegen.spec import Task
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished
from scheduler.estimation.learning import corrected
from scheduler.estimation.probe import Probe
from scheduler.estimation.run_time import RunParts, all_rows
from scheduler.estimation.sweep import DataShape, SweepPoint
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.candidates import Candidate
from scheduler.offers.recommend import recommend
from scheduler.workload import Workload
from tests.benchmarks.estimate_measure import NAME
from tests.benchmarks.estimate_runs import BROKEN, Seen, see
from tests.run_parts import run_parts
from worker.shares import even
from worker.words import counted

MEMORY = 8 << 30
CASES = 40
SLACK = (1.0, 1.1, 1.25, 1.5, 1.8, 2.2, 3.0)
"""Deadlines as multiples of the fastest measured run."""


def job_of(
    family: str, batch: int, epochs: int, rows: int, params: dict[str, Any], *, size: int = 0, features: int = 0
) -> SweepPoint:
    pictures = size > 0
    data = DataShape(channels=3, rows=rows) if pictures else DataShape(features=features, outputs=3, rows=rows)
    return SweepPoint(
        family=family,
        task=Task.IMAGE_CLASSIFICATION if pictures else Task.TABULAR_CLASSIFICATION,
        params={**params, "dropout": 0.1, **({"image_size": size} if pictures else {})},
        batch_size=batch,
        data=data,
        training={"epochs": epochs, "patience": 0},
    )


CNN = {"kernel": 3, "fc_layers": 1, "fc_nodes": 96}
RESMLP = {"frequencies": 12, "embedding": 6, "frequency_scale": 0.2}
JOBS = (
    job_of("cnn", 64, 5, 1600, {**CNN, "conv_layers": 4, "filters": 24}, size=20),
    job_of("cnn", 32, 4, 900, {**CNN, "conv_layers": 3, "filters": 40}, size=28),
    job_of("resnet", 64, 3, 1100, {"blocks": 1, "width": 20}, size=20),
    job_of("mlp", 256, 8, 24_000, {"layers": 4, "width": 384}, features=40),
    job_of("resmlp", 128, 5, 12_000, {**RESMLP, "blocks": 2, "width": 160}, features=20),
    job_of("ft_transformer", 128, 3, 5_000, {"blocks": 2, "width": 48, "heads": 4}, features=12),
)
LESSONS = (
    job_of("cnn", 48, 4, 1000, {**CNN, "conv_layers": 2, "filters": 20}, size=24),
    job_of("mlp", 128, 6, 10_000, {"layers": 3, "width": 200}, features=24),
)
"""Jobs that the model learns the start and the end of a run from before the others are predicted."""


def allocations(batch: int) -> tuple[Allocation, ...]:
    """One core; one process on two; one rank on each of two."""

    def made(count: int, mode: str, ranks: int, threads: int) -> Allocation:
        split = even(batch, ranks)
        return Allocation(kind="cpu", model_name=NAME, count=count, mode=mode, batch_split=split, threads=threads)

    return made(1, "single", 1, 1), made(2, "single", 1, 2), made(2, "sync", 2, 1)


def taught(model: DeviceModel, root: Path) -> DeviceModel:
    """The model after two finished jobs on one core and two on two ranks."""
    lessons = ((LESSONS[0], 0), (LESSONS[1], 0), (LESSONS[0], 2), (LESSONS[1], 2))
    seen = [see(job, allocations(job.batch_size)[number], root) for job, number in lessons]
    return corrected(model, [finished(one) for one in seen])


def finished(seen: Seen) -> Finished:
    """What a finished job tells."""
    return Finished(
        workload=seen.workload,
        allocation=seen.probe.allocation,
        step_s=seen.parts.steps_s / whole_steps(seen.workload),
        run_s=seen.run_s,
        start_s=seen.start_s,
        load_s=(seen.probe.load_row_s or 0.0) * all_rows(seen.workload) + (seen.probe.load_once_s or 0.0),
    )


def longer(job: SweepPoint, times: int) -> SweepPoint:
    """The same job with so many times its epochs."""
    return replace(job, training={**job.training, "epochs": times * job.training["epochs"]})


def whole_jobs(model: DeviceModel, root: Path, times: int = 1) -> tuple[list[Seen], dict[str, float]]:
    """Every job on every allocation: errors of the whole run's time, each after three probe steps on it.

    A job that does not run on all of them is left out. Raises `RuntimeError` where none does.
    """
    seen: list[Seen] = []
    errors, bare = [], []
    for job in (longer(job, times) for job in JOBS):
        try:
            runs = [see(job, allocation, root) for allocation in allocations(job.batch_size)]
        except BROKEN as error:
            print(f"  left out: {job.family}: {error}", flush=True)
            continue
        for run in runs:
            guess_s, plain_s = foretold(model, run)
            errors.append(guess_s / run.run_s - 1.0)
            bare.append(plain_s / run.run_s - 1.0)
        seen += runs
    if not seen:
        raise RuntimeError("no job ran")
    return seen, run_figures(errors, bare, seen)


def foretold(model: DeviceModel, found: Seen) -> tuple[float, float]:
    """Seconds of the whole run after its probe, and without; printed beside what it took."""
    allocation = found.probe.allocation
    guess_s = estimate(found.workload, allocation, model, probe=found.probe).run_s.mid
    plain_s = estimate(found.workload, allocation, model).run_s.mid
    where = counted(allocation.count, "GPU" if allocation.kind == "cuda" else "core")
    errors = f"after the probe {guess_s / found.run_s - 1.0:+7.1%}  without {plain_s / found.run_s - 1.0:+7.1%}"
    print(f"  {found.job.family:15} {where} {allocation.mode:6} measured {found.run_s:6.1f} s  {errors}", flush=True)
    print(f"    {parts_words(found.parts, run_parts(found.workload, allocation, model, found.probe))}", flush=True)
    return guess_s, plain_s


def run_figures(errors: Sequence[float], bare: Sequence[float], seen: Sequence[Seen]) -> dict[str, float]:
    """Of whole runs, with a probe and without."""
    size, without = np.abs(errors), np.abs(bare)
    figures = {"median": float(np.median(size)), "mape": float(size.mean()), "p90": float(np.quantile(size, 0.9))}
    figures |= {"without_probe_median": float(np.median(without)), "noise": noise_floor(seen)}
    return {**figures, "runs": len(seen)}


def noise_floor(seen: Sequence[Seen]) -> float:
    """By how much the steps of a run differ from the same steps of its probe, relative to these; the median run.

    The host makes that difference: no estimate from the probe can do better.
    """
    own_s = [run.parts.steps_s / whole_steps(run.workload) for run in seen]
    return float(
        np.median([abs(step_s / np.median(run.probe.step_s) - 1.0) for step_s, run in zip(own_s, seen, strict=True)])
    )


def whole_steps(workload: Workload) -> float:
    """Steps of a run, the last of each epoch by its rows."""
    return workload.epochs * workload.train_rows / workload.global_batch_size


def parts_words(seen: RunParts, told: RunParts) -> str:
    """Where the time went, and where it was foretold to go; the last pass counts with the end on both sides."""
    pairs = {
        "start": (seen.start_s, told.start_s),
        "steps": (seen.steps_s, told.steps_s),
        "checkpoints": (seen.saves_s, told.saves_s),
        "passes and end": (seen.passes_s + seen.end_s, told.passes_s + told.end_s),
    }
    return "  ".join(f"{name} {real:.2f} s, foretold {guess:.2f}" for name, (real, guess) in pairs.items())


def chosen_against_all(model: DeviceModel, seen: Sequence[Seen]) -> dict[str, float | None]:
    """Forty deadlines: the allocation recommended after a probe on one core, against what was measured on all.

    Energy above the best is None of who kept no deadline.
    """
    tally: dict[str, list[tuple[float, bool]]] = {"ours": [], "fastest": [], "fewest": []}
    refused = cases = 0
    for job in dict.fromkeys(found.job.point_id for found in seen):
        runs = [found for found in seen if found.job.point_id == job]
        probe, workload = runs[0].probe, runs[0].workload
        energy = {run.probe.allocation: run.run_s * model.power.busy_w * run.probe.allocation.count for run in runs}
        took = {run.probe.allocation: run.run_s for run in runs}
        for slack in SLACK:
            if cases == CASES:
                break
            cases += 1
            deadline_s = slack * min(took.values())
            best = min(energy[way] for way in took if took[way] <= deadline_s)
            picks = {"fastest": min(took, key=lambda way: took[way]), "fewest": runs[0].probe.allocation}
            ours = offered(model, workload, list(took), probe, deadline_s)
            refused += ours is None
            if ours is not None:
                picks["ours"] = ours
            for name, way in picks.items():
                tally[name].append((energy[way] / best - 1.0, took[way] > deadline_s))
    figures: dict[str, float | None] = {"cases": cases, "refused": refused}
    for name, rows in tally.items():
        kept = [more for more, missed in rows if not missed]
        figures[f"{name}_energy_above_best"] = float(np.mean(kept)) if kept else None
        figures[f"{name}_misses"] = sum(missed for _, missed in rows)
    return figures


def offered(
    model: DeviceModel, workload: Workload, ways: Sequence[Allocation], probe: Probe, deadline_s: float
) -> Allocation | None:
    """What `recommend` offers; None where it refuses."""

    def price(way: Candidate) -> Estimate:
        return estimate(workload, way.allocation, model, memory_limit_bytes=way.memory_limit_bytes, probe=probe)

    candidates = [Candidate(allocation=way, memory_limit_bytes=MEMORY) for way in ways]
    offer = recommend(candidates, estimate_of=price, start_of=lambda way, run_s: 0.0, now_s=0.0, deadline_s=deadline_s)
    return replace(offer.chosen.allocation) if offer.chosen else None
