"""A child program that is kept alive: log file, own session, restart with back-off, a clean end."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.env import REPOSITORY
from worker import devices, registry
from worker.signals import signal_name

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
STEADY_AFTER_S = 60.0
"""A child that lived this long starts its back-off anew."""
LOG_ROTATE_BYTES = 20 * 2**20
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    # Linux only; elsewhere a killed stack leaves its children to the next start, which ends them.
    if hasattr(_libc, "prctl"):
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """What to run."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    pass_fds: tuple[int, ...] = ()
    grace_s: float = 8.0
    """Time between SIGTERM and SIGKILL."""


@dataclass
class Child:
    """One child program. Start it from the main thread: it dies with the thread that started it."""

    spec: ChildSpec
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    restart_at_s: float = 0.0
    backoff_s: float = BACKOFF_FIRST_S
    restarts: int = 0
    clock: Callable[[], float] = field(default=time.monotonic)

    def start(self) -> None:
        """Start the program in a session of its own, so that a terminal's Ctrl-C reaches only the stack."""
        log_rotate(self.spec.log)
        with self.spec.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.spec.command),
                cwd=REPOSITORY,
                env=dict(self.spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.spec.pass_fds,
                preexec_fn=_die_with_parent,
            )
        self.started_s = self.clock()
        self.restart_at_s = 0.0

    @property
    def alive(self) -> bool:
        """Whether the program runs."""
        return self.process is not None and self.process.poll() is None

    def keep(self) -> str:
        """Restart the program if it ended and its back-off is over; say in words what happened, else ''."""
        if self.process is None:
            return ""
        if self.alive:
            log_rotate(self.spec.log)
            return ""
        now = self.clock()
        if self.restart_at_s:
            return self._restart(now) if now >= self.restart_at_s else ""
        end_group(self.process.pid)
        if now - self.started_s > STEADY_AFTER_S:
            self.backoff_s = BACKOFF_FIRST_S
        return f"{self.spec.name} ended ({ending(self.process.returncode)}); {self._later(now)}"

    def _restart(self, now: float) -> str:
        try:
            self.start()
        except OSError as error:  # a full disk: no log can be opened
            return f"{self.spec.name} cannot be started: {error.strerror}; {self._later(now)}"
        self.restarts += 1
        return f"{self.spec.name} restarted"

    def _later(self, now: float) -> str:
        wait_s, self.backoff_s = self.backoff_s, min(self.backoff_s * 2, BACKOFF_MAX_S)
        self.restart_at_s = now + wait_s
        return f"starting it again in {wait_s:.1f} s"

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        if self.process is not None and self.alive:
            self.process.terminate()

    def end(self) -> None:
        """End the program and whatever is left of its session: SIGTERM, then SIGKILL after the grace time."""
        if self.process is None:
            return
        self.ask_to_end()
        try:
            self.process.wait(self.spec.grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end_group(self.process.pid)
            self.process.wait()
            self.process = None

    def log_tail(self, lines: int = 15) -> str:
        """The newest lines of the log."""
        try:
            text = self.spec.log.read_bytes()[-20_000:].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join("    " + line for line in text.strip().splitlines()[-lines:])

    def record(self) -> dict[str, float | int | str]:
        """Name and process, for the state file."""
        return {"name": self.spec.name, **process_record(self.process.pid if self.process else 0)}


def ending(code: int) -> str:
    """An exit status in words."""
    return signal_name(-code) if code < 0 else f"exit {code}"


def created_s(pid: int) -> float:
    """Start time of a process (Unix seconds), 0 where there is none."""
    try:
        return psutil.Process(pid).create_time() if pid > 0 else 0.0
    except psutil.Error:
        return 0.0


def process_record(pid: int) -> dict[str, float | int | str]:
    """By what the process is found again (`leftovers.process_find`), and since when it runs."""
    return {"pid": pid, "created_s": created_s(pid), "began": began(pid)}


def began(pid: int) -> str:
    """Tells a process from all that had its id before or get it later: by the clock it would be another one as soon as
    that is set. Empty where there is none, or where the system does not tell."""
    try:
        return f"{devices.boot_id()} {registry.process_created_s(pid)}"
    except (OSError, ValueError, IndexError):
        return ""


def end_group(group: int) -> None:
    """Kill every process left in a session that we started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def log_rotate(log: Path) -> None:
    """Put what a long log holds aside, one older file is kept; a program that appends to it goes on."""
    if log.exists() and log.stat().st_size > LOG_ROTATE_BYTES:
        older = log.with_suffix(".log.1")
        try:
            shutil.copyfile(log, older)
        except OSError:  # a full disk, of which this log may be the cause
            older.unlink(missing_ok=True)
        os.truncate(log, 0)
