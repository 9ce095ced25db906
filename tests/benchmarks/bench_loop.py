"""Generated programs against a bare PyTorch loop: samples per second, epoch by epoch in turns, medians.

    python -m tests.benchmarks.bench_loop [--epochs 12] [--threads 1]

Both loops train the same model on the same rows with the same batch size, optimizer, schedule, clipping and
averaging, in one process; the bare one indexes tensors by a permutation and does nothing else. Bars: at least 0.98 of
the bare loop for each task; batches take at most 3 % of the loop. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.worker.runtime import samples
from worker.runtime import Ema, Run
from worker.runtime.data import Part

LOOP_BAR, LOADER_BAR = 0.98, 0.03


def table_rows(folder: Path, rows: int, regression: bool) -> Any:
    """A made table: 10 numbers, 4 categories."""
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=(rows, 10))
    words = generator.integers(0, 8, size=(rows, 4))
    score = numbers[:, 0] * numbers[:, 1] + numbers[:, 2] + (words[:, 0] == 3)
    columns: dict[str, Any] = {f"number_{i}": numbers[:, i] for i in range(10)}
    columns |= {f"word_{i}": [f"w{value}" for value in words[:, i]] for i in range(4)}
    target = score if regression else np.where(score > 0, "yes", "no").tolist()
    return samples.pack_table(folder, columns | {"target": target}, "target")


TASKS: dict[str, Callable[[Path], Any]] = {
    "tabular_classification": lambda folder: table_rows(folder, 12_000, regression=False),
    "tabular_regression": lambda folder: table_rows(folder, 12_000, regression=True),
    "image_classification": samples.digits,
}


class Bare:
    """The bare loop: its own copy of the model, and nothing but torch (and the spec's running average)."""

    def __init__(self, run: Run, shape: dict[str, Any]) -> None:
        self.run, training = run, run.spec.training
        self.data, model = sys.modules["data"], sys.modules["model"]
        self.net = model.build(run.spec.with_shape(shape))
        if run.spec.task == "image_classification":
            self.net = self.net.to(memory_format=torch.channels_last)
        matrices = [weight for weight in self.net.parameters() if weight.ndim >= 2]
        vectors = [weight for weight in self.net.parameters() if weight.ndim < 2]
        groups = [{"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        if training.optimizer == "sgd":
            self.optimizer: Any = torch.optim.SGD(groups, lr=1e-4, momentum=0.9, nesterov=True)
        else:
            self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.99), fused=True)
        self.ema = Ema(self.net, training.ema) if training.ema else None
        self.has_pictures = run.spec.task == "image_classification"

    def epoch(self, part: Part) -> float:
        """Seconds of one pass."""
        training, size = self.run.spec.training, self.run.batch_size
        generator = torch.Generator().manual_seed(0)
        self.net.train()
        started = time.perf_counter()
        order = torch.randperm(len(part))
        steps = self.run.teller.steps_per_epoch
        for step in range(steps):
            index = order[step * size : None if step == steps - 1 else (step + 1) * size]
            inputs, targets = tuple(tensor[index] for tensor in part.inputs), part.targets[index]
            if self.has_pictures:
                inputs = self.data.augment(inputs, training.augment, generator)
            for group in self.optimizer.param_groups:
                group["lr"] = 1e-4
            outputs = self.net(*inputs)
            if targets.is_floating_point():
                loss = F.mse_loss(outputs.squeeze(1), targets)
            else:
                loss = F.cross_entropy(outputs, targets, label_smoothing=training.label_smoothing)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if training.clip_norm:
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), training.clip_norm)
            self.optimizer.step()
            if self.ema:
                self.ema.update(self.net)
        return time.perf_counter() - started


def measure(task: str, epochs: int) -> dict[str, float]:
    """Medians over epochs (the first is warm-up): seconds of the program's loop, the bare loop, the batches alone."""
    program_s, bare_s, loader_s = [], [], []
    original_batches, original_place = Run.batches, Run.place
    shapes: list[dict[str, Any]] = []
    bare: list[Bare] = []

    def place(run: Run, net: Any, dataset: Any) -> Any:
        shapes.append(dataset.shape)
        return original_place(run, net, dataset)

    def batches(run: Run, part: Part) -> Iterator[Any]:
        if not bare:
            bare.append(Bare(run, shapes[0]))
        if run.position.epoch % 2:
            bare_s.append(bare[0].epoch(part))
        started = time.perf_counter()
        yield from original_batches(run, part)
        program_s.append(time.perf_counter() - started)
        if run.position.epoch % 2 == 0:
            bare_s.append(bare[0].epoch(part))
        loader_s.append(loader(run, part))

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        training = {"epochs": epochs, "patience": 0}
        samples.program(root, TASKS[task](root / "data"), training=training)
        os.chdir(root)
        sys.path.insert(0, str(root))
        sys.argv = ["train.py"]
        Run.batches, Run.place = batches, place  # type: ignore[method-assign]
        try:
            runpy.run_path("train.py", run_name="__main__")
        finally:
            Run.batches, Run.place = original_batches, original_place  # type: ignore[method-assign]
            os.chdir("/")
    ratios = [b / p for b, p in zip(bare_s[1:], program_s[1:], strict=True)]
    return {
        "program_s": statistics.median(program_s[1:]),
        "bare_s": statistics.median(bare_s[1:]),
        "ratio": statistics.median(ratios),
        "loader_share": statistics.median(loader_s[1:]) / statistics.median(program_s[1:]),
    }


def loader(run: Run, part: Part) -> float:
    """Seconds that the batches of an epoch take by themselves."""
    from worker.runtime.batches import BatchPlan, epoch_order, iterate

    plan = BatchPlan(rows=len(part), batch_size=run.batch_size)
    started = time.perf_counter()
    for _ in iterate(part, plan, epoch_order(len(part), 0, 0), 0, 0, run.device):
        pass
    return time.perf_counter() - started


def main() -> None:
    """Measure every task in a process of its own (`--task` is one of them) and print the table and one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12, help="2 or more: the first one warms up")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--task", choices=sorted(TASKS))
    options = parser.parse_args()
    if options.epochs < 2:
        parser.error("--epochs is 2 or more: the first one warms up")
    os.environ["DLH_THREADS"] = str(options.threads)
    if options.task:
        print(json.dumps(measure(options.task, options.epochs)), flush=True)
        return
    import subprocess

    measured = {}
    for task in TASKS:
        argv = [sys.executable, "-m", "tests.benchmarks.bench_loop", "--task", task]
        argv += ["--epochs", str(options.epochs), "--threads", str(options.threads)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, cwd=samples.PROJECT)
        measured[task] = json.loads(done.stdout.splitlines()[-1])
        found = measured[task]
        times = f"program {found['program_s'] * 1e3:8.1f} ms/epoch  bare {found['bare_s'] * 1e3:8.1f} ms/epoch"
        shares = (
            f"ratio {found['ratio']:.3f} (bar {LOOP_BAR})  batches {found['loader_share']:.1%} (bar {LOADER_BAR:.0%})"
        )
        print(f"{task:24} {times}  {shares}", flush=True)
    good = all(f["ratio"] >= LOOP_BAR and f["loader_share"] <= LOADER_BAR for f in measured.values())
    print(json.dumps({"benchmark": "loop", "threads": options.threads, "met": good, "tasks": measured}))


if __name__ == "__main__":
    main()
