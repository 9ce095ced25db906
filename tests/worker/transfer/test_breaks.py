"""A proxy that cuts off large requests: told as such after some, tried on, and no portal that is away."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.waiting import wait_for
from worker.plan import Limits, RankPlan, RunPlan
from worker.transfer import portal as portals
from worker.transfer.portal import Portal, PortalCut, PortalRefused
from worker.transfer.sending import Sending

LARGE = bytes(8 << 20)


class Proxy(ThreadingHTTPServer):
    """Answers for a portal; breaks off what is larger than `limit_bytes`, after these words if there are any."""

    limit_bytes = 1 << 20
    words = b""
    broken = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _take(self) -> None:
        size = int(self.headers["Content-Length"])
        if size > self.server.limit_bytes:
            self.wfile.write(self.server.words)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            self.close_connection = True
            self.server.broken += 1
            return
        self.rfile.read(size)
        body = json.dumps({"offset": size, "bytes": size}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = _take

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(portals, "RETRY_MOST_S", 0.01)
    with Proxy(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def portal(proxy: Proxy) -> Portal:
    return Portal(f"http://127.0.0.1:{proxy.server_port}", "dlhn_test", timeout_s=5.0)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def sending(portal: Portal, tmp_path: Path, told: list[str]) -> Sending:
    rank = RankPlan(rank=0, node="n", local_rank=0, device="cpu", threads=1)
    plan = RunPlan(
        job_id="job1", token=1, mode="single", ranks=(rank,), job_dir=str(tmp_path), dataset_dir=str(tmp_path),
        limits=Limits(memory_bytes=1, disk_bytes=1), minimum_sandbox_level=0, own_code=False,
    )  # fmt: skip
    return Sending(portal, plan, tmp_path, told.append)


def test_requests_of_one_size_that_break_off_on_end_are_told_once_and_tried_on(
    proxy: Proxy, sending: Sending, told: list[str]
) -> None:
    sent: list[int] = []
    piece = threading.Thread(target=lambda: sent.append(sending.piece("/pieces", LARGE, 0)))
    piece.start()
    wait_for(lambda: proxy.broken >= 6)
    assert "cuts off requests of 8 MiB, while small ones are answered" in sending.away
    assert "client_max_body_size" in sending.away
    proxy.limit_bytes = len(LARGE)
    piece.join()
    assert sent == [len(LARGE)] and sending.away == ""
    (once,) = told
    assert once.startswith("What the run makes stays on its node: something between the node and the portal")


def test_a_portal_that_breaks_off_everything_is_only_away(proxy: Proxy, sending: Sending, told: list[str]) -> None:
    proxy.limit_bytes = 0
    piece = threading.Thread(target=lambda: sending.piece("/pieces", LARGE, 0))
    piece.start()
    wait_for(lambda: proxy.broken >= 6)
    assert sending.away and "cuts off" not in sending.away and not told
    proxy.limit_bytes = len(LARGE)
    piece.join()


def test_some_breaks_are_no_reason_to_blame_the_size(proxy: Proxy, sending: Sending, told: list[str]) -> None:
    piece = threading.Thread(target=lambda: sending.piece("/pieces", LARGE, 0))
    piece.start()
    wait_for(lambda: proxy.broken >= 1)
    proxy.limit_bytes = len(LARGE)
    piece.join()
    assert not told


def test_a_refusal_that_comes_before_all_was_sent_is_read(proxy: Proxy, portal: Portal) -> None:
    proxy.words = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with pytest.raises(PortalRefused) as refused:
        portal.send("PUT", "/runs/job1/1/pieces", LARGE)
    assert refused.value.status == 413
    proxy.words = b""
    with pytest.raises(PortalCut):
        portal.send("PUT", "/runs/job1/1/pieces", LARGE)
