# Plain os calls are what an attacker writes.
"""Ways out of the sandbox to others."""

from __future__ import annotations

import contextlib
import socket

from known import TARGET, attack


@attack
def tcp_to_the_broker():
    socket.create_connection(tuple(TARGET["broker"]), timeout=1).close()
    return "connected"


@attack
def tcp_to_the_internet():
    for address in (("192.0.2.1", 80), ("169.254.169.254", 80), ("1.1.1.1", 53)):
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=0.5).close()
            return str(address)
    return None


@attack
def udp_out():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("192.0.2.1", 53))
    return "sent"


@attack
def strange_sockets():
    done = []
    for family, kind in ((17, 3), (40, 1), (38, 5), (2, 3), (16, 3), (29, 3), (31, 3)):
        with contextlib.suppress(OSError):
            socket.socket(family, kind, 15 if family == 16 else 0).close()
            done.append(family)
    return str([family for family in done if family != 16]) if set(done) - {16} else None


@attack
def host_sockets_in_the_file_system():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(TARGET["named"])
    return "connected"


@attack
def host_abstract_sockets():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + TARGET["abstract"])
    return "connected"
