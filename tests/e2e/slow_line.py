"""A line to a server of this machine that lets so many bytes per second through to whoever asks."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BLOCK_BYTES = 16 << 10


class _Line(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    behind: tuple[str, int]
    bytes_per_s: float
    free_s = 0.0
    """When the line has sent all that was given to it; monotonic."""
    lock = threading.Lock()

    def pace(self, count: int) -> None:
        """Wait until so many bytes have gone through, after those of all other connections."""
        with self.lock:
            self.free_s = max(self.free_s, time.monotonic()) + count / self.bytes_per_s
            wait_s = self.free_s - time.monotonic()
        time.sleep(max(0.0, wait_s))


class _Connection(socketserver.BaseRequestHandler):
    server: _Line

    def handle(self) -> None:
        with suppress(OSError), socket.create_connection(self.server.behind) as server:
            threading.Thread(target=self._there, args=(server,), daemon=True).start()
            while block := server.recv(BLOCK_BYTES):
                self.server.pace(len(block))
                self.request.sendall(block)

    def _there(self, server: socket.socket) -> None:
        with suppress(OSError):
            while block := self.request.recv(BLOCK_BYTES):
                server.sendall(block)
            server.shutdown(socket.SHUT_WR)


@contextmanager
def slow_line(host: str, port: int, bytes_per_s: float) -> Iterator[str]:
    """The address of its near end."""
    with _Line(("127.0.0.1", 0), _Connection) as line:
        line.behind, line.bytes_per_s = (host, port), bytes_per_s
        threading.Thread(target=line.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{line.server_address[1]}"
        finally:
            line.shutdown()
