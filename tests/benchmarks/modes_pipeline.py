"""Pipelines of two one-thread stages against one process, in turns: `python -m tests.benchmarks.modes_pipeline`.

All train the same program (equal blocks: linear 1024 x 1024 and ReLU) by its own train.py. Speed-up over one process is
compared with K M / (M + K - 1); bar 0.85 at K = 2 and M = 4 K. Beside it: other numbers of micro-batches (M = 1 is
model parallel without any), 1F1B, recomputation, parameters and peak memory per rank, the plan that `auto` takes, and
K = 2, 4 and 8 simulated from the timed blocks. Steps count in which the host worked for nobody else. JSON comes last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.calm import typical_s
from tests.benchmarks.rank_processes import figures_of, launched
from tests.benchmarks.timelines import ideal_speedup, timeline
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.quiet import Gauge
from worker.runtime import Run
from worker.runtime.memory import peak_bytes
from worker.runtime.modes.staged import Staged
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import measured_blocks
from worker.stages import GPIPE, ONE_F_ONE_B, Block, Wanted, plan_stages, stage_times

BAR = 0.85
STAGES, WIDTH, LAYERS, FEATURES = 2, 1024, 8, 32
WARM_UP_STEPS = 3
MODEL = f"""from torch import nn


class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        layers = [nn.Linear(features, {WIDTH}), nn.ReLU()]
        for _ in range({LAYERS}):
            layers += [nn.Linear({WIDTH}, {WIDTH}), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear({WIDTH}, outputs)

    def forward(self, numeric, categorical):
        return self.head(self.body(numeric))


def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
ROLES: dict[str, dict[str, Any]] = {
    "M=1": {"micro_batches": 1, "schedule": GPIPE, "recompute": False},
    "M=2": {"micro_batches": 2, "schedule": GPIPE, "recompute": False},
    "M=4": {"micro_batches": 4, "schedule": GPIPE, "recompute": False},
    "M=8": {"micro_batches": 8, "schedule": GPIPE, "recompute": False},
    "M=16": {"micro_batches": 16, "schedule": GPIPE, "recompute": False},
    "M=8 1f1b": {"micro_batches": 8, "schedule": ONE_F_ONE_B, "recompute": False},
    "M=8 recomputing": {"micro_batches": 8, "schedule": GPIPE, "recompute": True},
    "auto": {},
}
BARRED = "M=8"
APART = "apart"
"""Two processes that train the whole program and share nothing but the machine: the efficiency that it allows."""


class Enough(Exception):
    """All steps were timed."""


def rank_steps(steps: int) -> dict[str, Any]:
    """Seconds of each step, looks at the host between them, parameters and peak memory of this rank of train.py."""
    marks: list[float] = []
    looks: list[bool] = []
    gauge = Gauge()
    runs: list[Run] = []
    original = Run.log_step

    def log_step(run: Run, *values: Any, **named: Any) -> None:
        original(run, *values, **named)
        looks.append(gauge.is_quiet())
        marks.append(time.perf_counter())
        runs[:] = [run]
        if len(marks) > steps + WARM_UP_STEPS:
            raise Enough

    Run.log_step = log_step  # type: ignore[method-assign]
    sys.argv = ["train.py", "--fresh"]
    with contextlib.suppress(Enough):
        runpy.run_path("train.py", run_name="__main__")
    (run,) = runs
    mode, plan = run.mode, {}
    if isinstance(mode, Staged):
        plan = mode.plan.to_dict()
    return {
        "step_s": [after - before for before, after in pairwise(marks)],
        "looks": looks,
        "parameters": sum(weight.numel() for weight in run.checkpointer.parts["net"].parameters()),
        "peak_bytes": peak_bytes(run.device, run.idle_bytes),
        "plan": plan,
    }


def timed_blocks(batch: int) -> list[dict[str, Any]]:
    """The blocks of the program, as a pipeline's first rank times them."""
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, "")
    from types import SimpleNamespace

    import model  # type: ignore[import-not-found]

    shape = SimpleNamespace(features=[""] * FEATURES, outputs=2)
    net = model.build(SimpleNamespace(shape=shape))
    inputs = torch.randn(32, FEATURES), torch.zeros(32, 0, dtype=torch.int64)
    return [asdict(block) for block in measured_blocks(Chain(net, inputs), inputs, batch, torch.device("cpu"))]


def launch(program: Path, role: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What each rank of one launch prints."""
    size = 1 if role in ("single", "blocks") else STAGES
    if role in ROLES:
        samples.staged(program, **ROLES[role])
    argv = [sys.executable, "-m", "tests.benchmarks.modes_pipeline", "--role", role]
    argv += ["--steps", str(options.steps), "--batch", str(options.batch)]
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": "1", "DLH_WORK": str(program / "work")}
    ranks = rank_environments(size, "torch") if role in ROLES else [{}] * size
    if role == APART:
        ranks = [{"DLH_WORK": str(program / f"apart{number}")} for number in range(size)]
    return figures_of(launched(argv, program, [common | rank for rank in ranks], 900))


def simulated(blocks: list[Block], batch: int) -> dict[str, dict[str, float]]:
    """Speed-up over one process and its share of the ideal for K = 2, 4, 8 with M = 4 K, by both schedules."""
    alone_s = sum(
        block.fixed_forward_s + block.fixed_backward_s + batch * (block.forward_s + block.backward_s)
        for block in blocks
    )  # fmt: skip
    found = {}
    for stages in (2, 4, 8):
        for schedule in (GPIPE, ONE_F_ONE_B):
            count = 4 * stages
            plan = plan_stages(blocks, stages, batch, wanted=Wanted(micro_batches=count, schedule=schedule))
            speedup = alone_s / timeline(stage_times(blocks, plan), plan.micro_batches, schedule).step_s
            share = speedup / ideal_speedup(stages, count)
            found[f"K={stages} {schedule}"] = {"speedup": speedup, "of_ideal": share}
    return found


def allowed(micro_batches: int, efficiency: float) -> float:
    """Share of the ideal that two stages can reach where two processes at once keep this share of their speed.

    Of the M + 1 slots of a pass all but the first and the last have both stages computing.
    """
    return (micro_batches + 1) / (2 + (micro_batches - 1) / efficiency)


def slowest_s(ranks: list[dict[str, Any]], role: str = "") -> float:
    """A typical step of the slowest rank; ranks that share nothing are not at the same step together."""
    steps = range(WARM_UP_STEPS, len(ranks[0]["step_s"]))
    looks = [rank["looks"] for rank in ranks]
    return max(
        typical_s(rank["step_s"], [own] if role == APART else looks, steps)
        for rank, own in zip(ranks, looks, strict=True)
    )


def section(options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        numbers = np.random.default_rng(0).normal(size=(12 * options.batch, FEATURES))
        columns = {f"x{place}": numbers[:, place] for place in range(FEATURES)}
        columns["label"] = np.where(numbers[:, 0] > 0, "yes", "no").tolist()
        profile = samples.pack_table(program / "data", columns, "label")
        training = {"epochs": 1000, "batch_size": options.batch, "patience": 0, "ema": 0, "optimizer": "sgd"}
        samples.program(program, profile, own_model=MODEL, training=training)
        rounds = [
            {role: launch(program, role, options) for role in ("single", APART, *options.only.split(","))}
            for _ in range(options.rounds)
        ]
        blocks = [Block(**body) for body in launch(program, "blocks", options)[0]]
    step_s = {role: statistics.median(slowest_s(each[role], role) for each in rounds) for role in rounds[0]}
    last, efficiency = rounds[-1], step_s["single"] / step_s[APART]
    return {
        "step_s": step_s,
        "speedup": {role: step_s["single"] / seconds for role, seconds in step_s.items()},
        "of_ideal": {
            role: step_s["single"] / step_s[role] / ideal_speedup(STAGES, wish["micro_batches"])
            for role, wish in ROLES.items()
            if wish and role in step_s
        },
        "machine_efficiency": efficiency,
        "machine_allows": {
            role: allowed(wish["micro_batches"], efficiency) for role, wish in ROLES.items() if wish and role in step_s
        },
        "auto_plan": last["auto"][0]["plan"] if "auto" in last else None,
        "parameters": {role: [rank["parameters"] for rank in ranks] for role, ranks in last.items()},
        "peak_bytes": {role: [rank["peak_bytes"] for rank in ranks] for role, ranks in last.items()},
        "simulated": simulated(blocks, options.batch),
    }


def main() -> None:
    """Launch the roles in turns, print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--only", default=",".join(ROLES), help="pipelines to time, separated by commas")
    parser.add_argument("--role", choices=["single", APART, "blocks", *ROLES])
    options = parser.parse_args()
    if options.role:
        told: Any = timed_blocks(options.batch) if options.role == "blocks" else rank_steps(options.steps)
        print(json.dumps(told), flush=True)
        os._exit(0)  # no rank waits for another to leave
    found = section(options)
    for role, seconds in found["step_s"].items():
        share = ""
        if role in found["of_ideal"]:
            share = f", {found['of_ideal'][role]:.3f} of the ideal (machine: {found['machine_allows'][role]:.3f})"
        memory = ", ".join(f"{size / 2**20:.0f} MiB" for size in found["peak_bytes"][role])
        weights = ", ".join(f"{count:,}" for count in found["parameters"][role])
        print(f"{role}: {seconds * 1e3:.0f} ms/step{share}; parameters {weights}; peak {memory}")
    for name, figures in found["simulated"].items():
        print(f"simulated {name}: {figures['speedup']:.2f} times, {figures['of_ideal']:.3f} of the ideal")
    print(f"two processes that share nothing keep {found['machine_efficiency']:.3f} of their speed")
    met = found["of_ideal"].get(BARRED, 0.0) >= BAR
    print(json.dumps({"benchmark": "modes_pipeline", "met": met, "cores": os.cpu_count(), **found}))


if __name__ == "__main__":
    main()
