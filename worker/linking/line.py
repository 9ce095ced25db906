"""The connection by which two agents time the link between their nodes: as ranks talk, by one TCP connection.

Both show by a challenge that control sent them the same one-time token, which never crosses the network. Then the one
that connected has a few bytes sent to and fro (the way there and back), and blocks sent both ways at once, as ranks in
a ring send and receive at the same time. Both sides bound bytes and time by themselves, whatever the other asks for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median, quantiles

NONCE_BYTES = 16
PROOF_BYTES = hashlib.sha256().digest_size
SHAKE_S = 3.0
"""So long one who connected has to show the token."""
LIMIT_S = 20.0
"""Of a whole measurement, by either side's clock."""
PINGS, PINGS_WARM, PINGS_S = 200, 10, 2.0
FIRST_BYTES, MOST_BYTES = 64 << 10, 32 << 20
"""Blocks are doubled until one takes long enough to be timed."""
ENOUGH_S, ENOUGH_ROUND_TRIPS = 0.1, 10.0
FINISH_S = 1.0
"""So long one waits at the end for the other to hang up."""
REPEATS, LEAST_REPEATS, REPEATS_S = 7, 3, 8.0
COMMANDS_MOST = 400
TOTAL_BYTES_MOST = 320 << 20
"""Each way."""
CHUNK_BYTES = 1 << 20
PING, EXCHANGE, QUIT = b"p", b"x", b"q"
READY, DONE, BUSY, REFUSED = b"r", b"d", b"b", b"n"
_COMMAND = struct.Struct("!cI")
_BLOCK = memoryview(bytes(CHUNK_BYTES))


class LinkProblem(Exception):
    """The link could not be timed; in words for an admin."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, kw_only=True)
class LinkFigures:
    """What was timed: medians, and how far the middle half of the repeats lies to either side, as a share of them."""

    round_trip_s: float
    round_trip_noise: float
    bytes_per_s: float
    """Each way, while as many come back."""
    bytes_noise: float
    repeats: int


class Line:
    """A connected socket on which nothing takes longer than until `end_s` (monotonic). Raises `OSError`."""

    def __init__(self, connection: socket.socket, end_s: float) -> None:
        """Takes the socket over."""
        self._socket, self.end_s = connection, end_s
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._into = memoryview(bytearray(CHUNK_BYTES))

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def finish(self) -> None:
        """Say no more, and wait a moment for the other to do so: what was said last may be on its way still, through a
        tunnel that ends with us."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self.end_s = min(self.end_s, time.monotonic() + FINISH_S)
            self._socket.settimeout(self._left_s())
            while self._socket.recv_into(self._into):
                self._socket.settimeout(self._left_s())

    def send(self, data: bytes) -> None:
        """All of it."""
        self._socket.settimeout(self._left_s())
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        while len(data) < size:
            self._socket.settimeout(self._left_s())
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the other node hung up")
            data += piece
        return data

    def exchange(self, size: int) -> None:
        """Send so many bytes and receive as many, both at once."""
        sent = received = 0
        self._socket.setblocking(False)
        poll = select.poll()
        while sent < size or received < size:
            wanted = (select.POLLOUT if sent < size else 0) | (select.POLLIN if received < size else 0)
            poll.register(self._socket, wanted)
            events = dict(poll.poll(1000.0 * self._left_s())).get(self._socket.fileno(), 0)
            # Ready, or broken: the call then tells how.
            if events & ~select.POLLIN and sent < size:
                sent += self._socket.send(_BLOCK[: size - sent])
            if events & ~select.POLLOUT and received < size:
                came = self._socket.recv_into(self._into[: size - received])
                if not came:
                    raise ConnectionError("the other node hung up")
                received += came

    def _left_s(self) -> float:
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time for it is over")
        return left_s


def _proof(token: bytes, role: str, nonce: bytes) -> bytes:
    return hmac.digest(token, role.encode() + nonce, "sha256")


def admit(line: Line, token: bytes) -> bool:
    """The listening side: whether the one who connected has the token; it then sees that we have it, too."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    line.send(nonce)
    answer = line.receive(NONCE_BYTES + PROOF_BYTES)
    if not hmac.compare_digest(answer[NONCE_BYTES:], _proof(token, "connect", nonce)):
        return False
    line.send(_proof(token, "listen", answer[:NONCE_BYTES]))
    return True


def present(line: Line, token: bytes) -> None:
    """The connecting side of `admit`. Raises `LinkProblem` where the other has another token, `OSError`."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    line.send(nonce + _proof(token, "connect", line.receive(NONCE_BYTES)))
    if not hmac.compare_digest(line.receive(PROOF_BYTES), _proof(token, "listen", nonce)):
        raise LinkProblem("wrong_token", "The other node does not have the token of this measurement.")


def serve(line: Line, busy: Callable[[], bool]) -> None:
    """Do what the other side asks, within the bounds, until it has done. Raises `OSError`."""
    try:
        _serve(line, busy)
    finally:
        line.finish()


def _serve(line: Line, busy: Callable[[], bool]) -> None:
    passed = 0
    for _ in range(COMMANDS_MOST):
        name, size = _COMMAND.unpack(line.receive(_COMMAND.size))
        if name == PING:
            line.send(READY)
            continue
        if name == QUIT:
            return
        passed += size
        if name != EXCHANGE or size > MOST_BYTES or passed > TOTAL_BYTES_MOST:
            line.send(REFUSED)
            return
        if busy():
            line.send(BUSY)
            return
        line.send(READY)
        line.exchange(size)
        line.send(DONE)


def measure(line: Line, busy: Callable[[], bool]) -> LinkFigures:
    """Time the link. Raises `LinkProblem` where a run begins on either node meanwhile, `OSError`."""
    try:
        return _measured(line, busy)
    finally:
        line.finish()


def _measured(line: Line, busy: Callable[[], bool]) -> LinkFigures:
    round_trips = _round_trips(line)
    enough_s = max(ENOUGH_S, ENOUGH_ROUND_TRIPS * median(round_trips))
    size, taken_s = FIRST_BYTES, _exchanged(line, FIRST_BYTES, busy)
    while taken_s < enough_s and size < MOST_BYTES:
        size *= 2
        taken_s = _exchanged(line, size, busy)
    rates: list[float] = []
    end_s = time.monotonic() + REPEATS_S
    while len(rates) < REPEATS and (len(rates) < LEAST_REPEATS or time.monotonic() < end_s):
        rates.append(size / _exchanged(line, size, busy))
    line.send(_COMMAND.pack(QUIT, 0))
    return LinkFigures(
        round_trip_s=median(round_trips), round_trip_noise=_spread(round_trips),
        bytes_per_s=median(rates), bytes_noise=_spread(rates), repeats=len(rates),
    )  # fmt: skip


def _round_trips(line: Line) -> list[float]:
    taken: list[float] = []
    end_s = time.monotonic() + PINGS_S
    while len(taken) < PINGS + PINGS_WARM and (len(taken) < 2 * PINGS_WARM or time.monotonic() < end_s):
        began_s = time.perf_counter()
        line.send(_COMMAND.pack(PING, 0))
        line.receive(len(READY))
        taken.append(time.perf_counter() - began_s)
    return taken[PINGS_WARM:]


def _exchanged(line: Line, size: int, busy: Callable[[], bool]) -> float:
    """Seconds until a block has passed each way and the other side said that it has all of its own."""
    if busy():
        line.send(_COMMAND.pack(QUIT, 0))
        raise LinkProblem("busy", "A run began on one of the nodes meanwhile.")
    line.send(_COMMAND.pack(EXCHANGE, size))
    answer = line.receive(len(READY))
    if answer == BUSY:
        raise LinkProblem("busy", "A run began on one of the nodes meanwhile.")
    if answer != READY:
        raise LinkProblem("refused", "The other node refused to continue.")
    began_s = time.perf_counter()
    line.exchange(size)
    line.receive(len(DONE))
    return time.perf_counter() - began_s


def _spread(values: list[float]) -> float:
    low, _, high = quantiles(values, n=4)
    return (high - low) / 2 / median(values)
