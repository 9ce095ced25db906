"""What ranks of one host pay to add up: `python -m worker.runtime.inspection.link [--ranks 2] [--device cpu]`.

Sums over all ranks through the runtime's own collective (`worker.runtime.collective`), as averaging of gradients does,
for a handful of sizes. The last line printed is JSON, `scheduler.estimation.link.fit_link` takes it:

    ok, problem
    sizes_bytes    of the tensor that is summed
    seconds        median time of one sum, the slowest rank's
    ranks, backend, device
"""

from __future__ import annotations

import argparse
import json
import os
from statistics import median
from typing import Any

import torch

from worker.plan import EXIT_REPORTED
from worker.runtime.collective import Group, join
from worker.runtime.device import settled_s

SIZES_BYTES = (4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20)
WARM_UP = 2
REPEATS = 9
SIZE_S = 3.0
"""About how long one size may take."""
STEP_S = 0.05
"""A usual step: Horovod's cycle time, and with it the latency, follows from it."""


def sum_times(group: Group, device: torch.device) -> list[float]:
    """Seconds per sum, by size; every rank makes as many."""
    seconds = []
    for size in SIZES_BYTES:
        tensor = torch.ones(size // 4, device=device)
        taken = [_timed(group, tensor, device) for _ in range(WARM_UP)]
        agreed = torch.tensor([min(REPEATS, max(1.0, SIZE_S / taken[-1]))])
        group.broadcast_(agreed)
        taken = [_timed(group, tensor, device) for _ in range(int(agreed))]
        seconds.append(median(taken))
    return seconds


def _timed(group: Group, tensor: torch.Tensor, device: torch.device) -> float:
    began_s = settled_s(device)
    group.sum_start(tensor, "link").wait()
    taken_s = settled_s(device) - began_s
    tensor.fill_(1.0)
    return taken_s


def _rank(backend: str, device: torch.device) -> dict[str, Any]:
    torch.set_num_threads(int(os.environ.get("DLH_THREADS", "1")))
    group = join(backend, STEP_S, device)
    seconds = sum_times(group, device)
    group.close()
    return {"ok": True, "problem": None, "sizes_bytes": list(SIZES_BYTES), "seconds": seconds}


def _all(options: argparse.Namespace, backend: str) -> dict[str, Any]:
    from worker.runtime.inspection.local_ranks import run_ranks

    told = {"ranks": options.ranks, "backend": backend, "device": options.device}
    try:
        answers = run_ranks("worker.runtime.inspection.link", [], options.ranks, threads=1, device=options.device)
    except (RuntimeError, OSError) as error:
        problem = {"code": "start_failed", "message": f"The ranks did not meet: {error}", "hint": "Try again."}
        return {"ok": False, "problem": problem, "sizes_bytes": [], "seconds": [], **told}
    slowest = [max(times) for times in zip(*(answer["seconds"] for answer in answers), strict=True)]
    return {**answers[0], "seconds": slowest, **told}


def main() -> None:
    """Measure and print the answer."""
    parser = argparse.ArgumentParser(description="Time sums over the ranks of this host.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args()
    backend = os.environ.get("DLH_BACKEND", "horovod")
    if options.ranks < 2:
        parser.error("a link joins at least 2 ranks")
    joined = "DLH_RANK" in os.environ
    answer = _rank(backend, torch.device(os.environ["DLH_DEVICE"])) if joined else _all(options, backend)
    print(json.dumps(answer), flush=True)
    os._exit(0 if answer["ok"] else EXIT_REPORTED)  # Horovod's threads may take their time


if __name__ == "__main__":
    main()
