"""How long from a cancel until the job is cancelled and no process of it is left.

    make bench-cancel [ARGS="--jobs 8"]

Starts a stack of its own in a temporary home. Each job trains on two ranks, each of which has started a process in a
session of its own, as a data loader of somebody's model may. The cancel comes in the middle of the training, by the
API. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.datasets.samples import sample_file
from tests.e2e.stack import RunningStack, processes_of
from tests.waiting import wait_for

SPEC = {
    "name": "cancel",
    "mode": "sync",
    "training": {"epochs": 1000, "seed": 1, "patience": 0},
    "resources": {"device": "cpu", "count": 2},
}
DAEMON = "daemon-of-a-rank"
MODEL = f"""import subprocess
import sys

from torch import nn


class Net(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape.channels * shape.height * shape.width, shape.outputs)

    def forward(self, pictures):
        return self.layer(pictures.flatten(1) / 255)


def build(spec):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{DAEMON}"], start_new_session=True)
    return Net(spec.shape)
"""
LIMIT_S = 60.0


def is_there(process: psutil.Process) -> bool:
    """Whether it runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_daemon(process: psutil.Process) -> bool:
    """Whether a rank started it beside itself."""
    try:
        return DAEMON in process.cmdline()
    except psutil.Error:
        return False


def processes_of_job(home: Path, job: str) -> list[psutil.Process]:
    """The process that watches over the job, and all below it."""
    roots = [process for process in processes_of(home) if any(job in part for part in process.cmdline())]
    return list({*roots, *(below for root in roots for below in root.children(recursive=True))})


def measure(stack: RunningStack, home: Path, dataset: str) -> dict[str, float]:
    """One job: seconds from the cancel until it is cancelled, and until none of its processes is left."""
    job = stack.job_submit(dataset, SPEC, MODEL)
    stack.job_wait(job, "running")
    wait_for(
        lambda: sum(is_daemon(process) for process in processes_of_job(home, job)) >= 2,
        timeout_s=LIMIT_S,
        what="both ranks have started their process",
    )
    alive = processes_of_job(home, job)
    began_s = time.perf_counter()
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled")
    told_s = time.perf_counter() - began_s
    wait_for(lambda: not any(map(is_there, alive)), timeout_s=LIMIT_S, what="all processes have ended")
    return {"cancelled_s": told_s, "gone_s": time.perf_counter() - began_s, "processes": len(alive)}


def main() -> int:
    """Run and print; 0 if all were gone in time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8)
    count = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        stack = RunningStack(home)
        try:
            stack.wait_running()
            dataset = stack.upload(sample_file("digits", Path(folder)), "digits")
            runs = []
            for number in range(count):
                runs.append(measure(stack, home, dataset))
                print(f"job {number + 1}: {', '.join(f'{name} {value:.2f}' for name, value in runs[-1].items())}")
            stack.stop(signal.SIGTERM)
        finally:
            stack.kill()
    gone = [run["gone_s"] for run in runs]
    figures = {
        "jobs": count,
        "cancelled_p50_s": round(statistics.median(run["cancelled_s"] for run in runs), 3),
        "gone_p50_s": round(statistics.median(gone), 3),
        "gone_max_s": round(max(gone), 3),
        "met": max(gone) <= 5.0,
    }
    print(json.dumps({"benchmark": "cancel", **figures}))
    return 0 if figures["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
