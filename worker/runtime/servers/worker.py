"""A worker's side: connections to all servers, the weights pulled from them, gradients pushed to them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from worker.runtime.collective import PeerLost
from worker.runtime.servers import frames
from worker.runtime.servers.frames import Kind
from worker.runtime.servers.shard import elements, views
from worker.runtime.servers.tickets import Agreed

CONNECT_LIMIT_S = 60.0


class Worker:
    """One connection per server. Requests to several servers are under way at the same time. Raises `PeerLost`."""

    def __init__(
        self, rank: int, addresses: Sequence[tuple[str, int]], key: bytes, weights: list[nn.Parameter], owner: list[int]
    ) -> None:
        self._weights = weights
        self._numbers = [
            [number for number, mine in enumerate(owner) if mine == server] for server in range(len(addresses))
        ]
        self._flats = [torch.zeros(elements(weights, owner, server)) for server in range(len(addresses))]
        self._views = [views(flat, weights, numbers) for flat, numbers in zip(self._flats, self._numbers, strict=True)]
        self._versions = [0] * len(addresses)
        self._unanswered = False
        self._servers = [self._connect(address, key, rank) for address in addresses]

    def _connect(self, address: tuple[str, int], key: bytes, rank: int) -> socket.socket:
        try:
            server = socket.create_connection(address, timeout=CONNECT_LIMIT_S)
        except OSError as error:
            raise PeerLost(f"the parameter server at {address} cannot be reached: {error}") from error
        frames.ready(server)
        frames.send(server, Kind.HELLO, rank, (0.0, 0.0, 0.0), key)
        frames.expect(server, Kind.HELLO)
        server.settimeout(None)
        return server

    def take(self, wishes: tuple[float, float, float]) -> tuple[int, Agreed]:
        """Give the last ticket back and ask for the next one; waits where the bound on staleness asks for it."""
        self.settle()
        frames.send(self._servers[0], Kind.TAKE, 0, wishes)
        ticket, (pause, save, time_spent) = frames.expect(self._servers[0], Kind.TAKE)
        return ticket, Agreed(pause > 0, save > 0, time_spent)

    @torch.no_grad()
    def pull(self, least: int = 0) -> None:
        """Copy the newest weights into the model, `least` updates old at least."""
        self.settle()
        for server in self._servers:
            frames.send(server, Kind.PULL, least)
        bodies = dict(zip(self._servers, map(frames.raw, self._flats), strict=True))
        self._versions = frames.expect_all(Kind.PULL, bodies)
        for numbers, shard in zip(self._numbers, self._views, strict=True):
            mine: list[Tensor] = [self._weights[number] for number in numbers]
            if mine:
                torch._foreach_copy_(mine, shard)

    @torch.no_grad()
    def push(self, rates: Sequence[float], share: float, version: int | None = None) -> None:
        """Send the gradients, each to the server of its weight. The answers are read before the next request.

        A weight without one is named, and stays where it is: one of zeros would let momentum and decay move it.
        `share`: of the batch, that the gradient stands for. `version`: of the weights it was made at, where that is
        the same for all servers (updates in step); None: what each of them said at the pull.
        """
        self.settle()
        told = frames.raw(torch.tensor(rates, dtype=torch.float64))
        for place, server in enumerate(self._servers):
            gradients = [self._weights[number].grad for number in self._numbers[place]]
            for view, gradient in zip(self._views[place], gradients, strict=True):
                view.zero_() if gradient is None else view.copy_(gradient)
            given = bytes(gradient is not None for gradient in gradients)
            body = frames.raw(self._flats[place])
            made_at = self._versions[place] if version is None else version
            frames.send(server, Kind.PUSH, made_at, (share, 0.0, 0.0), told, given, body)
        self._unanswered = True

    def settle(self) -> None:
        """Wait until the last gradient is in the weights of all servers."""
        if self._unanswered:
            for server in self._servers:
                frames.expect(server, Kind.PUSH)
            self._unanswered = False

    def close(self) -> None:
        """Leave."""
        for server in self._servers:
            frames.send(server, Kind.BYE)
            server.close()
