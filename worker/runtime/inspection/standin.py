"""Runs a program's own train.py with something else in place of its `Run`: to look at its steps, not to train."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure
from worker.runtime.report import Reporter
from worker.runtime.run import Run
from worker.runtime.settings import Settings
from worker.runtime.spec import Spec

OWN_MODULES = ("model", "data", "words", "word_scores", "history", "windows", "train", "predict")


class Enough(BaseException):
    """Leaves train.py. No `Exception`, so that a program that catches those does not catch this."""


class QuietReporter(Reporter):
    """Events go to a file as in a run, nothing to the console: the answer goes there."""

    def say(self, text: str) -> None:
        """Nothing."""


class StandIn(Run):
    """A `Run` on a few rows with a batch size of its own; train.py gets it from `Run.start`."""

    def __init__(self, spec: Spec, data: Path, work: Path, batch_size: int | None, **settings: Any) -> None:
        arguments = ["--data", str(data), "--work", str(work)]
        chosen = Settings.read(arguments, {**os.environ, "DLH_EVENTS": "", **settings})
        if batch_size is not None:
            spec["training"]["batch_size"] = batch_size
        if spec.get("mode") == "async":
            spec["mode"] = "sync"  # a step is the same, and a few of them need no servers
        reporter = QuietReporter(
            work / "events" / f"rank-{chosen.rank}.jsonl", job_id="look", token=0, rank=chosen.rank
        )
        super().__init__(spec, chosen, reporter)

    @property
    def done(self) -> float:
        """The very end of the run: the learning rate is next to nothing, so that no step can blow up."""
        return 0.999


def drive(program: Path, run: Run) -> None:
    """Run train.py until it has shown enough, or to its end.

    Raises what the program raises; an exit of its own becomes a `ProgramFailure`.
    """
    with _instead_of_run(program, run):
        try:
            runpy.run_path(str(program / "train.py"), run_name="__main__")
        except Enough:
            pass
        except SystemExit as error:
            message = "The program ended itself before its first steps were over."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Look for sys.exit() in its files.") from error
        finally:
            run.reporter.close()


@contextmanager
def _instead_of_run(program: Path, run: Run) -> Iterator[None]:
    runtime = importlib.import_module("worker.runtime")
    whole, folder, path = runtime.Run, Path.cwd(), list(sys.path)
    _forget_modules()
    runtime.Run = SimpleNamespace(start=lambda *_arguments, **_named: run)  # type: ignore[attr-defined]
    sys.path.insert(0, str(program))
    os.chdir(program)
    try:
        yield
    finally:
        runtime.Run = whole  # type: ignore[attr-defined]
        sys.path[:] = path
        os.chdir(folder)
        _forget_modules()


def _forget_modules() -> None:
    """Another program's modules have the same names."""
    for name in OWN_MODULES:
        sys.modules.pop(name, None)
