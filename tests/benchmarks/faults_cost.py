"""What checkpoints cost a run that nothing happens to; see `bench_faults`.

One program, the customised CNN, in one process: blocks of steps with one checkpoint at their beginning take turns with
blocks without, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_ranks import pictures
from tests.benchmarks.fault_lab import Fault, Lab, Row
from tests.worker.runtime import samples
from worker.runtime import Run

PAIRS = 8
ROWS, BATCH = 4_000, 64
BAR = 0.03


class Blocks:
    """One block is the steps of one epoch; notes how long each took and how long the training waited to save."""

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs
        self.taken_s: dict[bool, list[float]] = {True: [], False: []}
        self.waited_s = 0.0
        self.steps = 0
        self._epoch = -1

    def run(self, run: Run, steps: Iterator[Any]) -> Iterator[Any]:
        """Hand the steps of an epoch through. The first epoch warms up."""
        run.checkpointer.settle()  # the best epoch so far may still be written: it belongs to no block
        pair, second = divmod(self._epoch, 2)
        saving = bool(second) ^ bool(pair % 2)  # with, without, without, with, ...
        began_s, first = time.perf_counter(), run.position.step
        if saving:
            run.checkpointer.save(metric=None)
            self.waited_s += time.perf_counter() - began_s
        yield from steps
        if saving:
            run.checkpointer.settle()
        if self._epoch >= 0:
            self.taken_s[saving].append(time.perf_counter() - began_s)
        else:
            self.waited_s = 0.0
        self._epoch, self.steps = self._epoch + 1, run.position.step - first
        if self._epoch == 2 * self.pairs:
            self._tell(run)

    def _tell(self, run: Run) -> None:
        """Print what was found and leave."""
        found = {"with_s": self.taken_s[True], "without_s": self.taken_s[False], "waited_s": self.waited_s}
        size = max(saved.bytes for saved in run.checkpointer.store.saved())
        print("\n" + json.dumps({**found, "checkpoint_bytes": size, "steps": self.steps}), flush=True)
        os._exit(0)


def role(pairs: int) -> None:
    """Run train.py of the working folder in blocks; print one JSON line."""
    original, blocks = Run.batches, Blocks(pairs)

    def batches(run: Run, part: Any) -> Iterator[Any]:
        yield from blocks.run(run, original(run, part))

    Run.batches = batches  # type: ignore[method-assign]
    sys.argv = ["train.py"]
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    runpy.run_path("train.py", run_name="__main__")


def checkpoint_cost(lab: Lab) -> Row:
    """Share of the steps' time that checkpoints add."""
    program = lab.folder / "cost"
    training = {"epochs": 10_000, "batch_size": BATCH, "patience": 0, "augment": "none", "ema": 0}
    model = {"family": "cnn", "params": {"conv_layers": 4, "filters": 32, "image_size": 32}}
    profile = pictures(program / "data", ROWS)
    samples.program(program, profile, model=model, training=training, checkpoints={"every_epochs": 10_000})
    argv = [sys.executable, "-m", "tests.benchmarks.faults_cost", "--pairs", str(PAIRS)]
    environment = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": "1"}
    done = subprocess.run(argv, cwd=program, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    ratios = [saved / plain for saved, plain in zip(found["with_s"], found["without_s"], strict=True)]
    share, waited = statistics.median(ratios) - 1.0, found["waited_s"] / sum(found["with_s"])
    every_s = statistics.median(found["with_s"])
    size, steps = found["checkpoint_bytes"] / 2**20, found["steps"]
    words = (
        f"{size:.1f} MiB every {every_s:.1f} s ({steps} steps): {share:.1%} of the time, "
        f"of which the training waits {waited:.1%}"
    )
    figures = {"checkpoint_cost_share": max(0.0, share), "checkpoint_wait_share": waited}
    return Row(fault="none: what checkpoints cost", outcome=words, good=share <= BAR, figures=figures)


FAULTS: tuple[Fault, ...] = (checkpoint_cost,)


def main() -> None:
    """The measured process; without options the whole measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int)
    pairs = parser.parse_args().pairs
    if pairs:
        role(pairs)
        return
    with tempfile.TemporaryDirectory() as folder:
        row = checkpoint_cost(Lab(Path(folder)))
    print(row.outcome)
    print(json.dumps({"benchmark": "faults_cost", "met": row.good, **row.figures}))


if __name__ == "__main__":
    main()
