"""From an exception to what is reported to people: code, plain sentence, next step, short traceback."""

from __future__ import annotations

import atexit
import errno
import inspect
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from worker.events import EventKind, FailureCode
from worker.machine_faults import disk_words, gpu_fault, gpu_words, is_disk_fault, is_read_only_disk
from worker.memory_words import memory_words
from worker.plan import EXIT_PEER_LOST, EXIT_REPORTED
from worker.runtime.checkpoint import CorruptCheckpoint, Superseded
from worker.runtime.collective import PeerLost
from worker.runtime.data import DataError
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.known_causes import headline, known_cause, not_finite_hint
from worker.runtime.report import Reporter

if TYPE_CHECKING:
    from worker.runtime.run import Run

_NEEDS_MORE = "The run needs more memory than it has"
_MORE = "give it more memory (a higher resources.memory_gib, another device)"
_SEE_BOTH = "Correct that line; see the traceback and the log for details."
_SEE_TRACEBACK = "Correct that line; see the traceback for details."
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class ProgramFailure(Exception):
    """A cause that the runtime found itself. `step` is the training step, where one is at fault; `place` file and line
    of the program, where the traceback does not lead there."""

    def __init__(
        self,
        code: FailureCode,
        message: str,
        hint: str = "",
        step: int | None = None,
        *,
        place: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.step = step
        self.place = place


_OURS = (ProgramFailure, DataError, CorruptCheckpoint)
"""What the runtime raises of itself, in words for people."""


def describe(
    error: BaseException, program: Path, run_of: Callable[[], Run | None], *, has_log: bool = True
) -> dict[str, Any]:
    """Data of the ERROR event: code, message, hint, step, traceback or None, and file and line where known.

    `program` is the folder whose frames are shown; `run_of` gives the run, once there is one; what only tries a program
    has no log that people could look at.
    """
    told = _build_call(error) or error
    known = _cause(told, run_of())
    code, message, hint = known or (
        FailureCode.PROGRAM_ERROR, headline(told), _SEE_BOTH if has_log else _SEE_TRACEBACK
    )  # fmt: skip
    file, line = _place(told, program)
    if code is FailureCode.PROGRAM_ERROR and file == "data.py" and isinstance(error, ValueError | FileNotFoundError):
        code, message, hint = FailureCode.DATA_ERROR, str(error), "Compare the data with the spec; read it in again."
    if code is FailureCode.PROGRAM_ERROR and file and line:
        message = f"{file}, line {line}: {message}"
    return {
        "code": str(code),
        "message": message,
        "hint": hint,
        **({"limit": _is_limit(error)} if code is FailureCode.DISK_FULL else {}),
        "step": error.step if isinstance(error, ProgramFailure) else None,
        "traceback": short_traceback(error, program, is_explained=known is not None),
        "file": file,
        "line": line,
    }


def _cause(error: BaseException, run: Run | None) -> tuple[FailureCode, str, str] | None:
    """(code, message, hint); None where nothing is known but what the exception says."""
    if isinstance(error, ProgramFailure):
        if error.code is FailureCode.NAN_LOSS and run is not None:
            is_told = error.hint and run.autocast.name != "float16"  # which may overflow in any step
            return error.code, error.message, error.hint if is_told else _not_finite_hint(run)
        return error.code, error.message, error.hint
    if isinstance(error, DataError):
        return FailureCode.DATA_ERROR, error.message, error.hint
    if isinstance(error, CorruptCheckpoint):
        return FailureCode.CHECKPOINT_CORRUPT, f"Damaged checkpoint: {error}", "Resume from another checkpoint."
    if isinstance(error, SyntaxError):
        name = Path(error.filename or "?").name
        message = f"{name}, line {error.lineno}: {error.msg}"
        return FailureCode.PROGRAM_SYNTAX, message, f"Correct line {error.lineno} of {name}."
    if (found := _machine_cause(error)) is not None:
        return found
    if is_out_of_memory(error):
        return FailureCode.OUT_OF_MEMORY, *_memory_words(run)
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "model" and error.name == "build":
        message = "model.py has no function build(spec)."
        return FailureCode.MODEL_NO_BUILD, message, "Add `def build(spec)` that returns a torch.nn.Module."
    if isinstance(error, ModuleNotFoundError):
        hint = "A program may import torch, numpy, pyarrow, PIL, safetensors, sklearn, yaml and its own files."
        return FailureCode.PROGRAM_ERROR, f"There is no module {error.name!r} here.", hint
    known = known_cause(error)
    return None if known is None else (FailureCode.PROGRAM_ERROR, *known)


def _memory_words(run: Run | None) -> tuple[str, str]:
    if run is None:
        return memory_words(_NEEDS_MORE, _MORE, "", None)
    batch, grows = run.trial.fitting_batch(), run.growth.grows
    return memory_words(_NEEDS_MORE, _MORE, run.teller.phase, batch, grows=grows)


def _not_finite_hint(run: Run) -> str:
    try:
        is_saved = bool(run.checkpointer.store.saved())
    except OSError:  # a disk that is away for now has what it had
        is_saved = True
    return not_finite_hint(run.spec.training.get("clip_norm"), run.autocast.name, is_saved=is_saved)


def _machine_cause(error: BaseException) -> tuple[FailureCode, str, str] | None:
    """Where a disk or a GPU is to blame."""
    if isinstance(error, OSError) and error.errno in FULL_DISK:
        message = f"The disk of the run is full ({error.strerror})."
        hint = "Free space or keep fewer checkpoints, then resume: the checkpoints made so far are intact."
        return FailureCode.DISK_FULL, message, hint
    if isinstance(error, OSError) and (is_disk_fault(error) or is_read_only_disk(error, os.environ)):
        return FailureCode.DISK_FAULT, *disk_words(error, os.environ)
    if isinstance(error, RuntimeError) and (fault := gpu_fault(str(error))):
        return FailureCode.DEVICE_FAULT, *gpu_words(fault, os.environ)
    return None


def _is_limit(error: BaseException) -> bool:
    """Whether a full disk is one that is the run's own: a file of the largest size, or its temporary folders."""
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return True
    for folder in (tempfile.gettempdir(), "/dev/shm"):  # noqa: S108 - it is only looked at
        with suppress(OSError):
            if os.path.ismount(folder) and os.statvfs(folder).f_bavail == 0:
                return True
    return False


def _build_call(error: BaseException) -> ProgramFailure | None:
    """Where it says that `model.build` does not take the one argument that it is given: that, with file and line."""
    build: Any = getattr(sys.modules.get("model"), "build", None)
    called = vars(build).get("__init__") if isinstance(build, type) else build
    if not isinstance(error, TypeError) or not isinstance(called, FunctionType):
        return None
    if f"{called.__qualname__}()" not in str(error):
        return None
    signature = inspect.signature(build)
    try:
        signature.bind("spec")
    except TypeError as problem:
        place = (Path(called.__code__.co_filename).name, called.__code__.co_firstlineno)
        message = f"{build.__name__}{signature} cannot be called as build(spec) ({problem})."
        hint = "Write it as `def build(spec)`; it may ignore what it does not need."
        return ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint, place=place)
    return None


def short_traceback(error: BaseException, program: Path, *, is_explained: bool) -> str | None:
    """Traceback with the program's own frames only (paths shortened to names).

    If there are none, all frames; of what is explained without them only what the exception says, and nothing where
    message and hint say that already.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame.filename, program)]
    if is_explained and not own:
        return None if isinstance(error, _OURS) else "\n".join(_ending(error))
    lines = [f'  File "{Path(frame.filename).name}", line {frame.lineno}, in {frame.name}' for frame in own or frames]
    shown = []
    for line, frame in zip(lines, own or frames, strict=True):
        shown += [line, f"    {frame.line}"] if frame.line else [line]
    return "\n".join(["Traceback (most recent call last):", *shown, *_ending(error)])


def _ending(error: BaseException) -> list[str]:
    """The exception itself; of the platform's own, whose names say nothing to people, the message."""
    if isinstance(error, _OURS):
        return [str(error)]
    return [re.sub(r'File ".*/', 'File "', text.rstrip("\n")) for text in traceback.format_exception_only(error)]


def _place(error: BaseException, program: Path) -> tuple[str | None, int | None]:
    """The innermost line of the program's own that is to blame."""
    if isinstance(error, ProgramFailure) and error.place:
        return error.place
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).name, error.lineno
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename, program)]
    return (Path(own[-1].filename).name, own[-1].lineno) if own else (None, None)


def _is_own(filename: str, program: Path) -> bool:
    if filename.startswith("<"):  # `<frozen runpy>` is no file of the folder that the run is in
        return False
    return Path(filename).resolve().parent == program.resolve()


def install_hook(reporter: Reporter, program: Path, run_of: Callable[[], Run | None]) -> None:
    """From now on an uncaught exception is written as an ERROR event and ends the process with EXIT_REPORTED.

    First what is under way ends, such as a checkpoint. Then the process ends without clean-up by others: a rank that
    lingers would hold up its siblings.
    """

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if (run := run_of()) is not None:
            run.checkpointer.leave()
        if isinstance(error, PeerLost | Superseded):
            told = str(error) if isinstance(error, Superseded) else f"another rank went away ({error})"
            print(f"rank {reporter.rank}: {told}", file=sys.stderr, flush=True)
            leave(EXIT_PEER_LOST)
        data = describe(error, program, run_of)
        reporter.emit(EventKind.ERROR, **data)
        shown = f"{data['traceback']}\n" if data["traceback"] else ""
        print(f"{shown}\n{data['message']}\n{data['hint']}", file=sys.stderr, flush=True)
        reporter.close()
        leave(EXIT_REPORTED)

    sys.excepthook = report
    atexit.register(_report_early_end, reporter, program)


def leave(code: int) -> NoReturn:
    """End this process now, with what it printed but without the interpreter's clean-up.

    That would end threads of Gloo and Horovod in an order of its own: "terminate called without an active exception".
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _report_early_end(reporter: Reporter, program: Path) -> None:
    """A program that leaves by `sys.exit` before the run has ended did not succeed, whatever its exit code says."""
    if not reporter.closed:
        early = ProgramFailure(
            FailureCode.PROGRAM_ERROR,
            "The program ended before run.finish(dataset): there are no results.",
            "Look for sys.exit() in model.py, data.py and train.py, and for a train.py that ends too early.",
        )
        sys.excepthook(ProgramFailure, early, None)
