"""Throughput by number of ranks, and memory per rank in every mode: `python -m tests.benchmarks.modes_ranks`.

Throughput: one-thread ranks train a conv net in mode sync, in turns by their number; speed-up is against one rank. A
machine with few cores shows little of it, so the same is done with ranks that are all declared `--slowdown` times as
slow (emulated: they sleep for the rest of each step and leave their core to others). Memory: a wide net of linear
layers in each mode, peak of the process above an idle one and parameters that the rank holds. JSON comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench_ranks import pictures
from tests.benchmarks.modes_pipeline import FEATURES, MODEL, rank_steps, slowest_s
from tests.benchmarks.rank_processes import launched
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.words import counted

SLOWDOWN = 4.0
EMULATED = "emulated"
COUNTS = (1, 2, 3, 4)
MODES = {"single": 1, "replicated": 1, "sync": 2, "async": 2, "pipeline": 2, "pipeline+sync": 4}
"""Mode -> processes."""
STEPS_OF_MEMORY = 4
LIMIT_S = 900


def launch(program: Path, size: int, mode: str, steps: int, slowdown: float = 1.0) -> list[dict[str, Any]]:
    """What the ranks of one launch measure of themselves."""
    backend = "torch" if mode.startswith("pipeline") else "horovod"
    argv = [sys.executable, "-m", "tests.benchmarks.modes_ranks", "--rank", "--steps", str(steps)]
    with tempfile.TemporaryDirectory() as work:
        threads = "2" if mode == "replicated" else "1"
        common = {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": threads, "DLH_WORK": work, "DLH_MODE": mode}
        common |= {"DLH_SLOWDOWN": str(slowdown)} if slowdown > 1 else {}
        ranks = rank_environments(size, backend) if size > 1 else [{}]
        texts = launched(argv, program, [samples.BARE | common | rank for rank in ranks], LIMIT_S)
    return [body for body in map(_told, texts) if body]


def _told(text: str) -> dict[str, Any] | None:
    """What a rank said last; None of an asynchronous rank that was still at work when its peer left."""
    line = (text.splitlines() or [""])[-1]
    return dict(json.loads(line)) if line.startswith("{") else None


def throughput(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows a second and speed-up by number of ranks, of real cores and of emulated ones; medians of the rounds.

    Raises `RuntimeError` where a rank ends without its figures: the slowest could be that one.
    """
    model = {"family": "cnn", "params": {"conv_layers": 4, "filters": 32, "image_size": 32}}
    training = {"epochs": 1000, "batch_size": options.batch, "patience": 0, "augment": "none", "ema": 0}
    samples.program(folder, pictures(folder / "data", 20 * options.batch), model=model, training=training)
    ways = [(device, size) for device in ("cores", EMULATED) for size in COUNTS]
    rounds: list[dict[tuple[str, int], float]] = []
    for _ in range(options.rounds):
        times = {}
        for device, size in ways:
            slowdown = SLOWDOWN if device == EMULATED else 1.0
            told = launch(folder, size, "sync" if size > 1 else "single", options.steps, slowdown)
            if len(told) < size:
                raise RuntimeError(f"of {counted(size, 'rank')} ({device}), {len(told)} ended with figures")
            times[device, size] = slowest_s(told)
        rounds.append(times)
    found = []
    for device, size in ways:
        step_s = statistics.median(times[device, size] for times in rounds)
        alone_s = statistics.median(times[device, 1] for times in rounds)
        body = {"devices": device, "ranks": size, "rows_per_s": options.batch / step_s, "speedup": alone_s / step_s}
        print(f"{device:8} {size} ranks: {body['rows_per_s']:.0f} rows/s, {body['speedup']:.2f} times", flush=True)
        found.append(body)
    return found


def memory(folder: Path, batch: int) -> list[dict[str, Any]]:
    """Peak memory and parameters of the largest rank in each mode."""
    numbers = np.random.default_rng(0).normal(size=(12 * batch, FEATURES))
    columns: dict[str, Any] = {f"x{place}": numbers[:, place] for place in range(FEATURES)}
    columns["label"] = np.where(numbers[:, 0] > 0, "yes", "no").tolist()
    training = {"epochs": 1000, "batch_size": batch, "patience": 0, "ema": 0}
    samples.program(folder, samples.pack_table(folder / "data", columns, "label"), own_model=MODEL, training=training)
    found = []
    for mode, size in MODES.items():
        samples.staged(folder, mode, **({"stages": 2} if mode == "pipeline+sync" else {}))
        told = launch(folder, size, mode, STEPS_OF_MEMORY)
        peak_bytes, parameters = (max(rank[name] for rank in told) for name in ("peak_bytes", "parameters"))
        print(f"{mode:13} {size} ranks: {parameters:,} parameters, {peak_bytes / 2**20:.0f} MiB", flush=True)
        found.append({"mode": mode, "ranks": size, "parameters": parameters, "peak_bytes": peak_bytes})
    return found


def main() -> None:
    """Launch in turns, print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        print("\n" + json.dumps(rank_steps(options.steps)), flush=True)
        os._exit(0)  # no rank waits for another to leave
    with tempfile.TemporaryDirectory() as folder:
        speeds = throughput(Path(folder, "speed"), options)
        held = memory(Path(folder, "memory"), 8 * options.batch)
    body = {"slowdown": SLOWDOWN, "throughput": speeds, "memory": held}
    print(json.dumps({"benchmark": "modes_ranks", "cores": os.cpu_count(), **body}))


if __name__ == "__main__":
    main()
