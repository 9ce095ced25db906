"""Processes that work on what is left of the processor, and how they come back from it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from worker.sandbox import SandboxProcess

_CAP_SYS_NICE = 23
_STATUS = Path("/proc/self/status")


def leftovers_only(process: SandboxProcess) -> None:
    """Have all of the sandbox run only while nothing else wants to; not where that could not be taken back."""
    if may_take_back(own_uid=process.uid is not None):
        with suppress(OSError):
            _schedule(process, os.SCHED_IDLE)


def as_usual(process: SandboxProcess) -> None:
    """As everything else. Raises `OSError` where a part of it cannot be."""
    _schedule(process, os.SCHED_OTHER)


def may_take_back(*, own_uid: bool) -> bool:
    """Whether this process may: the kernel lets nobody else out of it, not even who went in by themselves."""
    for line in _STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff" and int(value, 16) >> _CAP_SYS_NICE & 1:
            return True
    return not own_uid and resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20


def _schedule(process: SandboxProcess, policy: int) -> None:
    """Also those that are begun meanwhile: they have what who began them had."""
    is_changed = True
    while is_changed:
        is_changed = False
        for thread in _threads((process.popen.pid, *(inside.pid for inside in process.processes()))):
            with suppress(ProcessLookupError):
                if os.sched_getscheduler(thread) != policy:
                    os.sched_setscheduler(thread, policy, os.sched_param(0))
                    is_changed = True


def _threads(pids: Iterable[int]) -> list[int]:
    found = []
    for pid in pids:
        with suppress(psutil.Error):
            found += [thread.id for thread in psutil.Process(pid).threads()]
    return found
