"""One process of an elastic gang, and what it has said (`worker.elastic` tells the words)."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

LINE_BYTES = 4096


@dataclass
class Chair:
    """One process and what it has said."""

    slot: int
    """The rank that it began as, whatever place it takes later."""
    process: subprocess.Popen[bytes]
    line: socket.socket
    place: int | None = None
    """Its rank in the present generation; None: it has none."""
    met: bool = False
    """It has met the others of the generation: until then nothing can call it back from Horovod's `init`."""
    waits: bool = False
    ended: bool = False
    """It has trained to the end."""
    leave_by_s: float | None = None
    """It was told to leave, and is ended then; None: it stays."""
    step: int | None = None
    """Of its copy of the run."""
    rest: bytes = field(default=b"", repr=False)

    def send(self, **body: Any) -> None:
        """One line. A process that is gone is noticed by its end, not here."""
        with suppress(OSError):
            self.line.sendall(json.dumps(body).encode() + b"\n")

    def hear(self, generation: int) -> None:
        """Take in what it has said since; what is no message of this generation is passed over."""
        with suppress(BlockingIOError, ConnectionError):
            while block := self.line.recv(LINE_BYTES, socket.MSG_DONTWAIT):
                *lines, self.rest = (self.rest[-LINE_BYTES:] + block).split(b"\n")
                for text in lines:
                    with suppress(ValueError, TypeError, AttributeError, RecursionError):
                        self._take(json.loads(text), generation)

    def _take(self, body: dict[str, Any], generation: int) -> None:
        self.met = self.met or (self.place is not None and body.get("met") == generation)
        for word in ("ready", "end"):
            if body.get(word) == (generation if self.place is not None else 0):
                self.waits, self.ended = True, word == "end"
                self.step = None if body.get("step") is None else int(body["step"])

    def dismiss(self, by_s: float) -> None:
        """It has no place any more, and ends by itself until `by_s`."""
        self.place, self.leave_by_s = None, by_s
        self.send(leave=True)
