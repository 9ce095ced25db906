"""A whole run of a program as one rank sees it.

    python -m tests.benchmarks.timed_run --program DIR --data DIR --work DIR

The last line printed is JSON: {"first_step_s"}: unix time at which the first batch was asked for, and the seconds of
its parts: {"steps_s", "passes_s", "saves_s", "end_s"}; passes are those after each epoch, the end holds the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from worker.runtime import Run

PARTS = {"batches": "steps_s", "evaluate": "passes_s", "checkpoint": "saves_s", "finish": "end_s"}
"""Method of `Run` -> which part of a run it is."""


def watched(method: Callable[..., Any], parts: dict[str, float], part: str) -> Callable[..., Any]:
    """The method, with its seconds added to its part."""

    @wraps(method)
    def timed(*arguments: Any, **named: Any) -> Any:
        began_s = time.time()
        try:
            return method(*arguments, **named)
        finally:
            parts[part] += time.time() - began_s

    return timed


def main() -> None:
    """Run train.py as it stands, with the clock read at its first step."""
    parser = argparse.ArgumentParser()
    for name in ("program", "data", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    seen: list[float] = []
    parts = dict.fromkeys(PARTS.values(), 0.0)
    original = Run.batches

    def batches(run: Run, part: Any) -> Iterator[Any]:
        seen.append(time.time())
        yield from original(run, part)
        parts["steps_s"] += time.time() - seen[-1]

    Run.batches = batches  # type: ignore[method-assign]
    for name, part in PARTS.items():
        if name != "batches":
            setattr(Run, name, watched(getattr(Run, name), parts, part))
    os.chdir(chosen.program)
    sys.path.insert(0, str(chosen.program))
    sys.argv = ["train.py", "--data", str(chosen.data), "--work", str(chosen.work)]
    runpy.run_path("train.py", run_name="__main__")
    print("\n" + json.dumps({"first_step_s": seen[0], **parts}), flush=True)


if __name__ == "__main__":
    main()
