# Plain os calls are what an attacker writes.
# ruff: noqa: PTH123, SIM115
"""More rights than it was given."""

from __future__ import annotations

import ctypes
import os
import signal
import socket

from known import ARM, LIBC, TARGET, attack


@attack
def unshare_user_namespace():
    return "made" if LIBC.unshare(0x10000000) == 0 else None


@attack
def clone_user_namespace():
    number = 220 if ARM else 56
    pid = LIBC.syscall(number, ctypes.c_ulong(0x10000000 | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
        return "made"
    return None


@attack
def mount():
    return "mounted" if LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0 else None


@attack
def remount_readonly_folder_writable():
    done = LIBC.mount(None, TARGET["readonly"][0].encode(), None, 0x20 | 0x1000, None)
    return "remounted" if done == 0 else None


@attack
def chroot():
    os.chroot("/tmp")
    return "done"


@attack
def become_root():
    os.setuid(0)
    return "root" if os.getuid() == 0 and TARGET["own_uid"] else None


@attack
def capabilities():
    status = open("/proc/self/status").read()
    held = {
        line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb"))
    }
    return str(held) if held != {"0000000000000000"} else None


@attack
def setuid_programs():
    return None if "NoNewPrivs:\t1" in open("/proc/self/status").read() else "new privileges allowed"


@attack
def change_host_name():
    socket.sethostname("evil")
    return "changed"
