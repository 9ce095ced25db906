"""How long from submit to the first step, and how old a point is when it reaches a watcher.

    make bench-start [ARGS="--jobs 10"]

Starts a stack of its own in a temporary home, submits jobs one by one to the idle pool, and follows each by the
public server-sent events. Submit to first step is split into torch's import in a fresh interpreter, measured in the
same run between the jobs, and the rest, which is ours. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.client.live import events_read
from harness.datasets.samples import sample_file
from tests.e2e.stack import RunningStack

SPEC = {"training": {"epochs": 6, "seed": 1, "patience": 0}, "resources": {"device": "cpu", "count": 1}}
IMPORT = "import time; start = time.perf_counter(); import torch; print(time.perf_counter() - start)"


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def torch_import_s() -> float:
    """Seconds that a fresh interpreter needs to start and import torch."""
    started_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True)
    return time.perf_counter() - started_s


def seconds(later: str, earlier: str) -> float:
    """Seconds between two ISO times."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


class Watcher:
    """Follows one job by server-sent events and notes how old each metric is when it arrives."""

    def __init__(self, stack: RunningStack, job: str) -> None:
        self.latencies_s: list[float] = []
        self._stack, self._job = stack, job
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        headers = {"Authorization": f"Bearer {self._stack.token}", "Accept": "text/event-stream"}
        url = f"{self._stack.url}/live?topics=job:{self._job}"
        with httpx.stream("GET", url, headers=headers, timeout=httpx.Timeout(30, read=60)) as response:
            response.raise_for_status()
            for event in events_read(response.iter_lines()):
                made_s = event.data.get("time_s") if isinstance(event.data, dict) else None
                if event.name in {"metric", "progress"} and made_s:
                    self.latencies_s.append(time.time() - made_s)
                if event.name == "exited":
                    return

    def wait(self) -> None:
        """Wait for the end of the job."""
        self._thread.join(timeout=120)


def measure(stack: RunningStack, dataset: str) -> dict[str, Any]:
    """One job: seconds from submit to first step, and the age of its points."""
    body = {"project": stack.project, "dataset": dataset, "spec": {"name": "start", **SPEC}}
    job = stack.post("/jobs", body)["id"]
    watcher = Watcher(stack, job)
    stack.post(f"/jobs/{job}/submit")
    ended = stack.job_wait(job, "succeeded")
    watcher.wait()
    return {
        "start_s": seconds(ended["running_at"], ended["queued_at"]),
        "placed_s": seconds(ended["placed_at"], ended["queued_at"]),
        "latencies_s": watcher.latencies_s,
    }


def report(runs: list[dict[str, Any]], imports_s: list[float]) -> dict[str, Any]:
    """Figures of all runs."""
    starts = [run["start_s"] for run in runs]
    import_s = statistics.median(imports_s)
    own = [max(0.0, start - import_s) for start in starts]
    latencies = [value for run in runs for value in run["latencies_s"]]
    figures = {
        "jobs": len(runs),
        "start_p50_s": statistics.median(starts),
        "start_p95_s": quantile(starts, 0.95),
        "torch_import_s": import_s,
        "own_p50_s": statistics.median(own),
        "own_p95_s": quantile(own, 0.95),
        "placed_p95_s": quantile([run["placed_s"] for run in runs], 0.95),
        "points": len(latencies),
        "point_p50_s": statistics.median(latencies) if latencies else None,
        "point_p95_s": quantile(latencies, 0.95) if latencies else None,
    }
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12)
    count = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as folder:
        stack = RunningStack(Path(folder) / "home")
        try:
            stack.wait_running()
            dataset = stack.upload(sample_file("digits", Path(folder)), "digits")
            measure(stack, dataset)  # the first one fills the page cache
            runs, imports_s = [], []
            for number in range(count):
                imports_s.append(torch_import_s())
                runs.append(measure(stack, dataset))
                print(f"job {number + 1:2d}: first step after {runs[-1]['start_s']:.2f} s", flush=True)
            stack.stop(signal.SIGTERM)
        finally:
            stack.kill()
    figures = report(runs, imports_s)
    for name, value in figures.items():
        print(f"{name:16} {value}")
    print(json.dumps({"benchmark": "start", **figures}))


if __name__ == "__main__":
    main()
