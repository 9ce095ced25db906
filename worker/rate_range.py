"""A learning-rate range test of a program, or trials of some rates, on a node, in the sandbox.

`rate_test` answers `node.rate_range`. Request as of `worker.inspection.measure`, without points: `request_id`,
`job_dir`, `dataset_dir`, `minimum_sandbox_level`, and optional `weights_dir`, `batch_size`, `device`, `threads`,
`memory_bytes`, `low`, `high` (rates), `steps`, `sweeps`, `budget_s`. One that names a `centre` (and `scale`) asks for
short trainings around that rate instead. While it goes on `{request_id, progress}` is told; the answer is
`{request_id, ok, problem, program_sha256}` and what `worker.runtime.rates.range_test`, or
`worker.runtime.rates.trials`, tells.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker import host_limits
from worker.inspection import MEMORY_SHARE, folders, gpus, last_answer, number, program_folder, program_sha256
from worker.programs import ProgramCall, ProgramProblem, program_call_off, program_run, start_weights

BUDGET_S = 60.0
"""For the steps of all sweeps."""
SPARE_S = 60.0
"""To start and to read the data."""
TELL_S = 1.0
"""Progress is told this often at most."""
RANGE_OPTIONS = ("low", "high", "steps", "sweeps")
TRIAL_OPTIONS = ("centre", "scale")

Send = Callable[[dict[str, Any]], None]


def rate_test(request: dict[str, Any], send: Send) -> None:
    """Make the test; tell progress, then the answer. Never raises for a fault of the request or the program."""
    is_trial = request.get("centre") is not None
    answer: dict[str, Any] = {"ok": False, "problem": None, "trials" if is_trial else "record": None}
    progress = _Progress(str(request["request_id"]), send)
    try:
        answer |= last_answer(program_run(_call(request, is_trial), progress.line))
    except ProgramProblem as problem:
        answer["problem"] = problem.to_dict()
    send({**answer, "request_id": request["request_id"], "program_sha256": program_sha256(request)})


def rate_test_stop(request_id: str) -> None:
    """End a test, or trials, that nobody waits for any more: under way, or still to come."""
    program_call_off(_name(request_id))


def _name(request_id: str) -> str:
    return f"rates-{request_id}"


def _call(request: dict[str, Any], is_trial: bool) -> ProgramCall:
    program, data = program_folder(request), request.get("dataset_dir")
    if not (program / "train.py").is_file():
        raise ProgramProblem("The program is gone.", "Save it and ask again.", "program_missing")
    threads, budget_s = number(request, "threads", 1), float(request.get("budget_s") or BUDGET_S)
    devices = gpus(request)
    arguments = [*folders(request), "--threads", str(threads), "--budget", f"{budget_s:.1f}"]
    arguments += ["--device", "cuda:0" if devices else "cpu"]
    if request.get("batch_size") is not None:
        arguments += ["--batch", str(number(request, "batch_size", 1))]
    module, options = ("trials", TRIAL_OPTIONS) if is_trial else ("range_test", RANGE_OPTIONS)
    for name in options:
        if request.get(name) is not None:
            arguments += [f"--{name}", str(request[name])]
    return ProgramCall(
        name=_name(request["request_id"]),
        argv=(sys.executable, "-m", f"worker.runtime.rates.{module}", *arguments),
        workdir=program, readonly=(program, *((Path(data).resolve(),) if data else ())), timeout_s=budget_s + SPARE_S,
        minimum_level=int(request.get("minimum_sandbox_level", 0)), threads=threads, gpus=devices,
        weights=start_weights(request),
        memory_bytes=int(request.get("memory_bytes") or host_limits.memory_available_bytes() * MEMORY_SHARE),
    )  # fmt: skip


class _Progress:
    """Passes on how far it is, not too often."""

    def __init__(self, request_id: str, send: Send) -> None:
        self._request_id, self._send, self._told_s = request_id, send, time.monotonic()

    def line(self, text: str) -> None:
        """A line that the program printed."""
        if not text.startswith('{"mark": "progress"') or time.monotonic() - self._told_s < TELL_S:
            return
        try:
            share = float(json.loads(text)["share"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        self._told_s = time.monotonic()
        self._send({"request_id": self._request_id, "progress": share})
