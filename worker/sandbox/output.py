"""What a sandboxed program prints: drained while it runs, its last part kept, whole lines handed on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import IO

OUTPUT_BYTES = 256 * 1024
_log = logging.getLogger(__name__)


class Reader(threading.Thread):
    """Drains a pipe; keeps the last `OUTPUT_BYTES` and hands on whole lines."""

    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None] | None) -> None:
        super().__init__(daemon=True)
        self.pipe, self.on_line, self.kept = pipe, on_line, bytearray()
        self.start()

    def run(self) -> None:
        """Until the pipe ends."""
        while line := self.pipe.readline(OUTPUT_BYTES):
            self.kept += line
            del self.kept[:-OUTPUT_BYTES]
            if self.on_line:
                self._hand_on(self.on_line, line.decode(errors="replace").rstrip("\n"))

    @staticmethod
    def _hand_on(take: Callable[[str], None], line: str) -> None:
        try:
            take(line)
        except Exception:  # a broker that is away, say: who stops reading stops the program, and loses its answer
            _log.exception("a line of a program's output cannot be handed on")

    @property
    def text(self) -> str:
        """What is kept."""
        return self.kept.decode(errors="replace")
