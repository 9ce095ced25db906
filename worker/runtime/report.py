"""Events of one rank, appended to its file; a line on the console for people."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from worker.events import Event, EventKind

RESERVE_BYTES = 64 << 10
"""Kept on disk so that a full disk can still be reported."""


class Reporter:
    """Writes events. Each is one `write` of one line to a file opened for appending."""

    def __init__(self, path: Path, *, job_id: str, token: int, rank: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._reserve = path.with_name(f".reserve-{rank}")
        with suppress(OSError):
            self._reserve.write_bytes(os.urandom(RESERVE_BYTES))
        self.job_id = job_id
        self.token = token
        self.rank = rank
        self._seq = 0
        self._torn = False
        """A full disk took only a part of the last line."""
        self._lock = threading.Lock()
        self.closed = False
        """Whether the run has told its end."""

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Append one event. Raises `OSError` (disk full), except for errors, which may use the reserve; of one that no
        disk takes nothing stays."""
        with self._lock:  # a checkpoint is told by a thread of its own
            event = Event(
                kind=kind,
                job_id=self.job_id,
                token=self.token,
                rank=self.rank,
                seq=self._seq,
                time_s=time.time(),
                data=data,
            )
            self._seq += 1
            self._write(event)

    def _write(self, event: Event) -> None:
        line = event.to_json().encode() + b"\n"
        if self._torn:
            line = b"\n" + line  # else it would end in the middle of the torn one, and be lost with it
        if event.kind is EventKind.ERROR:
            with suppress(OSError):  # a disk that fails takes no name away either
                self._reserve.unlink(missing_ok=True)
            with suppress(OSError):
                if self._file.closed:  # the program goes on after run.finish, and fails there
                    self._file = self._path.open("ab", buffering=0)
                self._file.write(line)
        else:
            self._torn = True
            self._torn = self._file.write(line) != len(line)

    def note(self, message: str, **data: Any) -> None:
        """Say something that a person should read on the job page; `data` is for programs that read the event."""
        self.emit(EventKind.NOTE, message=message, **data)
        self.say(message)

    def say(self, text: str) -> None:
        """Print one line, from the first rank only."""
        if self.rank == 0:
            print(text, flush=True)

    def speak_as(self, rank: int, path: Path) -> None:
        """This process has become another rank; its events continue in that one's file."""
        if self.rank != rank:
            with self._lock:
                self.rank, old, self._file = rank, self._file, path.open("ab", buffering=0)
                self._path = path
            old.close()

    def close(self) -> None:
        """Close the file and give the reserve back. Raises nothing: each event told of its own write."""
        with suppress(OSError):
            self._reserve.unlink(missing_ok=True)
        with suppress(OSError):
            self._file.close()
        self.closed = True
