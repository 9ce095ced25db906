"""Short runs of a job's program beside training: predict for an input, or try the program on a few rows."""

from __future__ import annotations

import json
import logging
import queue as queue_module
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from worker.devices import Gpu, gpus_at
from worker.events import FailureCode
from worker.plan import EXIT_REPORTED, START_WEIGHTS, RunPaths
from worker.sandbox import Completed, SandboxError, SandboxLimits, SandboxTooWeak, python_environment, run_sandboxed
from worker.signals import signal_name
from worker.words import duration_words, size_words

PREDICT_S = 280.0
CHECK_S = 180.0
MEMORY_BYTES = 4 << 30
FILE_BYTES = 2 << 30
THREADS = 2
_SMALLER_INPUT = "Send less at once, or download the program and run predict.py on a machine of your own."
_SLOW_CHECK = (
    "Look for what takes long while data.py loads the rows, model.py builds the model, or train.py makes its first "
    "steps."
)
_SMALLER_MODEL = (
    "Its model with its parameters and the rows that data.py loads take that much: choose a smaller model. A run may "
    "take more than a check: its own limit is resources.memory_gib."
)
_MESSAGE_CHARS = 500
_MAIN = """
import importlib, sys
from worker.loading import loading
with loading():
    module = importlib.import_module(sys.argv.pop(1))
module.main()
"""
_log = logging.getLogger(__name__)
_called_off: set[str] = set()
"""Names of runs that nobody waits for any more."""


Ready = Callable[["ProgramCall", Callable[[], bool]], Completed | None]
"""Given a call and whether it is called off, runs it; None where it did not begin."""


class ProgramQueue:
    """Threads beside the Celery worker's: a slow program must not keep a start or a cancel waiting."""

    def __init__(self, threads: int = 2) -> None:
        self._waiting: queue_module.SimpleQueue[Callable[[], None]] = queue_module.SimpleQueue()
        for number in range(threads):
            threading.Thread(target=self._run, name=f"program-{number}", daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Do it as soon as a thread is free."""
        self._waiting.put(work)

    def _run(self) -> None:
        while True:
            work = self._waiting.get()
            try:
                work()
            except Exception:
                _log.exception("a request for a program got no answer")


@lru_cache(maxsize=1)
def queue() -> ProgramQueue:
    """The queue of this process."""
    return ProgramQueue()


@lru_cache(maxsize=1)
def measuring_queue() -> ProgramQueue:
    """One at a time, so that measurements do not disturb each other; nothing else waits for them."""
    return ProgramQueue(threads=1)


def module_argv(module: str, *arguments: str) -> tuple[str, ...]:
    """Run `main` of a module of ours, which is loaded for good (`worker.loading`)."""
    return (sys.executable, "-c", _MAIN, module, *arguments)


class ProgramProblem(Exception):
    """The program did not do what was asked; in words for its owner."""

    def __init__(self, message: str, hint: str, code: str = "program_error") -> None:
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code

    def to_dict(self) -> dict[str, Any]:
        """As control expects it."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, kw_only=True)
class ProgramCall:
    """One program to be run beside training."""

    name: str
    """Unique on the host while it runs."""
    argv: tuple[str, ...]
    workdir: Path
    timeout_s: float
    readonly: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    minimum_level: int = 0
    memory_bytes: int = MEMORY_BYTES
    threads: int = THREADS
    gpus: tuple[int, ...] = ()
    """NVML's indices."""
    weights: Path | None = None
    """File with the weights that it starts from; its folder is bound read-only."""
    loopback: bool = False
    """It starts ranks that talk to each other."""
    slow_hint: str = "Have it do less at once."
    """What to do where it takes longer than `timeout_s`."""
    large_hint: str = "Choose a smaller model, smaller pictures or a smaller batch."
    """What to do where it takes more than `memory_bytes`."""


def predict(request: dict[str, Any]) -> dict[str, Any]:
    """Run predict.py. `{prediction_id}` or `{prediction_id, problem}`; the output lies in the prediction's folder."""
    answer: dict[str, Any] = {"prediction_id": request["prediction_id"]}
    try:
        _predict(request)
    except ProgramProblem as problem:
        answer["problem"] = problem.to_dict()
    return answer


def _predict(request: dict[str, Any]) -> None:
    paths = RunPaths(Path(request["job_dir"]).resolve())
    folder = paths.prediction(str(request["prediction_id"]))
    inputs = sorted(folder.glob("input.*"))
    if not inputs and not request.get("from_end"):
        raise ProgramProblem("The input of the prediction is missing.", "Send it again.")
    checkpoint = str(request.get("checkpoint") or "")
    weights = paths.checkpoints / checkpoint if checkpoint else paths.results / "model.safetensors"
    if not weights.exists():
        raise ProgramProblem(f"{weights.name} is gone.", "Choose another checkpoint.")
    argv = [sys.executable, str(paths.program / "predict.py")]
    argv += ["--input", str(inputs[0])] if inputs else []  # a forecast goes on from the data as the run has kept it
    argv += ["--output", str(folder / "output.json"), "--weights", str(weights)]
    if threshold := str(request.get("threshold") or ""):
        argv.append(f"--threshold={threshold}")  # in one word: a class may begin with a dash
    # the whole work folder: what lies in it may be links that the ranks made, which must lead nowhere
    readonly = (paths.program, paths.work)
    call = _call(request, f"predict-{folder.name}", argv, readonly, timeout_s=PREDICT_S)
    done = program_run(replace(call, writable=(folder,), slow_hint=_SMALLER_INPUT, large_hint=_SMALLER_INPUT))
    if done.returncode != 0:
        raise _prediction_problem(done)


def _prediction_problem(done: Completed) -> ProgramProblem:
    """A reported fault of the input is two lines, message and hint; anything else is a fault of the program."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == EXIT_REPORTED and len(lines) >= 2:
        return ProgramProblem(lines[-2][:_MESSAGE_CHARS], lines[-1][:_MESSAGE_CHARS], "bad_input")
    return ProgramProblem(last_words(done), "Compare the input with the columns or pictures of the dataset.")


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Try the program: `{check_id, ok, problem, parameters, output_shape, notes}`."""
    answer: dict[str, Any] = {
        "check_id": request["check_id"], "ok": False, "problem": None, "parameters": None, "output_shape": None,
        "notes": [],
    }  # fmt: skip
    try:
        answer |= _check(request)
    except ProgramProblem as problem:
        answer["problem"] = problem.to_dict()
    answer["check_id"] = request["check_id"]
    return answer


def _check(request: dict[str, Any]) -> dict[str, Any]:
    paths = RunPaths(Path(request["job_dir"]).resolve())
    folders = ("--program", str(paths.program), "--data", str(Path(request["dataset_dir"]).resolve()))
    argv = list(module_argv("worker.runtime.inspection.check", *folders))
    call = _call(request, f"check-{request['check_id']}", argv, (paths.program,), timeout_s=CHECK_S)
    call = replace(call, slow_hint=_SLOW_CHECK, large_hint=_SMALLER_MODEL, weights=start_weights(request))
    done = program_run(call)
    for line in reversed(done.stdout.splitlines()):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and "ok" in body:
            told = {key: body.get(key) for key in ("ok", "problem", "parameters", "output_shape", "notes")}
            return told | {"problem": with_limit(told["problem"], call)}
    raise ProgramProblem(last_words(done), "See the message; correct the program and check again.")


def start_weights(request: dict[str, Any]) -> Path | None:
    """The file with the weights that a job starts from; None where it starts from fresh ones."""
    folder = request.get("weights_dir")
    return Path(folder).resolve() / START_WEIGHTS if folder else None


def _call(
    request: dict[str, Any], name: str, argv: list[str], readonly: tuple[Path, ...], *, timeout_s: float
) -> ProgramCall:
    """Beside training, with the dataset."""
    return ProgramCall(
        name=name, argv=tuple(argv), workdir=RunPaths(Path(request["job_dir"]).resolve()).program,
        readonly=(*readonly, Path(request["dataset_dir"])), timeout_s=timeout_s,
        minimum_level=int(request.get("minimum_sandbox_level", 0)),
    )  # fmt: skip


def program_call_off(name: str) -> None:
    """End the run of this name, or the next one that is to begin: nobody waits for it any more."""
    _called_off.add(name)


def program_run(
    call: ProgramCall, on_line: Callable[[str], None] | None = None, ready: Ready | None = None
) -> Completed:
    """Run in the sandbox. Raises `ProgramProblem` where it could not be run, took too long or too much memory, or was
    called off.

    `ready`: runs it in one that stands ready, if any does.
    """
    try:
        done = None
        if ready is not None and call.name not in _called_off:
            done = ready(call, lambda: call.name in _called_off)
        if done is None and call.name not in _called_off:
            done = _sandboxed(call, on_line)
        if done is None or call.name in _called_off:
            raise ProgramProblem("Nobody is waiting for it any more.", "Ask again.", "called_off")
    finally:
        _called_off.discard(call.name)
    if done.timed_out:
        message = f"The program took longer than the {duration_words(call.timeout_s)} that it may take here."
        raise ProgramProblem(message, call.slow_hint, "time_limit")
    if done.out_of_memory:
        raise _memory_problem(call)
    return done


def with_limit(problem: Any, call: ProgramCall) -> Any:
    """What a program told of itself; where it noticed that memory ran out, with how much it may take and what to do."""
    if isinstance(problem, dict) and problem.get("code") == FailureCode.OUT_OF_MEMORY:
        return problem | _memory_problem(call).to_dict()
    return problem


def _memory_problem(call: ProgramCall) -> ProgramProblem:
    message = f"The program needs more than the {size_words(call.memory_bytes)} of memory that it may take here."
    return ProgramProblem(message, call.large_hint, FailureCode.OUT_OF_MEMORY)


def _sandboxed(call: ProgramCall, on_line: Callable[[str], None] | None) -> Completed:
    try:
        gpus = gpus_at(call.gpus)
        readonly = (*call.readonly, call.weights.parent) if call.weights else call.readonly
        return run_sandboxed(
            list(call.argv), name=call.name, workdir=call.workdir, packages=("worker",), writable=call.writable,
            readonly=readonly, limits=sandbox_limits(call), environment=python_surroundings(call, gpus),
            minimum_level=call.minimum_level, timeout_s=call.timeout_s, gpus=tuple(gpu.minor for gpu in gpus),
            loopback=call.loopback, on_line=on_line, called_off=lambda: call.name in _called_off,
        )  # fmt: skip
    except SandboxTooWeak as error:
        raise ProgramProblem(str(error), "Use a node with a stronger sandbox.", "sandbox_too_weak") from error
    except (SandboxError, OSError) as error:
        raise ProgramProblem(f"The node could not run the program: {error}", "Try again.", "start_failed") from error


def sandbox_limits(call: ProgramCall) -> SandboxLimits:
    """What it may take."""
    return SandboxLimits(memory_bytes=call.memory_bytes, file_bytes=FILE_BYTES)


def python_surroundings(call: ProgramCall, gpus: Sequence[Gpu] = ()) -> dict[str, str]:
    """Its environment; `gpus`: those of the call."""
    threads = str(call.threads)
    return python_environment(
        OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, DLH_THREADS=threads,
        CUDA_VISIBLE_DEVICES=",".join(gpu.uuid for gpu in gpus),
        **({"DLH_WEIGHTS": str(call.weights)} if call.weights else {}),
    )  # fmt: skip


def last_words(done: Completed) -> str:
    """What a program said last, for a person."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    if lines:
        return lines[-1][:_MESSAGE_CHARS]
    code = done.returncode
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    return f"The program {how} and printed nothing."
