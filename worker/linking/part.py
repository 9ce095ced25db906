"""One node's part in timing the link to another: it listens, or it connects and measures.

Answers `node.link`. Request: `request_id`, `role` (`listen` or `connect`), `own` and `peer` (addresses of the two
hosts), `token` (one-time, hexadecimal, the same for both), `network` (number of a network for the two alone, as ranks
on them would have one; 0: their hosts'), and `port` for the one that connects. The one that listens tells
`{request_id, port}` as soon as it does. Answer of the one that measures: `{request_id, ok, problem}` and the fields of
`LinkFigures`; the one that listens answers only where nothing came of it: `{request_id, ok, problem}`.

The port is open for one connection from the other node's address, and for `WAIT_S` at most.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any

from worker import registry
from worker.address import interface_of
from worker.linking.line import (
    LIMIT_S,
    SHAKE_S,
    Line,
    LinkFigures,
    LinkProblem,
    admit,
    measure,
    present,
    serve,
)
from worker.sandbox import Overlay, SandboxError
from worker.sandbox.overlay import inside_address, make

WAIT_S = 15.0
"""So long a node listens for the other."""
CONNECT_S = 5.0
QUEUED_S = 10.0
"""An order that has waited longer here, behind another measurement, is not carried out: the other gave up."""
STRANGERS_MOST = 20
"""Connections of others, after which a node listens no more."""
LISTEN = "listen"

Send = Callable[[dict[str, Any]], None]


def link_time(request: dict[str, Any], send: Send, *, waited_s: float = 0.0) -> None:
    """Take part once and tell control. Never raises for a fault of the request, the network or the other node."""
    told: dict[str, Any] = {"request_id": str(request.get("request_id", ""))}
    try:
        if waited_s > QUEUED_S or runs_here():
            raise LinkProblem("busy", "The node was busy.")
        if request["role"] == LISTEN:
            _listen(request, lambda port: send({**told, "port": port}))
            return
        answer = {"ok": True, "problem": None, **asdict(_connect(request))}
    except LinkProblem as problem:
        answer = _failed(problem.code, problem.message)
    except TimeoutError:
        answer = _failed("timeout", f"{request.get('peer')} did not answer in time.")
    except (KeyError, TypeError, ValueError) as error:
        answer = _failed("bad_request", f"The order makes no sense: {error}")
    except (OSError, SandboxError) as error:
        answer = _failed("cut", f"The connection with {request.get('peer')} failed: {error}")
    send({**told, **answer})


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "problem": {"code": code, "message": message}}


def runs_here() -> bool:
    """Whether a run's supervisor lives on this node: its ranks are not to be disturbed, nor to disturb."""
    return any(entry.process() is not None for entry in registry.entries())


def _listen(request: dict[str, Any], ready: Callable[[int], None]) -> None:
    peer = _peer_address(request)
    with _endpoint(request) as (server, own), closing(server):
        server.bind((own, 0))
        server.listen(1)
        ready(int(server.getsockname()[1]))
        line = _admitted(server, peer, bytes.fromhex(request["token"]))
    with closing(line):  # nothing listens any more
        serve(line, runs_here)


def _admitted(server: socket.socket, peer: str, token: bytes) -> Line:
    """The connection of the other node. Raises `LinkProblem`, `TimeoutError`."""
    end_s = time.monotonic() + WAIT_S
    for _ in range(STRANGERS_MOST):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        server.settimeout(left_s)
        connection, place = server.accept()
        line = Line(connection, time.monotonic() + SHAKE_S)
        try:
            if _same(place[0], peer) and admit(line, token):
                line.end_s = time.monotonic() + LIMIT_S
                return line
        except OSError:
            pass
        line.close()
    raise LinkProblem("wrong_token", "Others than the node that was awaited connected again and again.")


def _connect(request: dict[str, Any]) -> LinkFigures:
    peer, token, port = _peer_address(request), bytes.fromhex(request["token"]), int(request["port"])
    with _endpoint(request) as (connection, own), closing(connection):
        connection.settimeout(CONNECT_S)
        connection.bind((own, 0))
        connection.connect((peer, port))
        line = Line(connection, time.monotonic() + SHAKE_S)
        present(line, token)
        line.end_s = time.monotonic() + LIMIT_S
        return measure(line, runs_here)


def _peer_address(request: dict[str, Any]) -> str:
    """Of the other node, in the network that both use. Raises `ValueError` for what is no address."""
    host = str(ipaddress.ip_address(request["peer"]))
    return inside_address(0 if request["role"] != LISTEN else 1) if request["network"] else host


@contextmanager
def _endpoint(request: dict[str, Any]) -> Iterator[tuple[socket.socket, str]]:
    """(a socket in the network that ranks on the two nodes would use, its own address there)."""
    host = str(ipaddress.ip_address(request["own"]))
    if not request["network"]:
        yield _socket(host), host
        return
    inside = inside_address(0 if request["role"] == LISTEN else 1)
    overlay = Overlay(
        number=int(request["network"]), local=host, device=interface_of(host), inside=inside,
        peers=(str(ipaddress.ip_address(request["peer"])),),
    )  # fmt: skip
    with closing(make(overlay)) as network:
        yield network.space.tcp_socket(), inside


def _socket(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _same(place: str, peer: str) -> bool:
    return ipaddress.ip_address(place) == ipaddress.ip_address(peer)
