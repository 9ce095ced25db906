"""Two one-thread Horovod ranks against torch DDP and against one process, on the customised CNN, in turns.

    python -m tests.benchmarks.bench_ranks [--rounds 3] [--steps 40] [--batch 128]

Horovod and the single process run the generated program itself; DDP is torch's own wrapper around the same model,
optimizer and rows, in processes that are set up alike: freed memory is kept, which takes a fifth off the processor time
of a step. Bars: Horovod at least 0.95 of DDP's samples/s; parallel efficiency at least 0.85. `apart` are two single
processes that share nothing but the machine: the efficiency that its two cores allow. JSON comes last.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch.nn import functional as F

from codegen.profile.types import DataKind, DatasetProfile, ImagesProfile
from tests.benchmarks.rank_processes import figures_of, launched
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import rank_environments
from worker.runtime import Run, load_spec
from worker.runtime.device import set_up_torch

DDP_BAR, EFFICIENCY_BAR = 0.95, 0.85
WARM_UP_STEPS = 8
ROLES = {"single": 1, "apart": 2, "horovod": 2, "ddp": 2}


def pictures(folder: Path, rows: int) -> DatasetProfile:
    """Made colour pictures of 32 x 32 in ten classes."""
    generator = np.random.default_rng(0)
    blobs = []
    for pixels in generator.integers(0, 255, size=(rows, 32, 32, 3), dtype=np.uint8):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=0)
        blobs.append(buffer.getvalue())
    labels = [str(number % 10) for number in range(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"width": [32] * rows, "height": [32] * rows}
    pq.write_table(pa.table({"image": blobs, "label": labels, "name": labels, **sizes}), folder / "images.parquet")
    shapes = {f"{side}_{what}": 32 for side in ("width", "height") for what in ("min", "max", "median")}
    images = ImagesProfile(**shapes, channels=3, formats=(("PNG", rows),), thumbnails=())
    classes = tuple((str(number), rows // 10) for number in range(10))
    return DatasetProfile(
        kind=DataKind.IMAGES, rows=rows, images=images, target="label", task="image_classification", classes=classes
    )


class Enough(Exception):
    """All steps were timed."""


def gaps(marks: list[tuple[float, float]]) -> dict[str, float]:
    """Medians of the steps after the warm-up: wall time, and processor time over all threads.

    No means: between two epochs the program evaluates and saves, which DDP's bare loop never does.
    """
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(marks)][WARM_UP_STEPS:]
    return {
        "step_s": statistics.median(wall for wall, _ in steps),
        "cpu_s": statistics.median(busy for _, busy in steps),
    }


def program_steps(steps: int) -> dict[str, float]:
    """Step times of train.py itself, in this rank."""
    marks: list[tuple[float, float]] = []
    original = Run.log_step

    def log_step(run: Run, *values: Any, **named: Any) -> None:
        original(run, *values, **named)
        marks.append((time.perf_counter(), time.process_time()))
        if len(marks) > steps + WARM_UP_STEPS:
            raise Enough

    Run.log_step = log_step  # type: ignore[method-assign]
    sys.argv = ["train.py", "--fresh"]
    with contextlib.suppress(Enough):
        runpy.run_path("train.py", run_name="__main__")
    return gaps(marks)


def ddp_steps(steps: int) -> dict[str, float]:
    """Step times of the same step under torch's DistributedDataParallel."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    set_up_torch(torch.device("cpu"), 1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    sys.path.insert(0, "")
    spec = load_spec("spec.yaml")
    import data  # type: ignore[import-not-found]
    import model  # type: ignore[import-not-found]

    dataset = data.load(spec, Path("data"))
    torch.manual_seed(0)
    net = DistributedDataParallel(model.build(spec.with_shape(dataset.shape)).to(memory_format=torch.channels_last))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    rows = spec.training.batch_size // size
    net.train()
    marks = []
    for step in range(steps + WARM_UP_STEPS + 1):
        start = (step * size + rank) * rows % (len(dataset.train) - rows)
        batch = dataset.train.take(slice(start, start + rows))
        loss = F.cross_entropy(net(*batch.inputs), batch.targets, label_smoothing=spec.training.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if spec.training.clip_norm:
            torch.nn.utils.clip_grad_norm_(net.parameters(), spec.training.clip_norm)
        optimizer.step()
        loss.item()
        marks.append((time.perf_counter(), time.process_time()))
    return gaps(marks)


def run_role(role: str, program: Path, steps: int) -> dict[str, float]:
    """Median step time of the slowest rank of one launch, and processor time of all ranks per step."""
    size = ROLES[role]
    if role in ("single", "apart"):
        ranks = [{"DLH_WORK": str(program / f"{role}{number}")} for number in range(size)]
    else:
        ranks = rank_environments(size, "torch" if role == "ddp" else "horovod")
    argv = [sys.executable, "-m", "tests.benchmarks.bench_ranks", "--role", role, "--steps", str(steps)]
    common = samples.BARE | {"PYTHONPATH": str(samples.PROJECT), "DLH_THREADS": "1", "DLH_WORK": str(program / role)}
    common |= {name: value for name, value in os.environ.items() if name == "HOROVOD_CYCLE_TIME"}
    told = figures_of(launched(argv, program, [common | rank for rank in ranks], 300))
    return {"step_s": max(rank["step_s"] for rank in told), "cpu_s": sum(rank["cpu_s"] for rank in told)}


def main() -> None:
    """Launch the roles in turns and print medians, ratios and one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--role", choices=sorted(ROLES))
    options = parser.parse_args()
    if options.role:
        times = ddp_steps(options.steps) if options.role == "ddp" else program_steps(options.steps)
        print(json.dumps(times), flush=True)
        os._exit(0)  # no rank waits for another to leave
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder)
        model = {"family": "cnn", "params": {"conv_layers": 4, "filters": 32, "image_size": 32}}
        training = {"epochs": 1000, "batch_size": options.batch, "patience": 0, "augment": "none", "ema": 0}
        samples.program(program, pictures(program / "data", 20 * options.batch), model=model, training=training)
        rounds = [{role: run_role(role, program, options.steps) for role in ROLES} for _ in range(options.rounds)]
    for number, times in enumerate(rounds):
        shown = (f"{role} {found['step_s'] * 1e3:.1f} ms/step" for role, found in times.items())
        print(f"round {number}: " + "  ".join(shown))
    wall = {role: statistics.median(times[role]["step_s"] for times in rounds) for role in ROLES}
    busy = {role: statistics.median(times[role]["cpu_s"] for times in rounds) for role in ROLES}
    against_ddp, efficiency = wall["ddp"] / wall["horovod"], wall["single"] / wall["horovod"] / 2
    ddp_efficiency, allowed = wall["single"] / wall["ddp"] / 2, wall["single"] / wall["apart"]
    print("processor time per step: " + "  ".join(f"{role} {value * 1e3:.1f} ms" for role, value in busy.items()))
    print(f"Horovod against DDP {against_ddp:.3f} (bar {DDP_BAR})")
    print(f"efficiency {efficiency:.3f} (bar {EFFICIENCY_BAR}); DDP's {ddp_efficiency:.3f}, apart {allowed:.3f}")
    body = {"against_ddp": against_ddp, "efficiency": efficiency, "ddp_efficiency": ddp_efficiency}
    body |= {"machine_efficiency": allowed, "rounds": rounds}
    met = against_ddp >= DDP_BAR and efficiency >= EFFICIENCY_BAR
    print(json.dumps({"benchmark": "ranks", "met": met, "cores": os.cpu_count(), **body}))


if __name__ == "__main__":
    main()
