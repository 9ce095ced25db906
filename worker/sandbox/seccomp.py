"""The system calls a sandboxed program may not make, compiled to BPF by libseccomp.

`pyseccomp` (PyPI) speaks to the `libseccomp.so.2` that Debian and Ubuntu always carry (apt needs it);
Debian's own python3-seccomp serves the system Python only. A deny list, because torch, CUDA and Gloo
use a wide and changing set of harmless calls; it closes every call that made, or could make, one of
`tests/worker/attacks` succeed under bubblewrap alone.
"""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from typing import Any

DENIED_GROUPS = {
    "other processes": "ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd",
    "namespaces and mounts": (
        "unshare setns mount umount umount2 pivot_root chroot mount_setattr move_mount open_tree fsopen fsmount "
        "fsconfig fspick open_by_handle_at name_to_handle_at quotactl quotactl_fd swapon swapoff"
    ),
    "kernel surfaces with a history of holes": (
        "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key request_key keyctl "
        "fanotify_init lookup_dcookie nfsservctl uselib ustat sysfs _sysctl vmsplice memfd_secret modify_ldt "
        "personality"
    ),
    "the machine itself": (
        "init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load kexec_file_load "
        "reboot acct syslog iopl ioperm settimeofday clock_settime clock_adjtime adjtimex stime vhangup "
        "sethostname setdomainname"
    ),
}
DENIED = tuple(name for group in DENIED_GROUPS.values() for name in group.split())

DENIED_NUMBERS = (457, 458, 467)
"""statmount, listmount, open_tree_attr: newer than the names libseccomp 2.5 knows; same on every architecture."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_DGRAM, _SOCK_TYPE_MASK = 2, 0xF
_IPPROTO_TCP = 6
_MSG_FASTOPEN = 0x20000000
_NAMESPACE_FLAGS = (0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@lru_cache(maxsize=8)
def program(*, inet: str = "all", unix: bool = True) -> bytes:
    """The BPF program. `inet`: `all`, `tcp` (TCP alone) or `none` (no internet sockets at all); `unix`: whether it may
    have sockets to other programs of this machine (pairs of its own it may).

    Raises `OSError` or `RuntimeError` where libseccomp is missing or too old.
    """
    import pyseccomp as lib  # loads libseccomp at import, which may fail

    rules = lib.SyscallFilter(lib.ALLOW)
    refuse = lib.ERRNO(errno.EPERM)
    for name in DENIED:
        _deny(rules, refuse, name)
    for number in DENIED_NUMBERS:
        _deny(rules, refuse, number)
    _deny(rules, lib.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory; libc falls back to clone
    for flag in _NAMESPACE_FLAGS:
        _deny(rules, refuse, "clone", lib.Arg(0, lib.MASKED_EQ, flag, flag))
    for command in (_TIOCSTI, _TIOCLINUX):
        _deny(rules, refuse, "ioctl", lib.Arg(1, lib.MASKED_EQ, 0xFFFFFFFF, command))
    _deny_sockets(lib, rules, inet, unix)
    return _export(rules)


def _deny_sockets(lib: Any, rules: Any, inet: str, unix: bool) -> None:
    refuse = lib.ERRNO(errno.EAFNOSUPPORT)
    allowed = {_AF_NETLINK} | ({_AF_UNIX} if unix else set()) | (set() if inet == "none" else {_AF_INET, _AF_INET6})
    for family in range(_AF_NETLINK + 1):
        if family not in allowed:
            _deny(rules, refuse, "socket", lib.Arg(0, lib.EQ, family))
    _deny(rules, refuse, "socket", lib.Arg(0, lib.GT, _AF_NETLINK))
    if inet == "tcp":
        for family in (_AF_INET, _AF_INET6):
            of_family = lib.Arg(0, lib.EQ, family)
            _deny(rules, refuse, "socket", of_family, lib.Arg(1, lib.MASKED_EQ, _SOCK_TYPE_MASK, _SOCK_DGRAM))
            # MPTCP speaks to any TCP server; landlock's rules for ports know nothing of it, nor of SCTP.
            for protocol in range(1, _IPPROTO_TCP):
                _deny(rules, refuse, "socket", of_family, lib.Arg(2, lib.EQ, protocol))
            _deny(rules, refuse, "socket", of_family, lib.Arg(2, lib.GT, _IPPROTO_TCP))
        # Connects while it sends, which landlock does not see.
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            _deny(rules, lib.ERRNO(errno.EOPNOTSUPP), name, lib.Arg(flags, lib.MASKED_EQ, _MSG_FASTOPEN, _MSG_FASTOPEN))


def _deny(rules: Any, action: int, call: str | int, *conditions: Any) -> None:
    try:
        rules.add_rule(action, call, *conditions)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOENT, errno.EFAULT, errno.EDOM}:
            raise  # a call this architecture or this libseccomp does not know cannot be made by name anyway


def _export(rules: Any) -> bytes:
    with os.fdopen(os.memfd_create("seccomp"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
