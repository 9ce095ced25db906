"""Whether the files of a checkpoint are those that were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worker.machine_faults import is_disk_fault
from worker.runtime.hashed import file_sha256
from worker.runtime.manifest import MANIFEST_FILE, manifest_read


class CorruptCheckpoint(Exception):
    """A checkpoint is incomplete or was changed."""


def files_check(folder: Path) -> None:
    """Read the manifest of a checkpoint and all its files. Raises `CorruptCheckpoint`, `OSError` where a disk fails."""
    manifest = manifest_read(folder)
    if manifest is None:
        raise CorruptCheckpoint(f"{folder.name}: no readable {MANIFEST_FILE}")
    for file_name, entry in manifest["files"].items():
        _check_file(folder / file_name, entry, f"{folder.name}/{file_name}")


def is_whole(folder: Path) -> bool:
    """Whether all of it can be read, and is what was written."""
    try:
        files_check(folder)
    except (OSError, CorruptCheckpoint):
        return False
    return True


def _check_file(path: Path, entry: dict[str, Any], shown: str) -> None:
    try:
        size, digest = file_sha256(path)
    except OSError as error:
        if is_disk_fault(error):
            raise
        raise CorruptCheckpoint(f"{shown}: {error.strerror}") from error
    if size != entry["bytes"]:
        raise CorruptCheckpoint(f"{shown}: {size} bytes instead of {entry['bytes']}")
    if digest != entry["sha256"]:
        raise CorruptCheckpoint(f"{shown}: its sha256 is not the one that was written")
