"""Connections to the object store: kept while it keeps them, and not one left for each that it closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from worker.transfer.signed import BucketAway, Signed

BYTES = bytes(range(256))


class Store(BaseHTTPRequestHandler):
    """Gives parts of an object; `/kept` over a connection that stays, `/cut` breaks off."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        start, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = BYTES[int(start) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        if not self.path.startswith("/kept"):
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(part[:1] if self.path.startswith("/cut") else part)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def place() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_store_that_closes_after_each_answer_leaves_one_connection_at_most(place: str) -> None:
    with closing(Signed()) as signed:
        for start in range(20):
            assert b"".join(signed.span(f"{place}/closed?s=1", start, start + 9)) == BYTES[start : start + 9]
            assert len(signed.connections) <= 1


def test_a_connection_that_the_store_keeps_is_used_again(place: str) -> None:
    with closing(Signed()) as signed:
        seen = set()
        for start in range(5):
            assert b"".join(signed.span(f"{place}/kept?s=1", start, start + 9)) == BYTES[start : start + 9]
            seen |= {id(connection.sock) for connection in signed.connections}
        assert len(seen) == 1


def test_a_failure_leaves_no_connection(place: str) -> None:
    signed = Signed()
    for address in (f"{place}/cut?s=1", "http://127.0.0.1:1/away?s=1"):
        with pytest.raises(BucketAway):
            list(signed.span(address, 0, 9))
        assert signed.connections == []
