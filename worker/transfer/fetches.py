"""How fast data came to this node: what its last fetches of datasets moved, and how long that took.

Kept with the cache, since runs and requests fetch in processes of their own; told to control with the node's report.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from typing import TypedDict

from worker.transfer.cache import Cache

FETCHES_MAX = 5
"""So many of the newest are kept: control takes their median."""
LEAST_BYTES = 1_000_000
"""A smaller one tells how long an answer takes, and not how fast bytes come."""


class Fetch(TypedDict):
    """One fetch, from the first byte to the last one that was checked."""

    bytes: int
    seconds: float


def fetch_note(cache: Cache, size_bytes: int, of_bytes: int, seconds: float) -> None:
    """Keep a fetch in mind; a run and the agent may do so at once.

    Of `of_bytes` that were wanted `size_bytes` came: where most was there already, its check is most of the time.
    """
    if size_bytes < max(LEAST_BYTES, of_bytes / 2) or not seconds > 0:
        return
    told = Fetch(bytes=size_bytes, seconds=round(seconds, 3) or 1e-3)
    notes = cache.root / "fetches"
    with suppress(OSError), cache.alone(notes.name, lambda: False):
        draft = notes.with_suffix(f".{os.getpid()}")
        draft.write_text("".join(json.dumps(row) + "\n" for row in [*fetches(cache), told][-FETCHES_MAX:]))
        draft.replace(notes)


def fetches(cache: Cache) -> list[Fetch]:
    """The newest ones, the last one last."""
    try:
        lines = (cache.root / "fetches").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [row for line in lines[-FETCHES_MAX:] if (row := _read(line)) is not None]


def _read(line: str) -> Fetch | None:
    """A line of the file; None where it is none, such as half of one."""
    try:
        row = json.loads(line)
        size_bytes, seconds = int(row["bytes"]), float(row["seconds"])
    except (ValueError, KeyError, TypeError):
        return None
    good = size_bytes >= LEAST_BYTES and math.isfinite(seconds) and seconds > 0
    return Fetch(bytes=size_bytes, seconds=seconds) if good else None
