"""One node's part in timing the link to another: it listens, or it connects and measures.

Answers `node.link`. Request: `request_id`, `role` (`listen` or `connect`), `own` and `peer` (addresses of the two
hosts), `token` (one-time, hexadecimal, the same for both), `network` (number of a network for the two alone, as ranks
on them would have one; 0: their hosts'), `network_port` (UDP port at which WireGuard encrypts it; 0: nothing does), and
`port` for the one that connects. The one that listens tells `{request_id, port, encryption}` as soon as it does. Answer
of the one that measures: `{request_id, ok, problem, encryption}` and the fields of `LinkFigures`; the one that listens
answers only where nothing came of it: `{request_id, ok, problem}`. `encryption`: what did so on that node.

The port is open for one connection from the other node's address, and for `WAIT_S` at most.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import Any

from worker import registry
from worker.linking.line import LIMIT_S, SHAKE_S, Line, LinkProblem, admit, measure, present, serve
from worker.linking.way import LISTEN, Order, way
from worker.sandbox import SandboxError
from worker.sandbox.overlay import ports_told

WAIT_S = 15.0
"""So long a node listens for the other."""
CONNECT_S = 5.0
QUEUED_S = 10.0
"""An order that has waited longer here, behind another measurement, is not carried out: the other gave up."""
STRANGERS_MOST = 20
"""Connections of others, after which a node listens no more."""

Send = Callable[[dict[str, Any]], None]


def link_time(request: dict[str, Any], send: Send, *, waited_s: float = 0.0) -> None:
    """Take part once and tell control. Never raises for a fault of the request, the network or the other node."""
    told: dict[str, Any] = {"request_id": str(request.get("request_id", ""))}
    try:
        if waited_s > QUEUED_S or runs_here():
            raise LinkProblem("busy", "The node was busy.")
        order = Order.read(request)
        if order.role == LISTEN:
            _listen(order, lambda ready: send({**told, **ready}))
            return
        answer = {"ok": True, "problem": None, **_connect(order)}
    except LinkProblem as problem:
        answer = _failed(problem.code, problem.message)
    except TimeoutError:
        answer = _failed("timeout", f"{request.get('peer')} did not answer in time.{_network_hint(request)}")
    except (KeyError, TypeError, ValueError) as error:
        answer = _failed("bad_request", f"The request is not valid: {error}")
    except (OSError, SandboxError) as error:
        answer = _failed("cut", f"The connection with {request.get('peer')} failed: {error}")
    send({**told, **answer})


def _network_hint(request: dict[str, Any]) -> str:
    """What to look at when the other node is not reached in a network for the two alone."""
    if not request["network"]:
        return ""
    return f" Ranks would reach it by UDP port {ports_told(request.get('network_port') or 0)}: let it through."


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "problem": {"code": code, "message": message}}


def runs_here() -> bool:
    """Whether a run's supervisor lives on this node: its ranks are not to be disturbed, nor to disturb."""
    return any(entry.process() is not None for entry in registry.entries())


def _listen(order: Order, ready: Callable[[dict[str, Any]], None]) -> None:
    with way(order) as link:
        with closing(link.tcp_socket()) as server:
            server.bind((link.own, 0))
            server.listen(1)
            ready({"port": int(server.getsockname()[1]), "encryption": str(link.encryption)})
            end_s = time.monotonic() + WAIT_S
            link.meet(end_s)
            line = _admitted(server, link.peer, order.token, end_s)
        with closing(line):  # nothing listens any more
            serve(line, runs_here)


def _admitted(server: socket.socket, peer: str, token: bytes, end_s: float) -> Line:
    """The connection of the other node, until then (monotonic). Raises `LinkProblem`, `TimeoutError`."""
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
    raise LinkProblem("wrong_token", "Something other than the expected node kept connecting.")


def _connect(order: Order) -> dict[str, Any]:
    """What was timed, and what encrypted it here."""
    with way(order) as link:
        link.meet(time.monotonic() + WAIT_S)
        with closing(link.tcp_socket()) as connection:
            connection.settimeout(CONNECT_S)
            connection.bind((link.own, 0))
            connection.connect((link.peer, order.port))
            line = Line(connection, time.monotonic() + SHAKE_S)
            present(line, order.token)
            line.end_s = time.monotonic() + LIMIT_S
            return {**asdict(measure(line, runs_here)), "encryption": str(link.encryption)}


def _same(place: str, peer: str) -> bool:
    return ipaddress.ip_address(place) == ipaddress.ip_address(peer)
