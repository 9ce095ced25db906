# Plain os calls are what an attacker writes.
# ruff: noqa: PTH101, PTH118, PTH123, PTH208, SIM115
"""Run inside a sandbox: tries what hostile training code would try, prints {attack: what happened} as JSON.

Each attack returns None if it was stopped (by an error or by finding nothing), or a text that says what it got.
Arguments: JSON with `secret_file`, `other_run`, `readonly` (folders), `broker` [host, port], `variable` (name of
a secret environment variable of the caller).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import socket
import sys

TARGET = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
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
ATTACKS = {}


def attack(function):
    """Register."""
    ATTACKS[function.__name__] = function
    return function


def call(name: str, *arguments) -> str | None:
    """Make a raw system call; a text if the kernel did it or looked at the arguments."""
    result = LIBC.syscall(NUMBERS[name], *arguments)
    number = ctypes.get_errno()
    if result >= 0:
        return f"returned {result}"
    return None if number in (1, 38, 13) else f"reached the kernel: {os.strerror(number)}"


@attack
def read_a_secret_of_the_host():
    return open(TARGET["secret_file"]).read()


@attack
def list_another_run():
    return str(os.listdir(TARGET["other_run"]))


@attack
def write_etc_passwd():
    open("/etc/passwd", "a").write("x:x:0:0::/:/bin/sh\n")
    return "written"


@attack
def read_etc_shadow():
    return open("/etc/shadow").read()[:20]


@attack
def write_readonly_folders():
    done = []
    for folder in TARGET["readonly"]:
        with contextlib.suppress(OSError):
            open(os.path.join(folder, "planted"), "w").close()
            done.append(folder)
    return str(done) if done else None


@attack
def change_a_readonly_file():
    for folder in TARGET["readonly"]:
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(folder, name), 0o777)
                return name
    return None


@attack
def tcp_to_the_broker():
    socket.create_connection(tuple(TARGET["broker"]), timeout=1).close()
    return "connected"


@attack
def tcp_to_the_internet():
    for address in (("192.0.2.1", 80), ("169.254.169.254", 80), ("1.1.1.1", 53)):
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=0.5).close()
            return str(address)
    return None


@attack
def udp_out():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("192.0.2.1", 53))
    return "sent"


@attack
def strange_sockets():
    done = []
    for family, kind in ((17, 3), (40, 1), (38, 5), (2, 3), (16, 3), (29, 3), (31, 3)):
        with contextlib.suppress(OSError):
            socket.socket(family, kind, 15 if family == 16 else 0).close()
            done.append(family)
    return str([family for family in done if family != 16]) if set(done) - {16} else None


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
def devices():
    found = [
        name for name in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm") if openable(name)
    ]
    return str(found) if found else None


def openable(path: str) -> bool:
    """Whether it can be opened for reading."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@attack
def make_a_device():
    os.mknod(os.path.join(TARGET["work"], "null"), 0o666 | 0o020000, os.makedev(1, 3))
    return "made"


@attack
def kernel_settings():
    for path in (
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/proc/sys/vm/drop_caches",
        "/sys/kernel/uevent_helper",
    ):
        with contextlib.suppress(OSError):
            open(path, "w").close()
            return path
    return None


@attack
def host_abstract_sockets():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + TARGET["abstract"])
    return "connected"


@attack
def push_keys_into_the_terminal():
    import fcntl

    fcntl.ioctl(0, 0x5412, b"x")
    return "pushed"


@attack
def change_host_name():
    socket.sethostname("evil")
    return "changed"


@attack
def link_a_host_file_into_the_work_folder():
    os.link("/etc/passwd", os.path.join(TARGET["work"], "linked"))
    return "linked"


for _name in NUMBERS:
    if _name != "clone3":
        ATTACKS[f"call_{_name}"] = lambda name=_name: call(name, 0, 0, 0, 0, 0)


@attack
def call_clone3():
    return call("clone3", 0, 0)


def main() -> None:
    """Try them all."""
    result = {}
    for name, function in ATTACKS.items():
        try:
            got = function()
        except OSError:
            got = None
        if got is not None:
            result[name] = str(got)
    print(json.dumps({"tried": len(ATTACKS), "got": result}))


if __name__ == "__main__":
    main()
