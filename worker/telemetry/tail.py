"""Read what ranks append to their event files, trusting nothing in it.

Ranks own the folder, so a file may be swapped for a link or a pipe, grow without end, hold broken lines, or
claim another rank, token or job. Each file is opened component by component without following links; the
supervisor stamps job, token, rank and sequence itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.events import Event, EventKind

RANK_KINDS = frozenset(
    {
        EventKind.RUNNING,
        EventKind.PROGRESS,
        EventKind.METRIC,
        EventKind.CHECKPOINT,
        EventKind.ERROR,
        EventKind.NOTE,
    }
)
"""What a rank may say; the rest is the supervisor's own and dropped as forged."""

LINE_BYTES = 64 * 1024
READ_BYTES = 1024 * 1024
FILE_BYTES = 1024 * 1024 * 1024
"""So much is read of a file at once; then as much more in a second as may pass, so that a run of months is heard to its
end, and a file without end costs little."""
BYTES_PER_CREDIT = 1024
VALUES_PER_CREDIT = 4
"""Each value of a METRIC event is a row of the database: an epoch of 110 costs 28, so that a run of short epochs
passes, and a flood of values is thinned like one of events."""
DEPTH_MAX = 8
"""Nesting of an event's data; no event of ours needs more than 3."""
ERRORS_FREE = 50
"""Errors of a rank that pass whatever the rate is: the first ones tell the cause."""
_COSTS = {EventKind.CHECKPOINT: 20.0, EventKind.NOTE: 20.0}
"""Credit that an event takes at least: these write rows of their own. Others take 1 per `BYTES_PER_CREDIT` and per
`VALUES_PER_CREDIT`."""
CLOCK_TOLERANCE_S = 5.0


_NONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.ENAMETOOLONG})
"""There is no such file, or a link, a socket or a closed door is in its place."""


def open_below(root: Path, relative: Path) -> int | None:
    """Open a regular file below `root` for reading, following no link; None where there is no such file.

    Raises `OSError` where that cannot be told now: the disk fails, or too many files are open.
    """
    try:
        return _open_below(root, relative)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def _open_below(root: Path, relative: Path) -> int | None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in relative.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(relative.name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


@dataclass
class EventTail:
    """Follows the event file of one rank."""

    root: Path
    """Folder that the ranks may write (`RunPaths.work`)."""
    relative: Path
    job_id: str
    token: int
    rank: int
    rate_per_s: float = 500.0
    """Steady rate of credit, which is 1 for an event of ours; a burst of ten seconds' worth is let through."""
    dropped: int = 0
    """Lines that were no event, forged or over the rate."""
    _fd: int | None = None
    _rest: bytes = b""
    _skipping: bool = False
    _seq: int = 0
    _read_bytes: int = 0
    _errors: int = 0
    _began_s: float = field(default_factory=time.monotonic)
    _credit: float = field(default=5000.0)
    _credit_s: float = field(default_factory=time.monotonic)

    @property
    def is_there(self) -> bool:
        """Whether the rank has made the file, as of the last call of `poll`."""
        return self._fd is not None

    def poll(self) -> list[Event]:
        """New events since the last call."""
        if self._fd is None:
            with contextlib.suppress(OSError):  # perhaps at the next call
                self._fd = open_below(self.root, self.relative)
        if self._fd is None or self._read_bytes >= self._most_bytes:
            return []
        block = os.read(self._fd, READ_BYTES)
        self._read_bytes += len(block)
        if not block:
            return []
        *lines, self._rest = (self._rest + block).split(b"\n")
        if self._skipping and lines:
            lines, self._skipping = lines[1:], False
        if len(self._rest) > LINE_BYTES:
            self._rest, self._skipping = b"", True
            self.dropped += 1
        return [event for line in lines if (event := self._event(line))]

    @property
    def _most_bytes(self) -> float:
        """That may have been read by now."""
        return FILE_BYTES + (time.monotonic() - self._began_s) * self.rate_per_s * BYTES_PER_CREDIT

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _event(self, line: bytes) -> Event | None:
        body = _body(line)
        if body is None or not self._lets_pass(body["kind"], len(line), _value_count(body)):
            self.dropped += bool(line.strip())
            return None
        now = time.time()
        said = body["time_s"]
        event = Event(
            kind=body["kind"], job_id=self.job_id, token=self.token, rank=self.rank, seq=self._seq,
            time_s=said if abs(now - said) < CLOCK_TOLERANCE_S else now, data=body["data"],
        )  # fmt: skip
        self._seq += 1
        return event

    def _lets_pass(self, kind: EventKind, line_bytes: int, values: int) -> bool:
        if kind is EventKind.ERROR:
            self._errors += 1
            if self._errors <= ERRORS_FREE:
                return True
        cost = max(_COSTS.get(kind, 1.0), line_bytes / BYTES_PER_CREDIT, values / VALUES_PER_CREDIT)
        now = time.monotonic()
        self._credit = min(self.rate_per_s * 10, self._credit + (now - self._credit_s) * self.rate_per_s)
        self._credit_s = now
        if self._credit < cost:
            return False
        self._credit -= cost
        return True


def _body(line: bytes) -> dict[str, Any] | None:
    """`kind`, `time_s`, `data` of an acceptable line, else None."""
    if not line or len(line) > LINE_BYTES:
        return None
    try:
        body = json.loads(line)
        kind = EventKind(body["kind"])
        time_s = float(body.get("time_s", 0.0))
        data = body["data"]
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError, OverflowError):
        return None
    if kind not in RANK_KINDS or not isinstance(data, dict) or time_s != time_s or not _is_shallow(data, DEPTH_MAX):
        return None
    return {"kind": kind, "time_s": time_s, "data": data}


def _value_count(body: dict[str, Any]) -> int:
    """Rows that the event becomes."""
    values = body["data"].get("values") if body["kind"] is EventKind.METRIC else None
    return len(values) if isinstance(values, dict) else 0


def _is_shallow(value: Any, depth: int) -> bool:
    """Nested at most `depth` deep: what is deeper breaks every reader after us."""
    if not isinstance(value, (dict, list)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in items)
