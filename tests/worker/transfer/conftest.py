"""A small server of files in the place of the portal, which can be told to fail as networks and disks do."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from worker.transfer.portal import Portal
from worker.transfer.tree import Tree, TreeFile

SECRET = "dlhn_test"


@dataclass
class FileServer:
    """Serves `files` by `name` with ranges, and their listing, whatever the folder."""

    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    """(file, start, stop) of each range."""
    sent_bytes: int = 0
    cut_after_bytes: int | None = None
    """From here on every answer breaks off, until it is None again."""
    damage: set[str] = field(default_factory=set)
    """Files whose next answer has a wrong byte; a name with `!` before it always has."""
    away: bool = False
    proxy_says: list[int] = field(default_factory=list)
    """A proxy before it gives these answers first, in words of its own."""
    meet: threading.Barrier | None = None
    """Answers wait for one another here, so that nothing hangs on who is quicker."""
    silent: threading.Event | None = None
    """Nothing is answered until it is set."""
    silent_after_bytes: int = 0
    """Of a file: so many come before."""
    waits: threading.Event = field(default_factory=threading.Event)
    """Somebody waits for such an answer."""
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def portal(self) -> Portal:
        return Portal(self.url, SECRET, timeout_s=5.0)

    @property
    def tree(self) -> Tree:
        return tree_of(self.files)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        if self.meet is not None:
            with suppress(threading.BrokenBarrierError):
                self.meet.wait(4.0)
        try:
            self._answer(handler)
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.silent is not None and not self.silent_after_bytes:
            self._keep_silent()
        with self._lock:
            status = self.proxy_says.pop() if self.proxy_says else 0
        if status:
            handler.send_error(status)
            return
        if self.away:
            refuse(handler, 503, "unavailable")
            return
        if handler.headers["Authorization"] != f"Bearer {SECRET}":
            refuse(handler, 401, "unauthenticated")
            return
        if urlsplit(handler.path).path.endswith("/trees"):
            say(handler, 200, {"files": self.tree.to_list()})
            return
        name = parse_qs(urlsplit(handler.path).query)["name"][0]
        if name not in self.files:
            refuse(handler, 404, "not_found")
            return
        first, _, last = handler.headers["Range"].removeprefix("bytes=").partition("-")
        start, stop = int(first), int(last) + 1
        body = bytearray(self.files[name][start:stop])
        with self._lock:
            self.asked.append((name, start, stop))
            if name in self.damage or f"!{name}" in self.damage:
                self.damage.discard(name)
                body[0] ^= 1
            left = len(body) if self.cut_after_bytes is None else max(0, self.cut_after_bytes - self.sent_bytes)
            self.sent_bytes += min(left, len(body))
        handler.send_response(206)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if self.silent is not None:
            handler.wfile.write(bytes(body[: self.silent_after_bytes]))
            body, left = body[self.silent_after_bytes :], left - self.silent_after_bytes
            self._keep_silent()
        handler.wfile.write(bytes(body[:left]))
        if left < len(body):
            handler.close_connection = True

    def _keep_silent(self) -> None:
        assert self.silent is not None
        self.waits.set()
        self.silent.wait(120)


def refuse(handler: BaseHTTPRequestHandler, status: int, code: str) -> None:
    say(handler, status, {"error": {"code": code, "message": code, "details": None}})


def say(handler: BaseHTTPRequestHandler, status: int, told: dict[str, Any]) -> None:
    body = json.dumps(told).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def tree_of(files: dict[str, bytes]) -> Tree:
    """What a listing of these files says."""
    rows = [
        TreeFile(name=name, bytes=len(body), sha256=hashlib.sha256(body).hexdigest())
        for name, body in sorted(files.items())
    ]
    return Tree(tuple(rows))


@pytest.fixture
def server() -> Iterator[FileServer]:
    """A running one."""
    made = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    made.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield made
    http.shutdown()
    http.server_close()
