"""A parameter server: threads of a rank that answer the workers' frames. The first rank's also hands out tickets."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import suppress

import torch

from worker.runtime.collective import PeerLost
from worker.runtime.servers import frames
from worker.runtime.servers.frames import Kind
from worker.runtime.servers.rounds import Rounds
from worker.runtime.servers.shard import Shard
from worker.runtime.servers.tickets import Agreed, Desk

HELLO_LIMIT_S = 20.0
"""Whoever connects must show the run's key within this time."""
LEAVE_LIMIT_S = 20.0
"""So long the end waits for workers that have not said good-bye."""


class Server:
    """Listens on this rank's address inside the sandbox; one thread for each worker."""

    def __init__(self, shard: Shard, key: bytes, tickets: Desk) -> None:
        self.shard = shard
        self.tickets = tickets
        self._rounds = tickets if isinstance(tickets, Rounds) else None
        self._waiting, self._weight, self._counted = torch.zeros_like(shard.flat), 0.0, 0
        self._given = bytes(len(shard.masters))
        """Of the gradients that wait: for each weight whether one of them has it."""
        self.staleness_sum = self.staleness_most = self.dropped = 0
        self._key = key
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._broken = False
        self._listener = socket.create_server((own_address(), 0))
        self._serving: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> tuple[str, int]:
        """Where workers find it."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def open(self, first: int, stop: int) -> None:
        """Hand out these tickets."""
        with self._turn:
            self.tickets.open(first, stop)
            self._turn.notify_all()

    @property
    def agreed(self) -> Agreed:
        """What the workers were told last."""
        with self._lock:
            return self.tickets.agreed

    def close(self) -> None:
        """Take no further worker, and see those off that there are.

        A thread that is still here when the interpreter ends may abort the process ("terminate called without an active
        exception").
        """
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # `close` alone would leave a thread in `accept`
        self._listener.close()
        latest = time.monotonic() + LEAVE_LIMIT_S
        for thread in (self._accepting, *self._serving):
            thread.join(max(0.0, latest - time.monotonic()))

    def _accept(self) -> None:
        while True:
            try:
                worker, _ = self._listener.accept()
            except OSError:
                return
            self._serving.append(threading.Thread(target=self._serve, args=(worker,), daemon=True))
            self._serving[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        """One worker, until it leaves. One that goes without a word ends the waiting of the others."""
        known = False
        with connection, suppress(PeerLost):
            frames.ready(connection)
            worker = self._greet(connection)
            known = True
            window = _Window(self, connection, worker)
            try:
                while window.answer():
                    pass
            except PeerLost:
                raise
            except Exception as error:  # the optimizer's, say: told as if the program's own thread had met it
                sys.excepthook(type(error), error, error.__traceback__)
            return
        if known:
            with self._turn:
                self._broken = True
                self._turn.notify_all()

    def _greet(self, connection: socket.socket) -> int:
        connection.settimeout(HELLO_LIMIT_S)
        kind, worker, _, size = frames.receive(connection)
        if kind is not Kind.HELLO or size != frames.KEY_BYTES:
            raise PeerLost("the first frame of a worker must hold the key")
        given = bytearray(size)
        frames.fill(connection, memoryview(given))
        if not frames.same_key(bytes(given), self._key):
            raise PeerLost("a wrong key")
        connection.settimeout(None)
        frames.send(connection, Kind.HELLO)
        return worker

    def take(self, worker: int, wishes: tuple[float, float, float]) -> tuple[int, Agreed]:
        """The next ticket, once it may be handed out; or STOPPED. Raises `PeerLost`."""
        with self._turn:
            self.tickets.give_back(worker)
            self.tickets.wish(wishes[0] > 0, wishes[1] > 0, wishes[2])
            self._turn.notify_all()
            while not self.tickets.over:
                if self._broken:
                    raise PeerLost("another worker went away")
                ticket = self.tickets.take(worker)
                if ticket is not None:
                    return ticket, self.tickets.agreed
                self._turn.wait()
            return frames.STOPPED, self.tickets.agreed

    def pull(self, into: torch.Tensor, least: int) -> int:
        """Copy the shard once it has made `least` updates; returns its version. Raises `PeerLost`."""
        with self._turn:
            while self.shard.version < least:
                if self._broken:
                    raise PeerLost("another worker went away")
                self._turn.wait()
            into.copy_(self.shard.flat)
            return self.shard.version

    def push(self, gradient: torch.Tensor, given: bytes, rates: list[float], version: int, share: float) -> int:
        """Take a gradient of `version` that stands for a share of the batch; returns how many updates came between.

        `given`: for each weight whether it has one.
        """
        with self._turn:
            staleness = self.shard.version - version
            if self._rounds is None:
                self.staleness_sum += staleness
                self.staleness_most = max(self.staleness_most, staleness)
                self.shard.apply(self.shard.gradient_views(gradient), given, [rate * share for rate in rates])
            elif staleness == 0:
                self._count(self._rounds, gradient, given, rates, share)
            else:
                self.dropped += 1
            return staleness

    def _count(self, rounds: Rounds, gradient: torch.Tensor, given: bytes, rates: list[float], share: float) -> None:
        """One more gradient for the step under way; with the last that is needed the step is made."""
        self._waiting.add_(gradient, alpha=share)
        self._given = bytes(one or other for one, other in zip(self._given, given, strict=True))
        self._weight += share
        self._counted += 1
        if self._counted < rounds.needed:
            return
        self.shard.apply(self.shard.gradient_views(self._waiting.div_(self._weight)), self._given, rates)
        self._waiting.zero_()
        self._given, self._weight, self._counted = bytes(len(self._given)), 0.0, 0
        rounds.round += 1
        self._turn.notify_all()


class _Window:
    """Answers one worker, with buffers of its own."""

    def __init__(self, server: Server, connection: socket.socket, worker: int) -> None:
        self._server, self._connection, self._worker = server, connection, worker
        self._buffer = torch.zeros_like(server.shard.flat)
        self._rates = torch.zeros(server.shard.rates, dtype=torch.float64)
        self._given = bytearray(len(server.shard.masters))

    def answer(self) -> bool:
        """One frame; False after the last. Raises `PeerLost`."""
        kind, number, fractions, size = frames.receive(self._connection)
        if kind is Kind.TAKE and size == 0:
            ticket, agreed = self._server.take(self._worker, fractions)
            told = (float(agreed.pause), float(agreed.save), agreed.time_spent)
            frames.send(self._connection, kind, ticket, told)
        elif kind is Kind.PULL and size == 0:
            version = self._server.pull(self._buffer, number)
            frames.send(self._connection, kind, version, (0.0, 0.0, 0.0), frames.raw(self._buffer))
        elif kind is Kind.PUSH and size == self._rates.nbytes + len(self._given) + self._buffer.nbytes:
            frames.fill(self._connection, frames.raw(self._rates))
            frames.fill(self._connection, memoryview(self._given))
            frames.fill(self._connection, frames.raw(self._buffer))
            staleness = self._server.push(self._buffer, bytes(self._given), self._rates.tolist(), number, fractions[0])
            frames.send(self._connection, kind, staleness)
        elif kind is Kind.BYE:
            return False
        else:
            raise PeerLost(f"{kind.name} with {size} bytes is not a request")
        return True


def own_address() -> str:
    """This host's address for the other ranks: `DLH_ADDRESS`, else the one towards the rendezvous."""
    given = os.environ.get("DLH_ADDRESS")
    if given:  # in the sandbox datagram sockets may be closed
        return given
    meeting = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR") or os.environ.get("MASTER_ADDR") or "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((meeting, 9))  # sends nothing: it asks for the way only
        return str(probe.getsockname()[0])
