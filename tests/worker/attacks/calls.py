"""System calls that no training needs."""

from __future__ import annotations

import ctypes
import os

from known import ARM, ATTACKS, LIBC, attack

NUMBERS = {
    "add_key": 217 if ARM else 248,
    "keyctl": 219 if ARM else 250,
    "bpf": 280 if ARM else 321,
    "perf_event_open": 241 if ARM else 298,
    "userfaultfd": 282 if ARM else 323,
    "process_vm_readv": 270 if ARM else 310,
    "open_by_handle_at": 265 if ARM else 304,
    "setns": 268 if ARM else 308,
    "io_uring_setup": 425,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "clone3": 435,
    "fsopen": 430,
    "open_tree": 428,
}


def call(name: str, *arguments) -> str | None:
    """Make a raw system call; a text if the kernel did it or looked at the arguments."""
    result = LIBC.syscall(NUMBERS[name], *arguments)
    number = ctypes.get_errno()
    if result >= 0:
        return f"returned {result}"
    return None if number in (1, 38, 13) else f"reached the kernel: {os.strerror(number)}"


for _name in NUMBERS:
    if _name != "clone3":
        ATTACKS[f"call_{_name}"] = lambda name=_name: call(name, 0, 0, 0, 0, 0)


@attack
def call_clone3():
    return call("clone3", 0, 0)
