"""Sizes on the disk, read by walking a folder once: what is known afterwards costs a page nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from harness.storage.models import ContentSize
from worker.machine_faults import is_disk_fault
from worker.watchdog import DEPTH_MAX, ENTRIES_MAX

BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever the block size of the file system (POSIX)."""
SOURCE, OTHER = "source", "other"
_CONTENT_PARTS = {"source": SOURCE}


@dataclass
class Tree:
    """What lies below one folder."""

    bytes_by_part: Counter[str]
    is_whole: bool = True
    """Everything was counted: no folder was closed to us, and there was not too much."""
    is_away: bool = False
    """The disk itself, or the way to it, failed: what was counted says nothing of what lies there."""


def tree_measure(root: Path, part_of: Callable[[str], str], entries_max: int = ENTRIES_MAX) -> Tree:
    """Bytes on the disk below `root`, by the part that a file's path (relative to `root`) belongs to. No link is
    followed: people's programs write there."""
    found, seen = Tree(Counter()), 0
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEPTH_MAX or seen > entries_max:
            found.is_whole = False
            break
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    seen += 1
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{path}/", depth + 1))
                        continue
                    with suppress(FileNotFoundError):  # removed since the folder was listed: the others are there
                        blocks = entry.stat(follow_symlinks=False).st_blocks
                        found.bytes_by_part[part_of(path)] += blocks * BLOCK_BYTES
        except (FileNotFoundError, NotADirectoryError):
            continue  # a program is writing and removing at the same time
        except OSError as error:
            found.is_whole = False
            found.is_away = found.is_away or is_disk_fault(error)
    return found


def part_finder(parts: dict[str, str]) -> Callable[[str], str]:
    """Names the part of a path: `parts` by the folders that they lie in; elsewhere `OTHER`."""

    def named(path: str) -> str:
        return next((name for start, name in parts.items() if path.startswith(f"{start}/")), OTHER)

    return named


def folder_is_away(root: Path, above: Path, holds: bool) -> bool:
    """Whether a folder cannot be seen now: the one above it is not there, or it `holds` something, as far as is known,
    and is not there itself, as in an empty place of a mount where somebody has made the one above."""
    # False for any fault of a disk, unlike those of pathlib
    return not os.path.isdir(above) or (holds and not os.path.isdir(root))  # noqa: PTH112


def content_measure(sha256: str) -> ContentSize | None:
    """Measure a content and keep its size; None, and what is known stays, where the store is away."""
    paths, now = settings.STORE.dataset(sha256), timezone.now()
    tree = tree_measure(paths.root, part_finder(_CONTENT_PARTS))
    known = ContentSize.objects.filter(sha256=sha256).first()
    holds = known is not None and known.source_bytes + known.packed_bytes > 0
    if tree.is_away or folder_is_away(paths.root, settings.STORE.datasets, holds):
        return None
    found = tree.bytes_by_part
    row, _ = ContentSize.objects.update_or_create(
        sha256=sha256,
        defaults={
            "source_bytes": found[SOURCE],
            "source_file": _source_file(paths.source),
            "packed_bytes": found[OTHER],
            "measured_at": now,
        },
    )
    return row


def _source_file(folder: Path) -> str:
    """Device and inode of the one file there; empty where there is none."""
    try:
        first = min((path for path in folder.iterdir() if not path.name.startswith(".")), default=None)
        told = first.stat(follow_symlinks=False) if first else None
    except OSError:
        return ""
    return f"{told.st_dev}:{told.st_ino}" if told else ""
