"""Datasets of a node's cache by their names at control, the SHA-256 of what was uploaded: which ones are here, and
which ones jobs that still wait are going to need.

A content is named by its own files, so that name and content are noted together as soon as the portal has told them.
A wish is a file whose time of change is when it ends: it needs no process, and a later one replaces it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

AHEAD_S = 600.0
"""So long a wish holds. Control repeats it as long as the job waits; a place that is foreseen now and then stays."""
TOLD_MAX = 100
"""So many of the datasets that are here are told to control, those that were used last."""
_NAME = re.compile(r"[0-9a-f]{64}")


def dataset_name(folder: str) -> str:
    """The dataset of `datasets/<sha256>/packed`; empty for another folder."""
    parts = folder.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "datasets" and _NAME.fullmatch(parts[1]) else ""


class Datasets:
    """Notes below the cache's folder `root`."""

    def __init__(self, root: Path) -> None:
        self._contents, self._incoming = root / "contents", root / "incoming"
        self._known, self._ahead = root / "datasets", root / "ahead"

    def note(self, folder: str, digest: str) -> None:
        """The folder of a dataset has this content, and is used now."""
        if name := dataset_name(folder):
            with suppress(OSError):  # it costs a preference of the scheduler
                _put(self._known / name, digest)

    def here(self) -> list[str]:
        """Names of those whose content lies here whole, the ones that were used last first."""
        times = {}
        for path in _files(self._known):
            if self.has(path.name):
                times[path.name] = _changed_s(path)
            elif not self._is_coming(path.name):
                _drop(path)
        return sorted(times, key=lambda name: (-times[name], name))[:TOLD_MAX]

    def has(self, name: str) -> bool:
        """Whether all of it is here."""
        digest = self._digest(name)
        return bool(digest) and (self._contents / digest).is_dir()

    def _is_coming(self, name: str) -> bool:
        digest = self._digest(name)
        return bool(digest) and (self._incoming / digest).is_dir()

    def _digest(self, name: str) -> str:
        try:
            digest = (self._known / name).read_text(errors="replace")
        except OSError:
            return ""
        return digest if _NAME.fullmatch(digest) else ""

    def want(self, names: Sequence[str]) -> None:
        """Jobs that wait are going to need these, the first one first. Raises `OSError`."""
        end_s = time.time() + AHEAD_S
        for number, name in enumerate(name for name in names if _NAME.fullmatch(name)):
            _put(self._ahead / name, "", changed_s=end_s - number * 1e-3)

    def wanted(self) -> list[str]:
        """Those that are wanted now, the most urgent first; wishes that are out of date are forgotten."""
        now_s = time.time()
        ends = {path: _changed_s(path) for path in _files(self._ahead)}
        for path, end_s in ends.items():
            # One that ends further off than any does was left before the clock was set back.
            if not now_s < end_s <= now_s + AHEAD_S + 1.0:
                _drop(path)
        alive = [path for path, end_s in ends.items() if now_s < end_s <= now_s + AHEAD_S + 1.0]
        return [path.name for path in sorted(alive, key=lambda path: -ends[path])]

    def kept(self) -> frozenset[str]:
        """Digests of the contents that are wanted, here or on their way."""
        return frozenset(digest for name in self.wanted() if (digest := self._digest(name)))


def _put(path: Path, text: str, *, changed_s: float | None = None) -> None:
    """Make it in one step, last changed then. Raises `OSError`, and leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        draft.write_text(text)
        if changed_s is not None:
            os.utime(draft, (changed_s, changed_s))
        draft.replace(path)
    except OSError:
        _drop(draft)
        raise


def _drop(path: Path) -> None:
    """Where that is refused it stays: a node whose disk can only be read still reports."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
