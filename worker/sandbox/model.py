"""Values of the sandbox: what is to be run, with which limits, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path

MEBI = 1 << 20


class SandboxLevel(IntEnum):
    """How strongly a program is shut in; each level names what holds it."""

    L0 = 0
    """Resource limits, and an own user id where the agent is root."""
    L1 = 1
    """L0 + landlock + seccomp: files and dangerous system calls are closed, host processes stay visible. Without an own
    user id sockets to programs of the host are closed, too, and landlock must keep signals in."""
    L2 = 2
    """bubblewrap (own mounts, processes, network, host name) + seccomp + resource limits."""
    L3 = 3
    """L2 + own user id + cgroup limits on memory and processes."""


class Encryption(StrEnum):
    """What encrypts a network of ranks (`worker.sandbox.wireguard`)."""

    NONE = ""
    PROGRAM = "program"
    """WireGuard in a process of its own."""
    KERNEL = "kernel"


@dataclass(frozen=True, kw_only=True)
class SandboxLimits:
    """What one sandbox may take; None means no limit."""

    memory_bytes: int | None = None
    """Together, where cgroups can be written; else per process (data segment)."""
    file_bytes: int | None = None
    """Largest single file."""
    processes: int = 512
    """Processes and threads."""
    open_files: int = 4096
    tmp_bytes: int = 1024 * MEBI
    """Size of the private /tmp."""
    shm_bytes: int = 1024 * MEBI
    """Size of the private /dev/shm."""


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """One node's end of a network that the ranks of an attempt share with nobody."""

    number: int
    """Of the network: the same on all of its nodes."""
    local: str
    """Address of this host, at which the tunnel to the other nodes starts."""
    device: str
    """Interface of this host that has it."""
    inside: str
    """Address of this node's ranks in the network."""
    peers: tuple[str, ...]
    """Addresses of the other hosts."""
    port: int = 0
    """UDP port of the hosts for a tunnel of WireGuard; 0: it is a VXLAN, at `worker.sandbox.overlay.PORT`."""


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """One program to run. Paths are the same inside and outside, at every level."""

    name: str
    """Unique in this installation while it runs: names the cgroup and the scratch folder."""
    argv: tuple[str, ...]
    workdir: Path
    readonly: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    """The whole environment: nothing of the caller's is passed on."""
    limits: SandboxLimits = SandboxLimits()
    hostname: str = "sandbox"
    loopback: bool = False
    """The program talks to itself over loopback TCP (ranks). Below L2 sockets are closed otherwise."""
    overlay: Overlay | None = None
    """Ranks on several nodes, in a network of their own (`worker.sandbox.overlay`). Needs level 2 or more."""
    share_network: bool = False
    """Ranks on several nodes: the host's network is kept, which lowers L3 to L2. No datagrams; TCP connections go to
    the ports that ranks listen on only, where the kernel's landlock knows ports (6.7 or newer)."""
    peers: tuple[str, ...] = ()
    """With `share_network`: the addresses that it may connect to, where the agent is root and cgroups version 2 are
    there. Empty: any."""
    hosts: tuple[tuple[str, str], ...] = ()
    """More (address, name) pairs for /etc/hosts."""
    gpus: tuple[int, ...] = ()
    """Minor numbers of the GPUs whose device nodes are bound."""
    pass_fds: tuple[int, ...] = ()
    minimum_level: int = 0


@dataclass(frozen=True, kw_only=True)
class Completed:
    """How a sandboxed program ended (`run_sandboxed`)."""

    returncode: int
    """Negative: ended by that signal."""
    stdout: str
    """The last part, at most `worker.sandbox.output.OUTPUT_BYTES`."""
    stderr: str
    level: int
    timed_out: bool = False
    out_of_memory: bool = False


class SandboxError(Exception):
    """The sandbox could not be made on this host: the platform's fault."""


class SandboxTooWeak(SandboxError):
    """The strongest level of this host is below what the run asks for."""

    def __init__(self, level: int, minimum: int, reason: str) -> None:
        super().__init__(
            f"This program needs sandbox level {minimum}, this node reaches level {level}: {reason}",
        )
        self.level = level
        self.minimum = minimum
        self.reason = reason
