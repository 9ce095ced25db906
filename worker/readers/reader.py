"""One waiting reader: started before its program is known, used once."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from worker.programs import ProgramCall, module_argv, python_surroundings, sandbox_limits
from worker.readers.priority import as_usual, leftovers_only
from worker.readers.slot import Slot, slot_make
from worker.sandbox import Completed, SandboxProcess, SandboxSpec, host, package_folder, start, to_its_end

MODULE = "worker.runtime.inspection.waiting"
LOOK_S = 0.5


@dataclass(frozen=True)
class Reading:
    """What a reader is asked: to read this program on these data."""

    program: Path
    data: Path
    options: tuple[str, ...] = ()
    """More arguments of `worker.runtime.inspection.trace`."""


@dataclass
class Reader:
    """A sandbox that loads what a reading takes, then waits for a line: the arguments of its one reading."""

    process: SandboxProcess
    slot: Slot
    call: ProgramCall
    """What it was started as; another must ask for the same."""
    line: socket.socket = field(repr=False)
    started_s: float = field(default_factory=time.monotonic)

    def is_alive(self) -> bool:
        """Whether it still can read a program."""
        return self.process.popen.poll() is None

    def comes_ready(self, limit_s: float, given_up: Callable[[], bool]) -> bool:
        """Wait until it has loaded everything; False where it ended, took longer, or is given up."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s and not given_up():
            self.line.settimeout(LOOK_S)
            try:
                return bool(self.line.recv(1))
            except TimeoutError:
                continue
            except OSError:
                return False
        return False

    def fits(self, call: ProgramCall) -> bool:
        """Whether it is shut in as this call asks, and as strongly as one that were started now."""
        asked = replace(
            call, name=self.call.name, argv=self.call.argv, workdir=self.call.workdir, readonly=self.call.readonly,
            timeout_s=self.call.timeout_s, large_hint=self.call.large_hint, slow_hint=self.call.slow_hint,
            minimum_level=self.call.minimum_level,
        )  # fmt: skip
        return asked == self.call and self.process.level >= max(call.minimum_level, host().level)

    def ask(self, reading: Reading) -> None:
        """Let it read. Raises `Unfit`, and then it has seen nothing; `OSError` where it has gone."""
        self.slot.fill(reading.program, reading.data, readable=self.process.uid is not None)
        as_usual(self.process)
        arguments = ["--program", str(self.slot.program), "--data", str(self.slot.data), *reading.options]
        self.line.sendall(json.dumps(arguments).encode() + b"\n")
        self.line.close()

    def to_its_end(self, timeout_s: float, called_off: Callable[[], bool]) -> Completed:
        """How it ended."""
        try:
            return to_its_end(self.process, timeout_s, None, called_off)
        finally:
            self.slot.remove()

    def last_words(self) -> str:
        """What one that ended said last."""
        errors = self.process.popen.stderr
        if self.is_alive() or errors is None:
            return "it did not become ready"
        lines = os.read(errors.fileno(), 1 << 16).decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), f"exit code {self.process.popen.returncode}")

    def close(self) -> None:
        """End it unused."""
        self.line.close()
        self.process.close()
        for pipe in (self.process.popen.stdout, self.process.popen.stderr):
            if pipe:
                pipe.close()
        self.slot.remove()


def reader_start() -> Reader:
    """Start one; the thread that does must live as long as it. Raises `SandboxError`, `OSError`."""
    slot = slot_make()
    ours, theirs = socket.socketpair()
    try:
        call = ProgramCall(
            name=f"reader-{secrets.token_hex(6)}", argv=module_argv(MODULE, str(theirs.fileno())), workdir=slot.program,
            readonly=(slot.folder,), timeout_s=0.0,
        )  # fmt: skip
        spec = SandboxSpec(
            name=call.name, argv=call.argv, workdir=call.workdir, readonly=(slot.folder, package_folder("worker")),
            environment=python_surroundings(call), limits=sandbox_limits(call), pass_fds=(theirs.fileno(),),
        )  # fmt: skip
        process = start(spec, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except BaseException:
        ours.close()
        slot.remove()
        raise
    finally:
        theirs.close()
    leftovers_only(process)
    return Reader(process, slot, call, ours)
