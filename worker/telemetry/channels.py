"""The pipes out of a sandbox: what each rank prints, what the launcher prints, and the launcher's status lines."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

from worker.telemetry.logs import RankLog, StreamReader, nonblocking_pipe

READ_BYTES = 65536
STATUS_BYTES = 4096
TEXT_BYTES = 65536


class Channels:
    """Read ends here, write ends for the sandbox; `read` hands on what arrives."""

    def __init__(
        self, on_lines: Callable[[StreamReader, int, list[str]], None], on_status: Callable[[bytes], None]
    ) -> None:
        """`on_lines`: reader, number of the first line in the log file, lines to show. `on_status`: one whole line."""
        self.launcher_text = bytearray()
        """The last of what the launcher itself printed."""
        self._on_lines, self._on_status = on_lines, on_status
        self._selector = selectors.DefaultSelector()
        self._status_rest = b""

    def rank_pipe(self, stream: str, log: RankLog) -> int:
        """Write end for the output or the error of a rank."""
        reader = StreamReader(-1, stream, log)
        reader.fd, writer = nonblocking_pipe()
        self._selector.register(reader.fd, selectors.EVENT_READ, lambda: self._read_stream(reader))
        return writer

    def status_pipe(self) -> int:
        """Write end for the launcher's status lines."""
        fd, writer = nonblocking_pipe()
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._read_status(fd))
        return writer

    def launcher_pipe(self) -> int:
        """Write end for what the launcher itself prints."""
        fd, writer = nonblocking_pipe()
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._read_launcher(fd))
        return writer

    @property
    def open(self) -> bool:
        """Whether anything may still arrive."""
        return bool(self._selector.get_map())

    def read(self, timeout_s: float) -> bool:
        """Wait for something and take it in; False where nothing came."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _read_stream(self, reader: StreamReader) -> None:
        line_start, lines = reader.poll()
        if lines:
            self._on_lines(reader, line_start, lines)
        if not reader.open:
            self._forget(reader.fd)

    def _read_launcher(self, fd: int) -> None:
        block = os.read(fd, READ_BYTES)
        self.launcher_text += block
        del self.launcher_text[:-TEXT_BYTES]
        if not block:
            self._forget(fd)

    def _read_status(self, fd: int) -> None:
        block = os.read(fd, READ_BYTES)
        if not block:
            self._forget(fd)
            return
        # A rank shares the launcher's user id and can reach this pipe: it may lie about itself, not break us.
        *lines, rest = (self._status_rest + block).split(b"\n")
        self._status_rest = rest[:STATUS_BYTES]
        for line in lines:
            self._on_status(line)

    def _forget(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)
