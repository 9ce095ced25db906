"""Free ports on this machine."""

from __future__ import annotations

import socket

from harness.stack.home import StackError

PORTS_TRIED = 200


def port_take(host: str, first: int) -> socket.socket:
    """A listening socket on the first free port from `first` up, ready to be handed to a child.

    The socket stays open in the stack, so that a restart of the portal neither loses the port nor a caller.
    Raises `StackError` where the address is not ours or no port is free.
    """
    problem: OSError | None = None
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
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


def port_free(host: str, preferred: int | None) -> int:
    """A port nobody listens on now: `preferred` if it is free, else one that the kernel picks."""
    for port in [preferred, 0] if preferred else [0]:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StackError(f"no free port on {host}\n  next: end some programs that listen there")
