"""Catch what ranks print: one file per rank, limited in size, safe to show, and passed on live in batches."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from worker.words import size_words

LINE_BYTES = 8 * 1024
FILE_BYTES = 32 * 1024 * 1024
AFTER_BYTES = 1024 * 1024
"""Beyond the limit for what the runtime says of each epoch."""
LIVE_LINES_PER_POLL = 200
READ_BYTES = 256 * 1024
TAIL_LINES = 60

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_].*?(?:\x1b\\|$)|[ -/]*[0-~]?)")
_EPOCH = re.compile(r"epoch \d+/\d+  train/loss ")
"""How these lines begin (`worker.runtime.teller`)."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def text_clean(text: str) -> str:
    """One line without its end, terminal escapes and control characters; of a redrawn line (`\\r`) the last state."""
    text = _ESCAPES.sub("", text.rstrip("\r\n").rpartition("\r")[2])
    return _CONTROLS.sub("", text)


def clean(line: bytes) -> str:
    """The same of bytes."""
    return text_clean(line.decode(errors="replace"))


def shortened(line: bytes) -> str:
    """The same of a line of any length: of one that is too long the beginning, and how much it lacks."""
    last = line.rstrip(b"\r").rpartition(b"\r")[2]
    text, left_out = clean(last[:LINE_BYTES]), len(last) - LINE_BYTES
    return f"{text} [{left_out:,} more bytes left out]" if left_out > 0 else text


@dataclass
class RankLog:
    """The log file of one rank in one attempt; both its streams run through here."""

    rank: int
    path: Path
    file_bytes: int = FILE_BYTES
    lines: int = 0
    """Lines written to the file so far."""
    dropped: int = 0
    is_full: bool = False
    """The limit was reached, and the file says so."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    """The last lines printed, also when the file is full."""
    _file: FileIO | None = None
    _bytes: int = 0

    def add(self, texts: list[str]) -> list[str]:
        """Write whole lines. Returns those that the file got: at the limit a notice, beyond it lines of epochs."""
        if self._file is None:
            self._open()
        self.tail.extend(texts)
        kept, left_out, size, is_full = [], 0, self._bytes, self.is_full
        for text in texts:
            length = len(text.encode()) + 1
            if not is_full and size + length > self.file_bytes:
                is_full, size = True, self.file_bytes
                kept.append(f"[log limit of {size_words(size)} reached: from here on only lines of epochs are kept]")
            if not is_full or (_EPOCH.match(text) and size + length <= self.file_bytes + AFTER_BYTES):
                kept.append(text)
                size += length
            else:
                left_out += 1
        if kept and not self._write("".join(f"{text}\n" for text in kept).encode()):
            kept, left_out = [], len(texts)
        else:
            self._bytes, self.is_full = size, is_full
        self.lines += len(kept)
        self.dropped += left_out
        return kept

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("wb", buffering=0)

    def _write(self, body: bytes) -> bool:
        """Write all of it or nothing. False where the disk is full: a line that is lost is no reason to end a run."""
        if self._file is None:
            return False
        start = self._file.tell()
        try:
            if self._file.write(body) == len(body):
                return True
        except OSError:
            pass
        with contextlib.suppress(OSError):
            self._file.truncate(start)
            self._file.seek(start)
        return False

    def close(self) -> None:
        """Write what was left out, and close."""
        if self._file is None:
            return
        if self.dropped and not self.is_full:
            self._write(f"[the disk was full: {self.dropped} lines left out]\n".encode())
        elif self.dropped:
            last = "".join(f"{line}\n" for line in list(self.tail)[-self.dropped :])
            self._write(f"[{self.dropped:,} lines left out; the last ones:]\n{last}".encode())
        self._file.close()
        self._file = None


@dataclass
class StreamReader:
    """One pipe (standard output or error) of one rank."""

    fd: int
    """Read end, non-blocking."""
    stream: str
    log: RankLog
    open: bool = True
    _rest: bytes = b""

    def poll(self) -> tuple[int, list[str]]:
        """Read what is there. Returns (number of the first line in the file, lines to show live)."""
        try:
            block = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return self.log.lines, []
        if not block:
            self.open = False
            return self._keep([self._rest] if self._rest else [])
        *lines, self._rest = (self._rest + block).split(b"\n")
        if len(self._rest) > LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        return self._keep(lines)

    def _keep(self, lines: list[bytes]) -> tuple[int, list[str]]:
        start = self.log.lines
        texts = [shortened(line) for line in lines]
        written = self.log.add(texts) if texts else []
        shown = written[-LIVE_LINES_PER_POLL:]
        return start + len(written) - len(shown), shown


def nonblocking_pipe() -> tuple[int, int]:
    """(reader that never waits, writer); neither is passed on to a program unless it is named."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reader, False)
    return reader, writer
