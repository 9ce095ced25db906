"""The demo: a client of the public HTTP API that uploads a sample, trains it, and prints what came of it.

`python -m harness.stack.demo`, with `DLH_URL`, `DLH_TOKEN` and `DLH_PROJECT` in the environment. Exit status 0
only if the job succeeded.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from harness.client.errors import ClientError
from harness.client.transport import Transport
from harness.client.upload import Upload, UploadMemory
from harness.datasets.samples import SAMPLES, sample_file
from worker.words import duration_words, number_words, percent_words

SAMPLE = "digits"
DATASET_NAME = "digits (sample)"
JOB_SPEC: dict[str, Any] = {"name": "Digits (demo)", "training": {"seed": 1}}
POLL_S = 0.3
PLAIN_STEP = 0.1
"""Without a terminal a line is printed each time this share more is done."""
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


class Shown(Protocol):
    """What tells a person how far it is."""

    def __call__(self, what: str, done: float | None, note: str = "") -> None:
        """Show the step `what`, its share done (0-1, None if unknown) and a note."""


@contextmanager
def display(console: Console) -> Iterator[Shown]:
    """A bar on a terminal that can draw one, lines elsewhere."""
    is_seen = console.is_terminal and console.file.isatty()  # FORCE_COLOR makes one of a pipe, too
    if not is_seen or console.is_dumb_terminal:
        yield Lines(console)
        return
    columns = [SpinnerColumn(), TextColumn("{task.description:<18}"), BarColumn(), TaskProgressColumn()]
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=console) as progress:
        tasks: dict[str, Any] = {}

        def show(what: str, done: float | None, note: str = "") -> None:
            if what not in tasks:
                for name, task in tasks.items():
                    progress.update(task, total=1, completed=1, note="", description=name)
                    progress.stop_task(task)
                tasks[what] = progress.add_task(what, total=None, note="")
            progress.update(tasks[what], total=None if done is None else 1, completed=done or 0, note=note)

        yield show


class Lines:
    """Progress as lines of text, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, float] | None = None

    def __call__(self, what: str, done: float | None, note: str = "") -> None:
        """Print when the step changes or enough of it is done."""
        new = self._last is None or self._last[0] != what
        if new or (self._last and (done or 0) >= self._last[1] + PLAIN_STEP):
            share = "" if done is None else f" {percent_words(done, 0)}"
            self._console.print(f"  {what}{share}  {note}".rstrip(), highlight=False)
            self._last = (what, done or 0)


class Demo:
    """The steps, each one or few requests."""

    def __init__(self, transport: Transport, project: str, show: Shown) -> None:
        self._transport, self._project, self._show = transport, project, show

    def dataset(self) -> str:
        """Id of the sample in this project, uploaded unless it is there already."""
        found = self._transport.json("GET", "/datasets", params={"project": self._project, "query": DATASET_NAME})
        for row in found["items"]:
            if row["name"] == DATASET_NAME and row["state"] != "failed":
                return self._ready(str(row["id"]))
        with tempfile.TemporaryDirectory() as folder:
            path = sample_file(SAMPLE, Path(folder))
            metadata = {"project": self._project, "name": DATASET_NAME}
            memory = UploadMemory(Path(folder) / "uploads.json")
            dataset = Upload(self._transport, path, metadata, memory=memory).run(
                lambda done, total: self._show("Uploading", done / max(total, 1))
            )
        return self._ready(dataset)

    def _ready(self, dataset: str) -> str:
        while True:
            body = self._transport.json("GET", f"/datasets/{dataset}")
            if body["state"] == "ready":
                return dataset
            if body["state"] == "failed":
                problem = body.get("problem") or {}
                raise DemoError(f"the sample cannot be read: {problem.get('message', 'no reason given')}")
            self._show("Reading the data", body.get("progress"), body.get("progress_note") or "")
            time.sleep(POLL_S)

    def job(self, dataset: str) -> dict[str, Any]:
        """Submit the job and follow it to its end."""
        self._show("Submitting", None)
        body = {"project": self._project, "dataset": dataset, "spec": JOB_SPEC, "submit": True}
        job = self._transport.json("POST", "/jobs", json=body)
        while job["state"] not in {"succeeded", "failed", "cancelled", "paused"}:
            self._show_job(job)
            time.sleep(POLL_S)
            job = self._transport.json("GET", f"/jobs/{job['id']}")
        if job["state"] == "succeeded":
            self._show("Training", 1.0, "done")
        return dict(job)

    def _show_job(self, job: dict[str, Any]) -> None:
        if job["state"] == "queued":
            self._show("Waiting", None, job.get("waiting_text") or "")
        elif job["state"] == "placed" or not job["step"]:
            self._show("Starting", None, "the ranks load PyTorch")
        else:
            self._show("Training", job["progress"], training_note(job))

    def results(self, job_id: str) -> dict[str, Any]:
        """Results of the job."""
        return dict(self._transport.json("GET", f"/jobs/{job_id}/results"))


def training_note(job: dict[str, Any]) -> str:
    """Epoch, newest validation metric, speed and time left, as far as known."""
    parts = [f"epoch {int(job['epoch'])}/{job['epochs']}"] if job.get("epochs") else []
    value = (job.get("last_values") or {}).get(f"val/{job.get('metric_name')}")
    parts += [f"{job['metric_name']} {value:.3f}"] if value is not None else []
    parts += [f"{number_words(job['samples_per_s'], 3)} samples/s"] if job.get("samples_per_s") else []
    parts += [f"about {duration_words(job['eta_s'])} left" if job.get("eta_s") is not None else "measuring ..."]
    return ", ".join(parts)


def metrics_table(results: dict[str, Any]) -> Table:
    """Metrics of the parts side by side."""
    parts = [part for part in ("train", "val", "test") if results["metrics"].get(part)]
    table = Table("metric", *parts, title="Results")
    names = dict.fromkeys(name for part in parts for name in results["metrics"][part])
    for name in names:
        values = [results["metrics"][part].get(name) for part in parts]
        table.add_row(name, *("" if value is None else f"{value:.4f}" for value in values))
    return table


def run(console: Console) -> int:
    """The whole demo; exit status."""
    transport = Transport(os.environ["DLH_URL"], os.environ["DLH_TOKEN"])
    console.print(f"Demo: {SAMPLES[SAMPLE][2]}", highlight=False)
    with display(console) as show:
        demo = Demo(transport, os.environ["DLH_PROJECT"], show)
        job = demo.job(demo.dataset())
    if job["state"] != "succeeded":
        failure = job.get("failure") or {}
        console.print(f"\nThe job ended as {job['state']}: {failure.get('message', 'no reason given')}", markup=False)
        console.print(failure.get("hint") or "", markup=False)
        return EXIT_FAILED
    console.print()
    console.print(metrics_table(demo.results(job["id"])))
    console.print(f"Job page: {transport.url}/jobs/{job['id']}", highlight=False)
    return 0


def main() -> int:
    """Run and turn errors into words."""
    console = Console()
    try:
        return run(console)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (DemoError, ClientError) as error:
        hint = getattr(error, "hint", "")
        console.print(f"\nThe demo cannot continue: {error}\n{hint}", markup=False)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
