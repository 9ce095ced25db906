"""An answer that comes before the end of a body, and a client that goes on sending."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from harness.stack import lingering
from harness.stack.commands import portal_command
from tests.waiting import wait_for

MIB = 1 << 20
BODY_MIB = 8
HEAD = f"POST /early HTTP/1.1\r\nHost: portal\r\nContent-Length: {BODY_MIB * MIB}\r\n\r\n".encode()


class Portal:
    """Answers before it has read a body, and says which requests it has seen."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        command = portal_command()
        protocol = command[command.index("--http") + 1]
        config = uvicorn.Config(self.answer, interface="asgi3", http=protocol, lifespan="off", log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        if scope["path"] == "/read":
            while (await receive()).get("more_body"):
                pass
        headers = [(b"content-length", b"7"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b"refused"})

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.socket.getsockname(), timeout=30.0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB // 4)
        return client

    def connections(self) -> int:
        return len(self.server.server_state.connections)


@pytest.fixture
def portal() -> Iterator[Portal]:
    made = Portal()
    yield made
    made.server.should_exit = True
    made.thread.join()


@pytest.fixture
def refused(portal: Portal) -> Iterator[socket.socket]:
    """A client that has sent a little of its body, and has been answered."""
    with portal.connect() as client:
        client.sendall(HEAD + bytes(1000))
        assert read(client, len("refused")).endswith(b"refused")
        yield client


def read(client: socket.socket, ends_with_bytes: int) -> bytes:
    """The answer to its last byte."""
    found = b""
    while b"\r\n\r\n" not in found or len(found.partition(b"\r\n\r\n")[2]) < ends_with_bytes:
        part = client.recv(1 << 16)
        assert part, found
        found += part
    return found


def is_sent(client: socket.socket, size_bytes: int, step: int = MIB // 4) -> bool:
    """Whether so much is taken."""
    try:
        for _ in range(size_bytes // step):
            client.sendall(bytes(step))
    except (ConnectionResetError, BrokenPipeError):
        return False
    return True


def test_who_is_still_sending_is_not_reset_and_reads_the_answer(portal: Portal) -> None:
    with portal.connect() as client:
        client.sendall(HEAD)
        assert is_sent(client, BODY_MIB * MIB)
        assert read(client, len("refused")).startswith(b"HTTP/1.1 413")
        assert client.recv(1) == b"", "it says that nothing more comes"
    wait_for(lambda: not portal.connections())


def test_what_comes_after_the_answer_is_no_request(portal: Portal, refused: socket.socket) -> None:
    assert is_sent(refused, BODY_MIB * MIB)
    refused.sendall(b"GET /read HTTP/1.1\r\nHost: portal\r\n\r\n")
    refused.close()
    wait_for(lambda: not portal.connections())
    assert portal.paths == ["/early"]


def test_more_than_a_little_is_not_taken(monkeypatch: pytest.MonkeyPatch, portal: Portal) -> None:
    monkeypatch.setattr(lingering, "LINGER_BYTES_MAX", MIB)
    with portal.connect() as client:
        client.sendall(HEAD)
        assert not is_sent(client, 64 * MIB)
    wait_for(lambda: not portal.connections())


def test_nor_is_anybody_waited_for_who_does_not_end(monkeypatch: pytest.MonkeyPatch, portal: Portal) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.1)
    with portal.connect() as client:
        client.sendall(HEAD)
        read(client, len("refused"))
        wait_for(lambda: not portal.connections())
        assert not is_sent(client, 64 * MIB)


def test_an_answer_to_a_whole_body_closes_at_once(monkeypatch: pytest.MonkeyPatch, portal: Portal) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 3600.0)
    with portal.connect() as client:
        client.sendall(b"POST /read HTTP/1.1\r\nHost: portal\r\nContent-Length: 4\r\n\r\nbody")
        read(client, len("refused"))
        wait_for(lambda: not portal.connections())


def test_a_portal_that_stops_waits_for_none(
    monkeypatch: pytest.MonkeyPatch, portal: Portal, refused: socket.socket
) -> None:
    assert portal.connections() == 1
    portal.server.should_exit = True
    portal.thread.join()
