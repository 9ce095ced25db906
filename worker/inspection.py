"""Looks at programs before they are run, in the sandbox: what a step does, what real steps cost, what a link costs.

`inspect` answers `node.inspect`. Request: `request_id`, `job_dir` (or `program_dir`, the folder with model.py itself),
`dataset_dir`, `minimum_sandbox_level`, optional `batch_size`, `memory_bytes`. Answer:
`{request_id, ok, workload, problem, parameters, trace_s, program_sha256}`.

`measure` answers `node.measure`, one answer per point as soon as it is there, so that a sweep loses nothing. Request:
as above, `dataset_dir` may be missing (rows are then made up from the spec's shape), and optional `batch_size` (over
all ranks), `steps`, `visits`, `device` (`cpu`, `cuda:N`, `cuda:N,M`), `threads`, `ranks`, `memory_bytes`, `quiet`
(wait for a host that works for nobody else), `budget_s` of the whole request, and `points`: a list of requests that
override these fields, each with a `request_id` of its own. With `link` (a number of ranks) instead of a program, the
sums over so many ranks of this node are timed.
Answer: `{request_id, ok, problem, program_sha256}` and what `worker.runtime.inspection.measure` or
`worker.runtime.inspection.link` tells.

A problem is `{code, message, hint}`; `cannot_trace` and `time_limit` say to measure on a device instead of tracing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from worker import host_limits
from worker.plan import RunPaths
from worker.power import EnergyMeter, cores_w
from worker.programs import (
    MEMORY_BYTES,
    ProgramCall,
    ProgramProblem,
    Ready,
    last_words,
    module_argv,
    program_call_off,
    program_run,
    with_limit,
)
from worker.quiet import Surveys
from worker.readers.pool import readers
from worker.readers.reader import Reading
from worker.sandbox import Completed

INSPECT_S = 60.0
MEASURE_S = 200.0
MEASURE_SPARE_S = 60.0
"""Of a measurement's time: to start, read rows, wait for a quiet host, trace, evaluate."""
MEMORY_SHARE = 0.8
"""Of what is free on the host, for measuring: a program is not to be refused for what a real run would have."""
INSPECTED = ("ok", "workload", "problem", "parameters", "trace_s")
_PROBE_HINT = "Measure a few real steps on a device instead; checking the program tells whether it is at fault."
_LARGE_HINT = (
    "Its model with its parameters and the rows that data.py loads take that much: choose a smaller model, or measure "
    "a few real steps on a device instead, which may take most of a node's free memory."
)

Send = Callable[[dict[str, Any]], None]

_surveys = Surveys()
"""Of this process; a measurement sees only some seconds of its host."""


def inspect(request: dict[str, Any]) -> dict[str, Any]:
    """What one training step of the program does. Never raises for a fault of the request or the program."""
    answer: dict[str, Any] = {"ok": False, "workload": None, "problem": None, "parameters": None}
    try:
        batch = _option("--batch", request.get("batch_size"))
        arguments = [*folders(request), *batch]
        call = _program_call(request, "inspect", module_argv("worker.runtime.inspection.trace", *arguments))
        call = replace(call, large_hint=_LARGE_HINT)
        body = last_answer(program_run(call, ready=_ready(request, batch)))
        answer |= {key: body.get(key) for key in INSPECTED} | {"problem": with_limit(body.get("problem"), call)}
    except ProgramProblem as problem:
        answer["problem"] = {**problem.to_dict(), "hint": _inspect_hint(problem)}
    return {**answer, "request_id": request["request_id"], "program_sha256": program_sha256(request)}


def _ready(request: dict[str, Any], options: list[str]) -> Ready | None:
    """Has it read by a process that has loaded all it takes, if one waits."""
    if not request.get("dataset_dir"):
        return None
    reading = Reading(program_folder(request), Path(request["dataset_dir"]).resolve(), tuple(options))
    return lambda call, called_off: readers().read(call, reading, called_off)


def _inspect_hint(problem: ProgramProblem) -> str:
    return _PROBE_HINT if problem.code in ("time_limit", "program_error") else problem.hint


def measure(request: dict[str, Any], send: Send) -> None:
    """Measure the points of the request one by one and send each answer when it is there."""
    began_s = time.monotonic()
    budget_s = float(request.get("budget_s") or MEASURE_S)
    points = request.get("points") or [{}]
    for number, point in enumerate(points):
        one = {key: value for key, value in request.items() if key != "points"} | dict(point)
        left_s = budget_s - (time.monotonic() - began_s)
        if number > 0 and left_s <= MEASURE_SPARE_S / 2:
            problem = ProgramProblem("The time for measuring has run out.", "Ask for this point again.", "time_limit")
            send({"request_id": one["request_id"], "ok": False, "problem": problem.to_dict()})
            continue
        with readers().held():
            send(measure_one({**one, "budget_s": max(1.0, left_s)}))


def measure_stop(request_id: str) -> None:
    """End the steps of a request that nobody waits for any more: under way, or still to come."""
    program_call_off(_name("measure", request_id))


def measure_one(request: dict[str, Any]) -> dict[str, Any]:
    """What some real steps cost, or a link. Never raises for a fault of the request or the program."""
    answer: dict[str, Any] = {"ok": False, "problem": None}
    try:
        watts = _Watcher(gpus(request), number(request, "ranks", 1) * number(request, "threads", 1))
        call = _link_call(request) if request.get("link") else _measure_call(request)
        answer |= last_answer(program_run(call, watts.line))
        if answer.get("power_w") is None and watts.power_w is not None:
            answer["power_w"] = watts.power_w
    except ProgramProblem as problem:
        answer["problem"] = problem.to_dict()
    told = {} if request.get("link") else {"program_sha256": program_sha256(request)}
    return {**answer, "request_id": request["request_id"], **told}


def _measure_call(request: dict[str, Any]) -> ProgramCall:
    ranks, threads = number(request, "ranks", 1), number(request, "threads", 1)
    budget_s = float(request.get("budget_s") or MEASURE_S)
    indices = gpus(request)
    arguments = [
        *folders(request),
        *_option("--batch", request.get("batch_size")),
        *("--steps", str(number(request, "steps", 5)), "--repeats", str(number(request, "visits", 1))),
        *("--budget", f"{max(1.0, budget_s - MEASURE_SPARE_S):.1f}", "--device", "cuda:0" if indices else "cpu"),
        *("--threads", str(threads), "--ranks", str(ranks)),
        *(("--quickest", str(_surveys.quickest_s())) if request.get("quiet") else ()),
    ]
    call = _program_call(request, "measure", (sys.executable, "-m", "worker.runtime.inspection.measure", *arguments))
    return replace(
        call, timeout_s=max(budget_s, MEASURE_SPARE_S), threads=threads, gpus=indices, loopback=ranks > 1,
        memory_bytes=int(request.get("memory_bytes") or host_limits.memory_available_bytes() * MEMORY_SHARE),
    )  # fmt: skip


def _name(verb: str, request_id: Any) -> str:
    return f"{verb}-{request_id}"


def _program_call(request: dict[str, Any], verb: str, argv: tuple[str, ...]) -> ProgramCall:
    """In the sandbox, with the program and its data and nothing else."""
    program, data = program_folder(request), request.get("dataset_dir")
    if not (program / "model.py").is_file():
        raise ProgramProblem("The program is gone.", "Save it and ask again.", "program_missing")
    return ProgramCall(
        name=_name(verb, request["request_id"]), argv=argv, workdir=program,
        readonly=(program, *((Path(data).resolve(),) if data else ())), timeout_s=INSPECT_S,
        memory_bytes=int(request.get("memory_bytes") or MEMORY_BYTES),
        minimum_level=int(request.get("minimum_sandbox_level", 0)),
    )  # fmt: skip


def _link_call(request: dict[str, Any]) -> ProgramCall:
    ranks, indices = number(request, "link", 2), gpus(request)
    arguments = ["--ranks", str(ranks), "--device", "cuda" if indices else "cpu"]
    return ProgramCall(
        name=f"link-{request['request_id']}", argv=(sys.executable, "-m", "worker.runtime.inspection.link", *arguments),
        workdir=Path("/"), timeout_s=MEASURE_S, threads=1, gpus=indices, loopback=True,
        minimum_level=int(request.get("minimum_sandbox_level", 0)),
    )  # fmt: skip


def number(request: dict[str, Any], name: str, default: int) -> int:
    """A number from 1 on. Raises `ProgramProblem`."""
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = "Ask again with a number from 1 on."
        raise ProgramProblem(f"{name} is {value!r}: it must be a number from 1 on.", hint, "bad_request")
    return value


def _option(name: str, value: Any) -> list[str]:
    return [] if value is None else [name, str(number({name: value}, name, 1))]


def gpus(request: dict[str, Any]) -> tuple[int, ...]:
    """Indices of the GPUs that the request names, one per rank; where it names one only, as many from there on."""
    kind, _, told = str(request.get("device") or "cpu").partition(":")
    if kind != "cuda":
        return ()
    named = tuple(int(index) for index in told.split(",") if index.isdecimal()) or (0,)
    ranks = request.get("link") or request.get("ranks")
    count = ranks if isinstance(ranks, int) else 1
    return named[:count] if len(named) > 1 else tuple(range(named[0], named[0] + count))


def program_folder(request: dict[str, Any]) -> Path:
    """Where the program of a request lies."""
    if request.get("program_dir"):
        return Path(request["program_dir"]).resolve()
    return RunPaths(Path(request["job_dir"]).resolve()).program


def folders(request: dict[str, Any]) -> list[str]:
    """Arguments that name program and data."""
    data = request.get("dataset_dir")
    return ["--program", str(program_folder(request)), *(("--data", str(Path(data).resolve())) if data else ())]


def program_sha256(request: dict[str, Any]) -> str:
    """Of the files that decide what a step does; empty if they cannot be read."""
    digest = hashlib.sha256()
    try:
        files = sorted(path for path in program_folder(request).iterdir() if path.suffix in (".py", ".yaml"))
        for file in files:
            body = file.read_bytes()
            digest.update(f"{file.name}\0{len(body)}\0".encode() + body)
    except (OSError, KeyError):
        return ""
    return digest.hexdigest()


class _Watcher:
    """Reads the host's energy counters where a measurement marks its steps: its sandbox cannot.

    Of the processor packages it takes what `cores` cores draw of them (`worker.power`).
    """

    def __init__(self, gpus: tuple[int, ...], cores: int = 1) -> None:
        self._meter = EnergyMeter(gpus)
        self._gpus, self._cores = gpus, cores
        self._base_w = None if gpus else self._meter.base_w()
        self.power_w: float | None = None

    def line(self, text: str) -> None:
        """A line that the program printed."""
        if text == '{"mark": "begin"}':
            self._meter.start()
        elif text == '{"mark": "end"}':
            busy_w = self._meter.stop()
            if self._gpus or busy_w is None:
                self.power_w = busy_w
            elif self._base_w is not None:
                self.power_w = cores_w(self._base_w, busy_w, self._cores, os.cpu_count() or 1)


def last_answer(done: Completed) -> dict[str, Any]:
    """The last line that is an answer. Raises `ProgramProblem` if there is none."""
    for line in reversed(done.stdout.splitlines()):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and isinstance(body.get("ok"), bool):
            return body
    raise ProgramProblem(last_words(done), "See the message; check the program.")
