"""The portal as a node asks it, over lines of all kinds."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from worker.transfer.portal import Portal, PortalAway, PortalMoved

BODY = bytes(12 << 20)
WAIT_S = 1.0
_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"offset":1}'


@pytest.fixture
def slow() -> Iterator[tuple[str, list[int]]]:
    """(address of a portal that takes 6 MB a second, how many bytes have come)."""
    came: list[int] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)

        def take() -> None:
            connection, _ = server.accept()
            with connection:
                while sum(came) < len(BODY) and (block := connection.recv(64 << 10)):
                    came.append(len(block))
                    time.sleep(0.01)
                connection.sendall(_ANSWER)
                connection.recv(1 << 10)

        taking = threading.Thread(target=take, daemon=True)
        taking.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", came
        taking.join(10.0)


def test_a_slow_line_that_takes_all_the_time_is_no_portal_that_is_away(slow: tuple[str, list[int]]) -> None:
    address, came = slow
    began_s = time.monotonic()
    with Portal(address, "secret", timeout_s=WAIT_S).apart() as portal:
        kept = portal._connection(WAIT_S)
        kept.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)  # what lies there has not passed the line
        assert portal.send("PUT", "/runs/j/1/pieces", BODY, offset=0) == {"offset": 1}
    assert sum(came) >= len(BODY) and time.monotonic() - began_s > WAIT_S, "the line was slow"


def test_a_proxy_that_sends_elsewhere_is_no_answer_of_the_portal() -> None:
    """As ours answers http: 308, and no body at all."""
    moved = b"HTTP/1.1 308 Permanent Redirect\r\nLocation: https://portal.example/\r\nContent-Length: 0\r\n\r\n"
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    connection.recv(64 << 10)
                    connection.sendall(moved)
                    connection.recv(64 << 10)

        threading.Thread(target=answer, daemon=True).start()
        portal = Portal(f"http://127.0.0.1:{server.getsockname()[1]}", "secret")
        with pytest.raises(PortalMoved, match=r"308 and names https://portal\.example/"):
            portal.json("GET", "")
        with pytest.raises(PortalAway):
            portal.send("PUT", "/runs/j/1/pieces", b"x", offset=0)
