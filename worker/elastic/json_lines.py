"""JSON objects over a socket, one in a line: between a gang and its processes, and between the nodes of a gang."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

LINE_BYTES = 1 << 16
"""The longest line that is understood: where thousands of ranks sit takes tens of kilobytes."""
BLOCKS_MOST = 16
"""Of this size, read at once: who talks without end must not keep its reader from all else."""
SEND_LIMIT_S = 5
"""A peer that takes nothing for so long is as good as gone; what is sent is short, and fits where nobody reads."""


@dataclass
class Line:
    """Our end of a socket. Nothing that arrives is trusted: what is no object in a short line is passed over."""

    socket: socket.socket
    ended: bool = False
    """The other side is gone."""
    heard_s: float = field(default_factory=time.monotonic)
    """When something arrived last."""
    _rest: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_LIMIT_S, 0))

    def send(self, **body: Any) -> None:
        """One line. A peer that is gone is noticed by whoever waits for it, not here."""
        with suppress(OSError):
            self.socket.sendall(json.dumps(body).encode() + b"\n")

    def read(self) -> Iterator[dict[str, Any]]:
        """What has arrived since, without waiting; of very much a part, and the rest the next time."""
        try:
            for _ in range(BLOCKS_MOST):
                block = self.socket.recv(LINE_BYTES, socket.MSG_DONTWAIT)
                if not block:
                    self.ended = True
                    return
                self.heard_s = time.monotonic()
                *lines, self._rest = (self._rest[-LINE_BYTES:] + block).split(b"\n")
                for text in lines:
                    with suppress(ValueError, RecursionError):
                        body = json.loads(text)
                        if isinstance(body, dict):
                            yield body
        except BlockingIOError:
            return
        except OSError:
            self.ended = True

    def shut(self) -> None:
        """Say that nothing comes any more, and hear nothing any more."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it."""
        self.socket.close()
