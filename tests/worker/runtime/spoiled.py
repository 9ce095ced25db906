"""Programs that a test has spoiled, and what a person is told of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events
from worker.plan import EXIT_REPORTED


def edit(program: Path, name: str, change: Callable[[str], str]) -> None:
    """Rewrite one file; fails if nothing changes."""
    before = (program / name).read_text()
    after = change(before)
    assert after != before
    (program / name).write_text(after)


def error_of(program: Path) -> dict[str, Any]:
    """Run train.py, which must fail and report; returns the data of the ERROR event."""
    done = samples.run(program, "train.py")
    assert done.returncode == EXIT_REPORTED, done.stdout + done.stderr
    return next(event["data"] for event in events(program / "work") if event["kind"] == "error")


def check_of(program: Path) -> dict[str, Any]:
    """Answer of the check before a run."""
    done = samples.run(program, "-m", "worker.runtime.inspection.check", "--program", str(program), "--data", "data")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == (0 if answer["ok"] else EXIT_REPORTED)
    return answer
