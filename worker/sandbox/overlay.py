"""A network of its own for the ranks of one attempt on several nodes: they reach each other and nobody else.

Each node makes a network namespace with one interface, whose tunnel to the other nodes starts at the host: one of
WireGuard where that is wished and possible (docs/decisions/035), else a VXLAN (RFC 7348), into which a machine that can
send UDP to the hosts can send. No program in another sandbox has a way in. Needs root, `ip`, `bridge` and `nsenter`.
See docs/decisions/033.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.sandbox import abilities, namespace, wireguard
from worker.sandbox.model import Encryption, Overlay, SandboxError, SandboxLevel
from worker.sandbox.namespace import Space, run, tool
from worker.sandbox.wireguard import Peer, Tunnel

INTERFACE = "peers0"
"""Name of the interface inside."""
PORT = 4789
"""UDP port of the hosts that the tunnels use: IANA's for VXLAN."""
NUMBERS = 1 << 24
"""Numbers of VXLAN networks."""
_SUBNET = ipaddress.ip_network("198.18.0.0/16")
"""Of a range that no host should have (RFC 2544), so that an address tells which network it is of."""
_EVERYBODY = "00:00:00:00:00:00"
AGAIN_S = 60.0
"""A host that could not make one is tried again this often."""


def inside_address(index: int) -> str:
    """Of the node that stands at this place of the attempt's nodes. Raises `ValueError` beyond 65,000 of them."""
    if not 0 <= index < _SUBNET.num_addresses - 2:
        raise ValueError(f"a network of ranks has no address for node {index}")
    return str(_SUBNET[index + 1])


def ports_told(port: int) -> str:
    """UDP ports to be let through between the hosts, in words. `port`: of WireGuard; 0: it is a VXLAN."""
    return f"{wireguard.PORTS.start}-{wireguard.PORTS.stop - 1} (here {port})" if port else str(PORT)


@dataclass(frozen=True)
class Network:
    """This node's end of the network of an attempt."""

    space: Space
    tunnel: Tunnel | None = None
    """Of WireGuard: it lets the other nodes in once their keys are known (`join`)."""

    @property
    def encryption(self) -> Encryption:
        """What encrypts it on this node."""
        return self.tunnel.encryption if self.tunnel else Encryption.NONE

    @property
    def key(self) -> str:
        """What the other nodes must know of this one; empty where it is not encrypted."""
        return self.tunnel.key if self.tunnel else ""

    def entered(self, argv: Sequence[str]) -> list[str]:
        """The command line of a program in it."""
        return self.space.entered(argv)

    def join(self, peers: Sequence[Peer]) -> None:
        """Let the other nodes in. Raises `SandboxError`."""
        if self.tunnel:
            self.tunnel.add(peers)

    def check(self) -> None:
        """Raises `SandboxError` where it is gone while ranks are in it."""
        if self.tunnel:
            self.tunnel.check()

    def close(self) -> None:
        """Keep it no longer: it ends with what runs in it."""
        self.space.close()
        if self.tunnel:
            self.tunnel.close()


def make(overlay: Overlay) -> Network:
    """This node's end of the network. Raises `SandboxError` with what `ip` or `wg` said."""
    space = namespace.new()
    tunnel = None
    try:
        if overlay.port:
            tunnel = wireguard.make(
                space, INTERFACE, port=overlay.port, local=overlay.local, device=overlay.device
            )  # fmt: skip
        else:
            _vxlan(space, overlay)
        own = f"{overlay.inside}/{_SUBNET.prefixlen}"
        steps = (f"addr add {own} dev {INTERFACE}", "link set lo up", f"link set {INTERFACE} up")
        run(space.entered([tool("ip"), "-batch", "-"]), "\n".join(steps))
        for peer in () if tunnel else overlay.peers:
            entry = ("fdb", "append", _EVERYBODY, "dev", INTERFACE, "dst", peer)
            run(space.entered([tool("bridge"), *entry]))
    except BaseException:
        Network(space, tunnel).close()
        raise
    return Network(space, tunnel)


def _vxlan(space: Space, overlay: Overlay) -> None:
    tunnel = ("type", "vxlan", "id", str(overlay.number), "local", overlay.local, "dev", overlay.device)
    run([tool("ip"), "link", "add", INTERFACE, "netns", space.path, *tunnel, "dstport", str(PORT)])


class Finding:
    """Whether this host can do something, found out by doing it. That it can is remembered for good."""

    def __init__(self, tried: Callable[[], str]) -> None:
        """`tried`: why it cannot, empty where it can."""
        self._tried = tried
        self._problem: str | None = None
        self._found_s = float("-inf")

    def problem(self, now_s: float) -> str:
        """Why it cannot, empty where it can; a failure may pass, and is looked at again `AGAIN_S` later."""
        if self._problem is None or (self._problem and now_s - self._found_s >= AGAIN_S):
            self._problem, self._found_s = self._tried(), now_s
        return self._problem


def _tried(port: int = 0) -> str:
    """Why a network cannot be made: one by VXLAN, or by WireGuard where a port is given."""
    number = secrets.randbelow(NUMBERS)
    trial = Overlay(
        number=number, local="127.0.0.1", device="lo", inside=inside_address(0), peers=("127.0.0.2",), port=port
    )
    try:
        make(trial).close()
    except SandboxError as error:
        return str(error)
    return ""


def _tried_vxlan() -> str:
    if os.getuid() != 0:
        return "the agent does not run as root"
    if abilities.host().level < SandboxLevel.L2:
        return f"its sandbox is {abilities.host().level.name}"
    return _tried()


def _tried_kernel() -> str:
    if problem():
        return problem()
    try:
        space = namespace.new()
        try:
            wireguard.by_kernel(space, INTERFACE)
        finally:
            space.close()
    except SandboxError as error:
        return str(error)
    return ""


def _tried_wireguard() -> str:
    return problem() or _tried(_free_port())


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        probing.bind(("", 0))
        return int(probing.getsockname()[1])


_finding, _kernel, _wireguard = Finding(_tried_vxlan), Finding(_tried_kernel), Finding(_tried_wireguard)


def problem() -> str:
    """Why this host cannot make such a network; empty where it can."""
    return _finding.problem(time.monotonic())


def encryption_problem(*, by_kernel: bool = False) -> str:
    """Why this host cannot encrypt one, or its kernel cannot; empty where it can."""
    return (_kernel if by_kernel else _wireguard).problem(time.monotonic())
