"""A network namespace without a name: it ends with the processes in it, also when everything around it was killed."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from worker.sandbox.model import SandboxError

_CLONE_NEWNET = 0x40000000
_STEP_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Space:
    """A network namespace, which lives at least as long as this."""

    descriptor: int

    @property
    def path(self) -> str:
        """By which this process, and what it starts as root, enters it."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def entered(self, argv: Sequence[str]) -> list[str]:
        """The command line of a program in it."""
        return [tool("nsenter"), f"--net={self.path}", *argv]

    def tcp_socket(self) -> socket.socket:
        """A socket in it, which stays there and keeps it. Raises `SandboxError`."""
        made: list[socket.socket | int] = []

        def enter() -> None:
            if _libc.setns(self.descriptor, _CLONE_NEWNET):
                made.append(ctypes.get_errno())
            else:
                made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))

        # a thread that has entered stays there: this one does nothing else
        thread = threading.Thread(target=enter, name="namespace")
        thread.start()
        thread.join()
        if isinstance(made[0], int):
            raise SandboxError(f"the network of ranks cannot be entered: {os.strerror(made[0])}")
        return made[0]

    def close(self) -> None:
        """Keep it no longer: it ends with what runs in it."""
        with suppress(OSError):
            os.close(self.descriptor)


def new() -> Space:
    """A new one, which this process does not enter: a thread of it does, and ends. Raises `SandboxError`."""
    made: list[int | OSError] = []

    def enter() -> None:
        if _libc.unshare(_CLONE_NEWNET):
            made.append(OSError(ctypes.get_errno(), "unshare"))
            return
        try:
            made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=enter, name="namespace")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise SandboxError(f"no network namespace can be made here: {made[0]}")
    return Space(made[0])


def tool(name: str, packages: str = "iproute2 util-linux") -> str:
    """Path of a program. Raises `SandboxError` with the Debian packages that have it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise SandboxError(f"`{name}` is not installed (Debian: apt install {packages})")
    return found


def run(argv: list[str], text: str = "") -> str:
    """What a program prints that reads `text`. Raises `SandboxError` with what it said."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=_STEP_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"a network for the ranks cannot be made: {error}") from error
    if done.returncode:
        raise SandboxError(f"a network for the ranks cannot be made: {done.stderr.strip()[-300:]}")
    return done.stdout
