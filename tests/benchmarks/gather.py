"""Running a benchmark as a process of its own, and where public data lie that some of them need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]


def gathered(module: str, options: list[str]) -> dict[str, Any]:
    """Run `tests.benchmarks.MODULE`: what it prints is passed on, the JSON of its last line is returned.

    Where it ends without such a line, `{"error": ...}` tells with which exit code. A code alone is no error: some end
    with 1 where a bar was missed.
    """
    argv = [sys.executable, "-m", f"tests.benchmarks.{module}", *options]
    last = ""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line if line.strip() else last
    try:
        body = json.loads(last)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": f"ended with code {process.returncode} and no figures"}


def public_folder(given: Path | None, variable: str, name: str) -> Path | None:
    """The folder of public data: the one given, else that of the environment, else `../shared/NAME`; None: nowhere."""
    named = os.environ.get(variable)
    beside = PROJECT.parent / "shared" / name
    return given or (Path(named) if named else (beside if beside.is_dir() else None))


def data_folder(given: Path | None = None) -> Path | None:
    """Where adult, abalone, ag_news, cifar10_6k and daily_min_temperatures lie (`DLH_BENCH_DATA`)."""
    return public_folder(given, "DLH_BENCH_DATA", "data")


def traces_folder(given: Path | None = None) -> Path | None:
    """Where traces of clusters and tables of step times lie (`DLH_TRACES`)."""
    return public_folder(given, "DLH_TRACES", "traces")
