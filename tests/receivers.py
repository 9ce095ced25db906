"""Real receivers on loopback: one of webhooks, one of e-mails. Each keeps what it got and answers as it is told."""

from __future__ import annotations

import email
import email.message
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DRIP_S = 0.05


@dataclass
class Hooks:
    """A receiver of webhooks."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    """Answers to come, one after the other; then 200."""
    location: str = ""
    """Of redirects."""
    drips: bool = False
    """Answers letter by letter, without an end."""
    silent: threading.Event = field(default_factory=threading.Event)
    """While it is set, nobody is answered."""
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """(path, headers, body) of each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=abc"


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hooks: Hooks = self.server.hooks  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hooks.got.append((self.path, dict(self.headers), body))
        while hooks.silent.is_set():
            time.sleep(DRIP_S)
        if hooks.drips:
            self._drip()
            return
        self.send_response(hooks.statuses.pop(0) if hooks.statuses else 200)
        if hooks.location:
            self.send_header("Location", hooks.location)
        self.end_headers()
        self.wfile.write(b"what nobody may see")

    do_GET = do_POST

    def _drip(self) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"x")
                time.sleep(DRIP_S)
        except OSError:
            return

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def hooks_running(context: ssl.SSLContext | None = None) -> Iterator[Hooks]:
    """A receiver of webhooks, with TLS where a context is given."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    hooks = server.hooks = Hooks(port=server.server_address[1])  # type: ignore[attr-defined]
    with _served(server):
        yield hooks
        hooks.silent.clear()


@dataclass
class Mails:
    """A mail server."""

    port: int = 0
    recipient_answers: list[str] = field(default_factory=list)
    """Answers to come to RCPT, one after the other; then 250."""
    slow_s: float = 0.0
    """So long it looks at a message before it says that it has taken it."""
    goodbye_s: float = 0.0
    """So long it lets who is done wait for its last answer."""
    got: list[email.message.EmailMessage] = field(default_factory=list)


class _Mail(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        mails: Mails = self.server.mails  # type: ignore[attr-defined]
        self._say("220 here")
        for line in self.rfile:
            verb = line.split()[0].upper().decode() if line.split() else ""
            if verb == "DATA":
                self._say("354 go on")
                mails.got.append(email.message_from_bytes(self._data(), policy=default))  # type: ignore[arg-type]
                time.sleep(mails.slow_s)
                self._say("250 taken")
            elif verb == "RCPT" and mails.recipient_answers:
                self._say(mails.recipient_answers.pop(0))
            elif verb == "QUIT":
                time.sleep(mails.goodbye_s)
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _data(self) -> bytes:
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                break
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mails_running() -> Iterator[Mails]:
    """A mail server that takes what it is given."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail)
    server.daemon_threads = True
    mails = server.mails = Mails(port=server.server_address[1])  # type: ignore[attr-defined]
    with _served(server):
        yield mails


@contextmanager
def _served(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
