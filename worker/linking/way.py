"""The way by which the link between two nodes is timed: their hosts' networks, or one for the two alone.

Such a network is made as for the ranks of a run, by the same code: a VXLAN, or a tunnel of WireGuard with a key pair of
each node for this one measurement, whose public halves meet at the broker. As that of a run it has no name: it lives by
this process and ends with it, whoever killed it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from worker.address import interface_of
from worker.home import redis_url
from worker.meeting import READY, Meeting, link_meeting_key
from worker.sandbox import Encryption, Overlay
from worker.sandbox.overlay import Network, inside_address, make
from worker.sandbox.wireguard import Peer

LISTEN, CONNECT = ROLES = ("listen", "connect")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What control asks of one of the two nodes."""

    request_id: str
    role: str
    own: str
    """Address of this host."""
    peer: str
    """Address of the other."""
    token: bytes
    """The same for both, and one-time."""
    network: int
    """Number of a network for the two alone; 0: their hosts'."""
    network_port: int
    """UDP port of the hosts at which WireGuard encrypts it; 0: nothing does."""
    port: int
    """Where the other listens, for the one that connects."""

    @staticmethod
    def read(request: dict[str, Any]) -> Order:
        """Raises `KeyError`, `TypeError`, `ValueError` for what makes no sense."""
        connects = request["role"] != LISTEN
        return Order(
            request_id=str(request["request_id"]), role=ROLES[connects],
            own=str(ipaddress.ip_address(request["own"])), peer=str(ipaddress.ip_address(request["peer"])),
            token=bytes.fromhex(request["token"]), network=int(request["network"] or 0),
            network_port=int(request.get("network_port") or 0), port=int(request["port"]) if connects else 0,
        )  # fmt: skip

    def inside(self, role: str) -> str:
        """Address of the node with this role in the network for the two."""
        return inside_address(ROLES.index(role))

    @property
    def other(self) -> str:
        """Role of the other node."""
        return ROLES[1 - ROLES.index(self.role)]


@dataclass(frozen=True)
class Way:
    """This node's end of it."""

    order: Order
    network: Network | None
    """For the two alone; None: the hosts'."""

    @property
    def own(self) -> str:
        """Address of this node there."""
        return self.order.inside(self.order.role) if self.network else self.order.own

    @property
    def peer(self) -> str:
        """Address of the other node there."""
        return self.order.inside(self.order.other) if self.network else self.order.peer

    @property
    def encryption(self) -> Encryption:
        """What encrypts it on this node."""
        return self.network.encryption if self.network else Encryption.NONE

    def tcp_socket(self) -> socket.socket:
        """A socket there. Raises `SandboxError`."""
        if self.network:
            return self.network.space.tcp_socket()
        return socket.socket(socket.AF_INET6 if ":" in self.own else socket.AF_INET, socket.SOCK_STREAM)

    def meet(self, end_s: float) -> None:
        """Let the other node in, where it takes its key, until then (monotonic).

        Raises `TimeoutError` where it does not come, `SandboxError`.
        """
        network, order = self.network, self.order
        if network is None or not network.key:
            return

        def let_in(keys: Mapping[str, str]) -> None:
            network.join([Peer(key=keys[order.other], address=order.peer, inside=self.peer)])

        place = link_meeting_key(order.request_id)
        meeting = Meeting(redis_url(), place, ROLES, order.role, network.key, let_in)
        if order.role == LISTEN:
            meeting.tell(READY)  # its port goes by control, with the order to connect
        meeting.wait(end_s)


@contextmanager
def way(order: Order) -> Iterator[Way]:
    """This node's end, for as long as it is needed. Raises `SandboxError`, `ValueError`."""
    if not order.network:
        yield Way(order, None)
        return
    overlay = Overlay(
        number=order.network, local=order.own, device=interface_of(order.own), inside=order.inside(order.role),
        peers=(order.peer,), port=order.network_port,
    )  # fmt: skip
    with closing(make(overlay)) as network:
        yield Way(order, network)
