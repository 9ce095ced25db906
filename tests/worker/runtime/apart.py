"""Processes of their own that have torch already: a server loads it once, and each of them is a fork of that server.

A program is read and measured as nodes do it: one process each, then gone. Several traces in one process damage its
memory now and then ("corrupted double-linked list"); torch's fake tensors do. And a rank is spared the two seconds of
the processor that each import of torch takes; all else is as if Python had been called with the same arguments. Of
several ranks that do the same, one is taken down to the last object as Python does it at its end.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import multiprocessing
import os
import runpy
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn

LIMIT_S = 240.0


def _server() -> ForkServerContext:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read once, when torch is loaded
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["worker.runtime.inspection.measure", "worker.runtime.inspection.trace"])
    return context


def apart(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function returns or raises there."""
    with ProcessPoolExecutor(1, mp_context=_server(), initializer=gc.freeze) as pool:
        return pool.submit(function, *arguments, **named).result(LIMIT_S)


class Script:
    """`python train.py ...` or `python -m module ...` in a folder, with this environment and no other.

    What it prints is added to the file `output`, and what it complains of to `errors`, which may be the same.
    `brief`: at its end its objects are left to the system, and 0.2 s of the processor are spared.
    """

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str],
        environment: dict[str, str],
        output: Path,
        errors: Path,
        *,
        brief: bool = False,
    ) -> None:
        streams = (str(output.absolute()), str(errors.absolute()))
        given = (str(folder), list(arguments), environment, streams, brief)
        self._process = _server().Process(target=_run, args=given, daemon=True)
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._process.exitcode

    def wait(self, limit_s: float | None = None) -> int:
        """How it ends. Raises `TimeoutError`."""
        self._process.join(limit_s)
        if self._process.exitcode is None:
            raise TimeoutError(f"it runs for more than {limit_s} s")
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


def _run(folder: str, arguments: list[str], environment: dict[str, str], streams: tuple[str, str], brief: bool) -> None:
    """As the interpreter does it from its start to its end."""
    gc.freeze()  # what the server has loaded stays: see `worker.loading`
    code: Any = 0
    for number, name in enumerate(streams, 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, folder)
    try:
        _called(arguments)
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the runtime has one of its own
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    if brief:
        _end(code or 0)
    ctypes.pythonapi.Py_Exit(code or 0)  # threads are waited for, what was registered for the end is called


def _end(code: int) -> NoReturn:
    """The same without taking down what there is; `multiprocessing` then ends the process at once."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.exit(code)


def _called(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        name, sys.argv = arguments[1], arguments[1:]
        sys.modules.pop(name, None)  # the server may have loaded it
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
