"""Folders of the store whose contents are in a node's cache, and those that jobs which still wait are going to need:
packed datasets, known by the SHA-256 of what was uploaded, programs and checkpoints.

A content is named by its own files, so that folder and content are noted together as soon as the portal has told them.
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

from worker.transfer.tree import AHEAD_FOLDER, CHECKPOINT_FOLDER

AHEAD_S = 600.0
"""So long a wish holds. Control repeats it as long as the job waits; a place that is foreseen now and then stays."""
TOLD_MAX = 100
"""So many of the datasets that are here are told to control, those that were used last."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def dataset_name(folder: str) -> str:
    """The dataset of `datasets/<sha256>/packed`; empty for another folder."""
    parts = folder.split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "datasets" and _SHA256.fullmatch(parts[1]) else ""


def _name(folder: str) -> str:
    """Of the file that stands for a folder: a dataset's is its own. Empty for what is not fetched ahead."""
    return dataset_name(folder) or (folder.replace("/", ":") if AHEAD_FOLDER.fullmatch(folder) else "")


def _folder(name: str) -> str:
    """Inverse of `_name`; anything for another file."""
    return name.replace(":", "/") if ":" in name else f"datasets/{name}/packed"


class Folders:
    """Notes below the cache's folder `root`."""

    def __init__(self, root: Path) -> None:
        self._root, self._contents, self._incoming = root, root / "contents", root / "incoming"
        self._known, self._ahead = root / "datasets", root / "ahead"

    def note(self, folder: str, digest: str) -> None:
        """This folder has this content, and is used now. What is no dataset is noted only while it is wanted."""
        name = _name(folder)
        if name and (dataset_name(folder) or (self._ahead / name).exists()):
            with suppress(OSError):  # it costs a preference of the scheduler, or a fetch ahead
                _put(self._known / name, digest)

    def datasets_here(self) -> list[str]:
        """Names of those whose content lies here whole, the ones that were used last first."""
        times = {}
        for path in _files(self._known):
            name, is_here = dataset_name(_folder(path.name)), self._is_below(path.name, self._contents)
            is_of_use = name or (self._ahead / path.name).exists()
            if not is_of_use or not (is_here or self._is_below(path.name, self._incoming)):
                _drop(path)
            elif name and is_here:
                times[name] = _changed_s(path)
        return sorted(times, key=lambda name: (-times[name], name))[:TOLD_MAX]

    def has(self, folder: str) -> bool:
        """Whether all of it is here; of a checkpoint also where its job has it as its own."""
        is_own = bool(CHECKPOINT_FOLDER.fullmatch(folder)) and _is_there(self._root / folder)
        return is_own or self._is_below(_name(folder), self._contents)

    def _is_below(self, name: str, parent: Path) -> bool:
        digest = self._digest(name)
        return bool(digest) and _is_there(parent / digest)

    def _digest(self, name: str) -> str:
        try:
            digest = (self._known / name).read_text(errors="replace")
        except OSError:
            return ""
        return digest if _SHA256.fullmatch(digest) else ""

    def want(self, folders: Sequence[str]) -> None:
        """Jobs that wait are going to need these, the first one first. Raises `OSError`."""
        end_s = time.time() + AHEAD_S
        for number, name in enumerate(filter(None, map(_name, folders))):
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
        return [_folder(path.name) for path in sorted(alive, key=lambda path: -ends[path])]

    def forget(self, folder: str) -> None:
        """It is not wanted any more, unless control says so again."""
        _drop(self._ahead / _name(folder))

    def kept(self) -> frozenset[str]:
        """Digests of the contents that are wanted, here or on their way."""
        return frozenset(digest for folder in self.wanted() if (digest := self._digest(_name(folder))))


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


def _is_there(folder: Path) -> bool:
    """What a disk does not give is not here: a node with such a disk still reports."""
    try:
        return folder.is_dir()
    except OSError:
        return False


def _drop(path: Path) -> None:
    """Where that is refused it stays: a node whose disk can only be read still reports."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if AHEAD_FOLDER.fullmatch(_folder(path.name))]
    except OSError:
        return []


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
