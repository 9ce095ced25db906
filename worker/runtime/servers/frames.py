"""What goes over a connection between a worker and a server: a fixed header and raw bytes, nothing that is executed."""

from __future__ import annotations

import hmac
import selectors
import socket
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from worker.cuts import cut_options
from worker.runtime.collective import PeerLost

HEADER = struct.Struct("<4sBqdddQ")
"""Magic, kind, a whole number, three fractions, bytes of the body."""
MAGIC = b"dlh1"
KEY_BYTES = 16
BODY_MOST = 1 << 40
CUT_S = 30
"""A peer that is cut off for so long is given up: when Gloo gives up, by which the ranks meet between epochs."""


class Kind(IntEnum):
    """What a frame is for. A worker asks, the server answers with the same kind."""

    HELLO = 1
    """number: the worker; body: the run's key."""
    TAKE = 2
    """Asked: fractions: wishes to pause and to save, spent time budget. Answer: number: the ticket, or STOPPED;
    fractions: what all have agreed on."""
    PULL = 3
    """Asked: number: the least version. Answer: number: the version; body: the shard."""
    PUSH = 4
    """Asked: number: the version the gradient was made at; first fraction: its share of the batch; body: learning
    rates, a byte for each weight (0: it has no gradient), and gradient. Answer: number: its staleness."""
    BYE = 5


STOPPED = -1
Frame = tuple[Kind, int, tuple[float, float, float], int]
"""Kind, number, fractions, bytes of the body that follows."""


def ready(connection: socket.socket) -> None:
    """Let frames leave at once, and a cut network be noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in cut_options(CUT_S).items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def send(
    to: socket.socket,
    kind: Kind,
    number: int = 0,
    fractions: tuple[float, float, float] = (0.0, 0.0, 0.0),
    *body: memoryview | bytes,
) -> None:
    """Send one frame. Raises `PeerLost`."""
    size = sum(len(part) for part in body)
    try:
        to.sendall(HEADER.pack(MAGIC, kind, number, *fractions, size))
        for part in body:
            to.sendall(part)
    except OSError as error:
        raise PeerLost(f"a parameter server or worker went away: {error}") from error


def receive(source: socket.socket) -> Frame:
    """The header of the next frame; its body is still to be read. Raises `PeerLost`, also for what is no frame."""
    header = bytearray(HEADER.size)
    fill(source, memoryview(header))
    magic, kind, number, first, second, third, size = HEADER.unpack(header)
    if magic != MAGIC or kind not in set(Kind) or not 0 <= size <= BODY_MOST:
        raise PeerLost("what came over a parameter server's connection is not a frame")
    return Kind(kind), number, (first, second, third), size


def fill(source: socket.socket, into: memoryview) -> None:
    """Read exactly as many bytes as `into` takes. Raises `PeerLost`."""
    place = 0
    while place < len(into):
        place += _some(source, into[place:])


def _some(source: socket.socket, into: memoryview) -> int:
    """Read what is there, of which there is some at least; its length. Raises `PeerLost`."""
    try:
        count = source.recv_into(into)
    except OSError as error:
        raise PeerLost(f"a parameter server or worker went away: {error}") from error
    if not count:
        raise PeerLost("a parameter server or worker closed its connection")
    return count


def expect(source: socket.socket, kind: Kind, body_bytes: int = 0) -> tuple[int, tuple[float, float, float]]:
    """Number and fractions of an answer of that kind and size. Raises `PeerLost` for another one."""
    found, number, fractions, size = receive(source)
    if found != kind or size != body_bytes:
        raise PeerLost(f"a parameter server answered {found.name} with {size} bytes to {kind.name}")
    return number, fractions


def expect_all(kind: Kind, bodies: Mapping[socket.socket, memoryview]) -> list[int]:
    """Numbers of the answers of that kind whose bodies fill these. Raises `PeerLost` for another answer.

    All are read as they come: a connection that is not read while another one is slow would count as cut off.
    """
    numbers: dict[socket.socket, int] = {}
    rests = dict(bodies)
    with selectors.PollSelector() as coming:
        for source in bodies:
            coming.register(source, selectors.EVENT_READ, source)
        while coming.get_map():
            for key, _ in coming.select():
                source = key.data
                if source in numbers:
                    rests[source] = rests[source][_some(source, rests[source]) :]
                else:
                    numbers[source], _ = expect(source, kind, len(rests[source]))
                if not rests[source]:
                    coming.unregister(source)
    return [numbers[source] for source in bodies]


def raw(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, shared with it."""
    shared: Any = tensor.detach().view(torch.uint8).numpy()
    return memoryview(shared)


def same_key(given: bytes, wanted: bytes) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given, wanted)
