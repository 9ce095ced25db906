"""Servers of files on loopback, good and hostile ones: each path is answered by a function of the test's own."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DRIP_S = 0.02
CSV = b"length,width,kind\n" + b"".join(b"%d,%d,%s\n" % (i, i % 7, (b"iris", b"rose")[i % 2]) for i in range(300))
Act = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers a GET as its path's function does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        files: Files = self.server.files  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        files.asked.append((self.path, dict(self.headers)))
        self.close_connection = True
        try:
            files.acts.get(path, missing)(self)
        except OSError:  # who asked has gone
            return

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer; header names with `_` for `-`. `Content_Length=""`: none is sent."""
        given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): text for name, text in headers.items()}}
        self.send_response(status)
        for name, text in given.items():
            if text:
                self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@dataclass
class Files:
    """A server."""

    port: int = 0
    acts: dict[str, Act] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """(path, headers) of each request."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def files_running(context: ssl.SSLContext | None = None) -> Iterator[Files]:
    """A server, with TLS where a context is given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    files = server.files = Files(port=server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def missing(handler: Handler) -> None:
    handler.say(404, b"no such file")


def whole(body: bytes = CSV, **headers: str) -> Act:
    """A file as any server gives it, without parts."""
    return lambda handler: handler.say(200, body, **headers)


def status(code: int, **headers: str) -> Act:
    """No file."""
    return lambda handler: handler.say(code, b"no", **headers)


def redirect(location: str, code: int = 302) -> Act:
    return lambda handler: handler.say(code, Location=location)


def parts(body: bytes = CSV, etag: str = '"one"', *, cut_at: int | None = None, ignores_range: bool = False) -> Act:
    """A file of which parts can be had; `cut_at`: the connection breaks at this byte, where it has not got further."""

    def act(handler: Handler) -> None:
        asked = handler.headers.get("Range", "")
        may = handler.headers.get("If-Range") == etag and not ignores_range
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and may else 0
        end = cut_at if cut_at is not None and cut_at > begin else len(body)
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(body) - begin))
        handler.send_header("ETag", etag)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        handler.end_headers()
        handler.wfile.write(body[begin:end])

    return act


def one_after_another(*acts: Act) -> Act:
    """The first request is answered by the first, and so on; the last one stays."""
    waiting = list(acts)
    return lambda handler: (waiting.pop(0) if len(waiting) > 1 else waiting[0])(handler)


def chunked(body: bytes = CSV, *, ends: bool = True, **headers: str) -> Act:
    """Without a length; `ends`: with the chunk that says that it is all."""

    def act(handler: Handler) -> None:
        handler.say(200, Content_Length="", Transfer_Encoding="chunked", **headers)
        for begin in range(0, len(body), 1000):
            piece = body[begin : begin + 1000]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if ends:
            handler.wfile.write(b"0\r\n\r\n")

    return act


def packed(body: bytes = CSV) -> Act:
    return whole(gzip.compress(body), Content_Encoding="gzip")


def drips(first: bytes, drop: bytes = b"x") -> Act:
    """Sends `first`, then drop by drop without an end."""

    def act(handler: Handler) -> None:
        handler.wfile.write(first)
        while True:
            handler.wfile.write(drop)
            time.sleep(DRIP_S)

    return act
