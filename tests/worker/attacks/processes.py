# Plain os calls are what an attacker writes.
# ruff: noqa: PTH123, PTH208, SIM115
"""Other processes, their environments and terminals."""

from __future__ import annotations

import contextlib
import os

from known import LIBC, TARGET, attack


@attack
def environment_of_others():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if TARGET["variable"].encode() in open(f"/proc/{pid}/environ", "rb").read():
                return f"in process {pid}"
    return None


@attack
def own_environment():
    return os.environ.get(TARGET["variable"])


@attack
def see_host_processes():
    names = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            names.append(open(f"/proc/{pid}/comm").read().strip())
    strange = set(names) - {"bwrap", "python", "python3", "python3.11", "python3.12", "python3.13", "sh"}
    return str(strange) if strange or len(names) > 8 else None


@attack
def kill_host_processes():
    parent = os.getppid()
    for pid in (TARGET["caller_pid"],):
        if pid != parent:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, 0)
                return f"could signal {pid}"
    return None


@attack
def ptrace():
    return "traced" if LIBC.ptrace(0, 0, 0, 0) == 0 else None


@attack
def push_keys_into_the_terminal():
    import fcntl

    fcntl.ioctl(0, 0x5412, b"x")
    return "pushed"
