"""Free ports on this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

from harness.stack.home import StackError

PORTS_TRIED = 200


def port_take(host: str, first: int) -> socket.socket:
    """A listening socket on the first free port from `first` up, ready to be handed to a child.

    The socket stays open in the stack, so that a restart of the portal neither loses the port nor a caller.
    Raises `StackError` where the address is not ours or no port is free.
    """
    problem: OSError | None = None
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        listener = socket.socket(_family(host), socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(256)
        except OSError as error:
            listener.close()
            problem = error
            continue
        return listener
    reason = problem.strerror if problem else "no port left"
    raise StackError(
        f"no free port for the portal on {host} from {first} up: {reason}\n"
        "  next: choose others, e.g. DLH_HOST=127.0.0.1 DLH_PORT=9000 make run"
    )


def port_free(preferred: int | None, *hosts: str) -> int:
    """A port on which nobody listens now at any of the hosts: the preferred one, else one that the kernel picks.

    Raises `StackError`.
    """
    for port in [preferred, 0] if preferred else [0]:
        if found := _free_at(port, hosts):
            return found
    raise StackError(f"no free port on {' and '.join(hosts)}\n  next: end some programs that listen there")


def port_is_free(port: int, *hosts: str) -> bool:
    """Whether nobody listens on it now at any of the hosts."""
    return bool(_free_at(port, hosts))


def _free_at(port: int, hosts: Sequence[str]) -> int:
    """The port, of 0 one that the kernel picks at the first host; 0 where it is taken at one of them."""
    with ExitStack() as probes:
        for host in hosts:
            probe = probes.enter_context(socket.socket(_family(host), socket.SOCK_STREAM))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return 0
            port = int(probe.getsockname()[1])
    return port


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
