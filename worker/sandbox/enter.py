"""First program inside a sandbox: gives up rights, sets limits, then becomes the wanted program.

Started as `python -I -S enter.py POLICY` with only the standard library, at every level. `POLICY` is JSON:
`rlimits` {name: value}, `uid` or null, `drop` (bool: leave all capabilities), `landlock` or null
{read: [...] or null (no rule on files), write: [...], rewrite: [...] (files there are written, none is made),
tcp_ports: [low, high] or null}, `seccomp` (BPF) or null,
`init` (bool: stay as parent, and end every descendant when the program or the caller ends), `argv`.
Exit codes 125 (a right could not be given up: nothing was run) and 127 (the program is missing).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 22, 36, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_LAST_CAPABILITY = 63
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH, _RULE_PORT = 1, 2
_READ = 0b1101  # execute, read file, read folder
_REWRITE = 0b10 | 1 << 14  # write and truncate a file
_FILE_ONLY = 0b111 | 1 << 14 | 1 << 15  # rights that make sense on a file: execute, write, read, truncate, ioctl
_CONNECT_TCP = 1 << 1
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Landlock ABI -> number of file system rights the kernel knows. Modes, owners and times are not among them: below
L2 a program can change those of files that belong to its user, though not their content."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _prctl(option: int, *values: int) -> None:
    arguments = [ctypes.c_ulong(value) for value in values]
    arguments += [ctypes.c_ulong(0)] * (4 - len(arguments))
    _check(_libc.prctl(option, *arguments), f"prctl {option}")


class _RulesetAttr(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathAttr(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # of what is packed; where it is not said, Python 3.14 warns into the program's log
    _fields_ = [("access", ctypes.c_uint64), ("fd", ctypes.c_int32)]


class _PortAttr(ctypes.Structure):
    _fields_ = [("access", ctypes.c_uint64), ("port", ctypes.c_uint64)]


class _BpfProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def landlock_abi() -> int:
    """Version of landlock in this kernel; 0 where it is missing or switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def _landlock(policy: dict[str, Any]) -> None:
    abi = landlock_abi()
    every = (1 << _FS_RIGHTS.get(abi, 16)) - 1
    ports = policy["tcp_ports"] if abi >= 4 else None
    files = policy["read"] is not None
    attr = _RulesetAttr(every if files else 0, _CONNECT_TCP if ports else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check(_libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), 0), "landlock")
    for path in policy["read"] or ():
        _allow_path(ruleset, path, _READ & every)
    for path in policy["rewrite"] or ():
        _allow_path(ruleset, path, _REWRITE & every)
    for path in policy["write"] or ():
        _allow_path(ruleset, path, every)
    for port in range(ports[0], ports[1] + 1) if ports else ():
        rule = _PortAttr(_CONNECT_TCP, port)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PORT, ctypes.byref(rule), 0), "landlock port")
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow_path(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib would cost its import here
            access &= _FILE_ONLY
        rule = _PathAttr(access, fd)
        _check(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH, ctypes.byref(rule), 0), f"landlock {path}")
    finally:
        os.close(fd)


def _drop_rights(policy: dict[str, Any]) -> None:
    if policy["drop"]:
        for capability in range(_LAST_CAPABILITY + 1):
            with contextlib.suppress(OSError):
                _prctl(_PR_CAPBSET_DROP, capability)
        with contextlib.suppress(OSError):
            _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    if policy["uid"] is not None:
        os.setgroups(policy["groups"])
        os.setresgid(policy["uid"], policy["uid"], policy["uid"])
        os.setresuid(policy["uid"], policy["uid"], policy["uid"])
    _clear_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _clear_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _seccomp(bpf: bytes) -> None:
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    program = _BpfProgram(len(bpf) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(program))


def _confine_and_exec(policy: dict[str, Any]) -> None:
    try:
        for name, value in policy["rlimits"].items():
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))
        os.umask(0o077)
        _drop_rights(policy)
        if policy["landlock"]:
            _landlock(policy["landlock"])
        if policy["seccomp"]:
            _seccomp(base64.b64decode(policy["seccomp"]))
    except (OSError, ValueError) as error:
        os.write(2, f"sandbox: {error}\n".encode())
        os._exit(125)
    try:
        os.execv(policy["argv"][0], policy["argv"])  # noqa: S606 - becoming the program is the point
    except OSError as error:
        os.write(2, f"sandbox: {policy['argv'][0]}: {error}\n".encode())
        os._exit(127)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
        return [int(pid) for pid in file.read().split()]


def _end_descendants() -> None:
    """Kill until none is left: children of the killed are handed to us, the subreaper."""
    while pids := _children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _end_on_signal(*_: object) -> None:
    _end_descendants()
    os._exit(143)


def _stay_as_init(policy: dict[str, Any]) -> None:
    """Where there is no process namespace: fork the program and outlive it just long enough to clean up."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end_on_signal)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _confine_and_exec(policy)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            _end_descendants()
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def main() -> None:
    """Read the policy and run."""
    policy = json.loads(sys.argv[1])
    if policy["init"]:
        _stay_as_init(policy)
    _confine_and_exec(policy)


if __name__ == "__main__":
    main()
