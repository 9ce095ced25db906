"""Checkpoints that an attempt saved on this node and the store never got: the next one here goes on from them.

Their folder is one that programs may write: whatever it holds is checked, and no link is followed.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from worker.fence import STEP, step_name
from worker.machine_faults import is_disk_fault
from worker.telemetry.tail import open_below
from worker.transfer.portal import Stopped
from worker.transfer.tree import CHECKPOINT_NAME, Tree, tree_read

MANIFEST = "MANIFEST.json"
MANIFEST_BYTES_MAX = 4 << 20
_FOLDER = Path("checkpoints")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Unreturned:
    """One of them, as its manifest tells, all of whose hashes are right."""

    name: str
    step: int
    epoch: float
    metric: float | None
    bytes: int

    def told(self) -> dict[str, Any]:
        """Data of its CHECKPOINT event, for when the store has it. Whether it is the best is for control to find."""
        return {**asdict(self), "best": None, "removed": []}


def unreturned(
    work: Path,
    *,
    resume_from: str | None,
    course_from: int,
    damaged: Mapping[str, int] = MappingProxyType({}),
    stopped: Callable[[], bool],
) -> list[Unreturned]:
    """Those beyond the checkpoint that the attempt was to go on from, made by attempt `course_from` or a later one, the
    oldest first. `damaged`: names of those that did not load -> the attempt that found it.

    Raises `Stopped`, and `OSError` where too many files are open."""

    def read() -> None:
        if stopped():
            raise Stopped("nobody waits for the attempt any more")

    beyond = -1 if resume_from is None else _step(resume_from)
    names = [path.name for path in (work / _FOLDER).glob(f"{STEP}*") if _step(path.name) > beyond]
    first = {name: max(course_from, damaged.get(name, -1) + 1) for name in names}
    found = (_readable(work, name, first[name], read) for name in sorted(names, key=_step))
    return [one for one in found if one is not None]


def _readable(work: Path, name: str, course_from: int, read: Callable[[], None]) -> Unreturned | None:
    """As `_read`; None also where its disk fails: the attempt goes on from another one then."""
    try:
        return _read(work, name, course_from, read)
    except OSError as error:
        if not is_disk_fault(error):
            raise
        _log.warning("%s, which was not returned, cannot be read: %s", name, error)
        return None


def _step(name: str) -> int:
    """Of a checkpoint of that name; -1 where it tells none."""
    digits = name.removeprefix(STEP)
    return int(digits) if CHECKPOINT_NAME.fullmatch(name) and digits.isascii() and digits.isdigit() else -1


def _read(work: Path, name: str, course_from: int, read: Callable[[], None]) -> Unreturned | None:
    body = _manifest(work, name)
    try:
        step, epoch, metric = body["step"], float(body["epoch"]), body["metric"]
        files = {file: (entry["bytes"], entry["sha256"]) for file, entry in body["files"].items()}
        good = name == step_name(step) and int(body["attempt"]) >= course_from and math.isfinite(epoch)
        good = good and (metric is None or math.isfinite(metric))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    tree = tree_read(work, _FOLDER / name, read=read) if good and files else None
    if tree is None or _hashes(tree) != files:
        return None
    size = sum(file.bytes for file in tree.files if file.name != MANIFEST)
    return Unreturned(name=name, step=step, epoch=epoch, metric=metric, bytes=size)


def _hashes(tree: Tree) -> dict[str, tuple[int, str]]:
    return {file.name: (file.bytes, file.sha256) for file in tree.files if file.name != MANIFEST}


def _manifest(work: Path, name: str) -> dict[str, Any]:
    """Empty where it cannot be read."""
    fd = open_below(work, _FOLDER / name / MANIFEST)
    if fd is None:
        return {}
    with os.fdopen(fd, "rb") as stream:
        try:
            body = json.loads(stream.read(MANIFEST_BYTES_MAX))
        except (ValueError, RecursionError):
            return {}
    return body if isinstance(body, dict) else {}
