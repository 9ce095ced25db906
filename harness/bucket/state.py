"""What is known of the copy in the object store without asking it: kept by the passes, beside the store's folders."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from harness.bucket.units import KINDS, memos_forget, rows_read
from harness.env import S3Settings


@dataclass(frozen=True, kw_only=True)
class Listed:
    """How much the lists of files name."""

    units: int = 0
    """Datasets and jobs."""
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class MirrorState(Listed):
    """How the copy stands."""

    complete_s: float = 0.0
    """When the last pass began that copied everything (Unix time)."""
    began_s: float = 0.0
    """When the last pass began."""
    place: str = ""
    """Where it went."""
    swept_s: float = 0.0
    waiting: int = 0
    """Datasets and jobs that the last pass was to look at and did not copy, or not yet."""
    trouble: str = ""
    step: str = ""
    """What to do about the trouble."""


def place_name(given: S3Settings) -> str:
    """Tells one place from another."""
    return f"{given.endpoint} {given.place}"


def state_read() -> MirrorState:
    """As the last pass left it."""
    with suppress(OSError, ValueError, TypeError):
        return MirrorState(**json.loads(_file().read_text()))
    return MirrorState()


def state_of(given: S3Settings) -> MirrorState:
    """As the last pass to this place left it; what is known of another place says nothing of this one."""
    place, state = place_name(given), state_read()
    return state if state.place == place else MirrorState(place=place)


def state_begin(given: S3Settings) -> MirrorState:
    """The same for who copies: what was noted of another place is forgotten."""
    state = state_of(given)
    if state != state_read():
        memos_forget()
        state_write(state)
    return state


def state_write(state: MirrorState) -> None:
    """Leave it for the next pass, and for who asks how the copy stands."""
    draft = _file().with_name(f".state.{os.getpid()}")
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(_file())


def _file() -> Path:
    return Path(settings.STORE.bucket) / "state.json"


class Tally:
    """Sums of the memos; each is read once until it is written again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], int, int]] = {}

    def count(self) -> Listed:
        """What the object store was given, as far as it is known here."""
        now: dict[str, tuple[tuple[int, int], int, int]] = {}
        for kind in KINDS:
            with suppress(FileNotFoundError), os.scandir(Path(settings.STORE.bucket) / kind) as entries:
                for entry in entries:
                    with suppress(OSError, ValueError):
                        now[entry.path] = self._sums(entry)
        self._known = now
        rows = now.values()
        return Listed(units=len(now), files=sum(row[1] for row in rows), bytes=sum(row[2] for row in rows))

    def _sums(self, entry: os.DirEntry[str]) -> tuple[tuple[int, int], int, int]:
        """Raises `ValueError` for a draft."""
        if entry.name.startswith("."):
            raise ValueError(entry.name)
        told = entry.stat()
        key, before = (told.st_mtime_ns, told.st_size), self._known.get(entry.path)
        if before is not None and before[0] == key:
            return before
        rows = rows_read(Path(entry.path).read_text())
        return key, len(rows), sum(row.bytes for row in rows)
