"""A network of its own for the ranks of one attempt on several nodes: they reach each other and nobody else.

Each node makes a network namespace with one VXLAN interface (RFC 7348), whose tunnel to the other nodes starts at the
host. No program in another sandbox has a way in; a machine that can send UDP to the hosts has. The namespace has no
name: it ends with the processes in it, also when everything around it was killed. Needs root, `ip`, `bridge` and
`nsenter`. See docs/decisions/033.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from worker.sandbox import probe
from worker.sandbox.model import Overlay, SandboxError, SandboxLevel

INTERFACE = "peers0"
"""Name of the interface inside."""
PORT = 4789
"""UDP port of the hosts that the tunnels use: IANA's for VXLAN."""
NUMBERS = 1 << 24
"""Numbers of VXLAN networks."""
_SUBNET = ipaddress.ip_network("198.18.0.0/16")
"""Of a range that no host should have (RFC 2544), so that an address tells which network it is of."""
_EVERYBODY = "00:00:00:00:00:00"
_CLONE_NEWNET = 0x40000000
_STEP_S = 10.0
AGAIN_S = 60.0
"""A host that could not make one is tried again this often."""
_libc = ctypes.CDLL(None, use_errno=True)


def inside_address(index: int) -> str:
    """Of the node that stands at this place of the attempt's nodes. Raises `ValueError` beyond 65,000 of them."""
    if not 0 <= index < _SUBNET.num_addresses - 2:
        raise ValueError(f"a network of ranks has no address for node {index}")
    return str(_SUBNET[index + 1])


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
        return [_tool("nsenter"), f"--net={self.path}", *argv]

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


def make(overlay: Overlay) -> Space:
    """This node's end of the network. Raises `SandboxError` with what `ip` said."""
    space = Space(_new_namespace())
    try:
        tunnel = ("type", "vxlan", "id", str(overlay.number), "local", overlay.local, "dev", overlay.device)
        _run([_tool("ip"), "link", "add", INTERFACE, "netns", space.path, *tunnel, "dstport", str(PORT)])
        own = f"{overlay.inside}/{_SUBNET.prefixlen}"
        steps = (f"addr add {own} dev {INTERFACE}", "link set lo up", f"link set {INTERFACE} up")
        _run(space.entered([_tool("ip"), "-batch", "-"]), "\n".join(steps))
        for peer in overlay.peers:
            entry = ("fdb", "append", _EVERYBODY, "dev", INTERFACE, "dst", peer)
            _run(space.entered([_tool("bridge"), *entry]))
    except BaseException:
        space.close()
        raise
    return space


def _new_namespace() -> int:
    """Descriptor of a new network namespace, which this process does not enter: a thread of it does, and ends."""
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
    return made[0]


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise SandboxError(f"`{name}` is not installed (Debian: apt install iproute2 util-linux)")
    return found


def _run(argv: list[str], text: str = "") -> None:
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=_STEP_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"a network for the ranks cannot be made: {error}") from error
    if done.returncode:
        raise SandboxError(f"a network for the ranks cannot be made: {done.stderr.strip()[-300:]}")


class Finding:
    """Whether this host can make such a network, found out by making one. That it can is remembered for good."""

    def __init__(self) -> None:
        self._problem: str | None = None
        self._found_s = float("-inf")

    def problem(self, now_s: float) -> str:
        """Why it cannot, empty where it can; a failure may pass, and is looked at again `AGAIN_S` later."""
        if self._problem is None or (self._problem and now_s - self._found_s >= AGAIN_S):
            self._problem, self._found_s = _tried(), now_s
        return self._problem


def _tried() -> str:
    if os.getuid() != 0:
        return "the agent does not run as root"
    if probe.host().level < SandboxLevel.L2:
        return f"its sandbox is {probe.host().level.name}"
    number = secrets.randbelow(NUMBERS)
    trial = Overlay(number=number, local="127.0.0.1", device="lo", inside=inside_address(0), peers=("127.0.0.2",))
    try:
        make(trial).close()
    except SandboxError as error:
        return str(error)
    return ""


_finding = Finding()


def problem() -> str:
    """Why this host cannot make such a network; empty where it can."""
    return _finding.problem(time.monotonic())
