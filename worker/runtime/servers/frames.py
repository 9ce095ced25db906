"""What goes over a connection between a worker and a server: a fixed header and raw bytes, nothing that is executed."""

from __future__ import annotations

import hmac
import socket
import struct
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from worker.runtime.collective import PeerLost

HEADER = struct.Struct("<4sBqdddQ")
"""Magic, kind, a whole number, three fractions, bytes of the body."""
MAGIC = b"dlh1"
KEY_BYTES = 16
BODY_MOST = 1 << 40


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
        try:
            count = source.recv_into(into[place:])
        except OSError as error:
            raise PeerLost(f"a parameter server or worker went away: {error}") from error
        if not count:
            raise PeerLost("a parameter server or worker closed its connection")
        place += count


def expect(source: socket.socket, kind: Kind, body_bytes: int = 0) -> tuple[int, tuple[float, float, float]]:
    """Number and fractions of an answer of that kind and size. Raises `PeerLost` for another one."""
    found, number, fractions, size = receive(source)
    if found != kind or size != body_bytes:
        raise PeerLost(f"a parameter server answered {found.name} with {size} bytes to {kind.name}")
    return number, fractions


def raw(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, shared with it."""
    shared: Any = tensor.detach().view(torch.uint8).numpy()
    return memoryview(shared)


def same_key(given: bytes, wanted: bytes) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given, wanted)
