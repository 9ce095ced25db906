"""What a sandbox is made of: the command line, the policy that `enter.py` applies, the files of its /etc."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import psutil

from worker.sandbox import abilities, bwrap, cgroup, seccomp, uids
from worker.sandbox.model import SandboxLevel, SandboxSpec

_ENTER = Path(__file__).with_name("enter.py")
_JOIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1" || exit 125; shift; n=$((n-1)); done; exec "$@"'
EPHEMERAL_PORTS = (32768, 60999)
"""What ranks listen on, and the only ports that they may connect to."""
UNSEEN_THREADS = 8192
"""The kernel counts a user's threads over all containers, and would refuse one's run a thread for those of others."""
_PROCESSES, _MACHINES_PROCESSES = Path("/proc/self/ns/pid"), 0xEFFFFFFC
"""Our PID namespace, and the number that the kernel gives to the machine's own."""
PORTS_ABI = 4
"""Landlock's first version that knows ports."""
_READ_BELOW_L2 = (
    *(f"/{name}" for name in bwrap.SYSTEM_FOLDERS),
    *(f"/etc/{name}" for name in (*bwrap.ETC_FILES, "passwd", "group", "hosts", "nsswitch.conf", "host.conf")),
    *("/proc", "/sys", "/dev/urandom", "/dev/random"),
)
_THREAD_NAMES = ("/proc",)
"""CUDA writes the names of its threads there and does not start where it may not (error 304); no rule of landlock can
name the folders of processes to come. A user id of its own guards what else is there, so without one a program is not
allowed to: root's files are the settings of the kernel, those of our user tell whom the kernel ends first."""
_WRITE_BELOW_L2 = ("/dev/null", "/dev/zero", "/dev/shm", "/dev/tty")  # noqa: S108


def command(
    spec: SandboxSpec,
    level: SandboxLevel,
    host: abilities.Host,
    scratch: Path,
    uid: int | None,
    group: cgroup.Cgroup | None,
) -> list[str]:
    """The whole argv: cgroup, bubblewrap (from L2), `enter.py` with its policy."""
    policy = _policy(spec, level, host, scratch, uid, group)
    argv = [sys.executable, "-I", "-S", str(_ENTER), json.dumps(policy)]
    if level >= SandboxLevel.L2:
        inside = replace(spec, readonly=(*spec.readonly, _ENTER))
        argv = bwrap.command(host.bwrap, inside, etc=_write_etc(spec, scratch, uid), as_root=uid is not None) + argv
    if group:
        files = [str(file) for file in group.procs_files]
        argv = ["/bin/sh", "-c", _JOIN, "join", str(len(files)), *files, *argv]
    return argv


def _policy(
    spec: SandboxSpec,
    level: SandboxLevel,
    host: abilities.Host,
    scratch: Path,
    uid: int | None,
    group: cgroup.Cgroup | None,
) -> dict[str, object]:
    limits = spec.limits
    rlimits = {"CORE": 0, "NPROC": limits.processes, "NOFILE": limits.open_files}
    if level < SandboxLevel.L2 and uid is None:
        rlimits["NPROC"] += _threads_of_user()  # here the kernel counts all of this user's
    if limits.file_bytes is not None:
        rlimits["FSIZE"] = limits.file_bytes
    if limits.memory_bytes is not None and group is None:
        rlimits["DATA"] = limits.memory_bytes
    ports = list(EPHEMERAL_PORTS) if spec.loopback or spec.share_network else None
    inet = "tcp" if spec.share_network else "all" if level >= SandboxLevel.L2 else "tcp" if spec.loopback else "none"
    # Landlock closes no sockets in the file system, and behind them servers of this machine trust our own user.
    unix = level >= SandboxLevel.L2 or uid is not None
    filter_ = base64.b64encode(seccomp.program(inet=inet, unix=unix)).decode() if level >= SandboxLevel.L1 else None
    return {
        "rlimits": rlimits, "uid": uid, "groups": [uids.way_gid()] if level < SandboxLevel.L2 else [],
        "drop": os.getuid() == 0, "seccomp": filter_,
        "landlock": _landlock(spec, level, host, scratch, ports, uid),
        "init": level < SandboxLevel.L2, "argv": list(spec.argv),
    }  # fmt: skip


def _landlock(
    spec: SandboxSpec,
    level: SandboxLevel,
    host: abilities.Host,
    scratch: Path,
    ports: list[int] | None,
    uid: int | None,
) -> dict[str, object] | None:
    if level == SandboxLevel.L1:
        read = [*_READ_BELOW_L2, *bwrap.python_folders(), *spec.readonly, _ENTER.parent]
        write = [*_WRITE_BELOW_L2, *bwrap.gpu_nodes(spec.gpus), scratch / "tmp", *spec.writable]
        return {
            "read": [str(path) for path in read],
            "write": [str(path) for path in write],
            "rewrite": _THREAD_NAMES if spec.gpus and uid is not None else (),
            "tcp_ports": ports,
        }
    if level >= SandboxLevel.L2 and spec.share_network and host.landlock_abi >= PORTS_ABI:
        return {"read": None, "write": None, "rewrite": None, "tcp_ports": ports}
    return None


def _threads_of_user() -> int:
    """Threads of our user on this machine; in a container those of other containers, unseen, are allowed for."""
    total = UNSEEN_THREADS if _PROCESSES.stat().st_ino != _MACHINES_PROCESSES else 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == os.getuid():
                total += process.num_threads()
    return total


def _write_etc(spec: SandboxSpec, scratch: Path, uid: int | None) -> Path:
    etc = scratch / "etc"
    etc.mkdir(mode=0o755)
    number = os.getuid() if uid is None else uid
    several = spec.share_network or spec.overlay is not None
    own = [] if several else [("127.0.0.1", spec.hostname)]  # else it is among `spec.hosts`
    hosts = [("127.0.0.1", "localhost"), *own, *spec.hosts]
    texts = {
        "hosts": "".join(f"{address} {name}\n" for address, name in hosts),
        "passwd": f"root:x:0:0::/root:/bin/false\nrun:x:{number}:{number}::/tmp:/bin/false\n",
        "group": f"root:x:0:\nrun:x:{number}:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    for name, text in texts.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o644)
    scratch.chmod(0o755)
    return etc
