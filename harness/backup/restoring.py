"""Brings a backup to an empty home. Nothing that was there is touched; what fails leaves nothing behind.

Everything happens in a folder inside the new home until the last step, which only renames; a database of its own is
marked until then. So the next try can take back what a killed one left. Knows no Django: that is configured for one
home, and the one meant here does not exist yet.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from packaging.version import InvalidVersion, Version

from harness.backup.archive import MANIFEST, BackupError, archive_extract, archive_verify
from harness.backup.process import LoadingError, loading_run
from harness.backup.staging import Staging, staging
from harness.env import env_text
from harness.progress import Tell, nobody
from harness.release import release
from worker.words import size_words

DATABASE = "database.jsonl"


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What came back."""

    home: Path
    made_at: str
    files: int
    rows: int
    lost: int
    """Runs that were under way; they resume from their newest checkpoint."""
    secrets: bool


def backup_restore(path: Path, *, home: Path, store: Path, tell: Tell = nobody) -> Restored:
    """Restore into `home` (and `store`, if it lies elsewhere), both empty; `tell` hears how far it is.

    What a killed restore left there is taken back first. Raises `BackupError`.
    """
    folders = [home] if store.is_relative_to(home) else [home, store]
    for folder in folders:
        Staging(folder).empty_check()
    try:
        stream = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from error
    with stream:
        size_bytes = os.fstat(stream.fileno()).st_size
        manifest = archive_verify(stream, lambda done: tell("Checking the backup", done, size_bytes))
        _version_check(manifest)
        try:
            with ExitStack() as held:
                parts, locks = zip(*(held.enter_context(staging(folder)) for folder in folders), strict=True)
                return _restore(stream, manifest, _Places(home, store, parts, locks), tell)
        except OSError as error:
            raise BackupError(f"cannot restore: {error.strerror or error} ({error.filename or home})") from error


def _version_check(manifest: dict[str, Any]) -> None:
    """An earlier one's is taken: its tables are made as they were, filled, and brought up to date."""
    made_by = str(manifest.get("version"))
    try:
        newer = Version(made_by) > Version(release())
    except InvalidVersion as error:
        raise BackupError(f"the backup names no version that made it, but {made_by!r}") from error
    if newer:
        raise BackupError(f"the backup was made by version {made_by}, this is {release()}; update first")


@dataclass(frozen=True)
class _Places:
    """Where to, and what a restore has there."""

    home: Path
    store: Path
    parts: Sequence[Staging]
    """Of the home, and of the store if it lies elsewhere."""
    locks: Sequence[int]

    def inner(self) -> Path:
        """Where the store is unpacked."""
        return self.parts[1].tree if len(self.parts) > 1 else self.parts[0].tree / self.store.relative_to(self.home)


def _restore(stream: BinaryIO, manifest: dict[str, Any], places: _Places, tell: Tell) -> Restored:
    size_bytes = os.fstat(stream.fileno()).st_size
    if any(part.names for part in places.parts):
        _database(["--empty"], places)  # first: files of a restore whose database is finished stay
    for part in places.parts:
        part.begin()
    staged, inner = places.parts[0].tree, places.inner()
    free = shutil.disk_usage(places.parts[-1].tree).free
    if free < size_bytes:
        raise BackupError(f"{places.store} has {size_words(free)} free, the backup needs {size_words(size_bytes)}")
    inner.mkdir(parents=True, exist_ok=True)
    (staged / "secrets").mkdir(mode=0o700)
    unpacked = {"": staged, "store/": inner}
    files = archive_extract(stream, unpacked, lambda done: tell("Unpacking", done, size_bytes))
    told = _database_load(places, sum(manifest.get("rows", {}).values()), tell)
    for name in (DATABASE, MANIFEST):
        (staged / name).unlink()
    _finish(places)
    return Restored(
        home=places.home,
        made_at=str(manifest.get("made_at")),
        files=files,
        secrets=bool(manifest.get("secrets")),
        rows=int(told["rows"]),
        lost=int(told["lost"]),
    )


def _finish(places: _Places) -> None:
    """All is there and loaded: move it up, or have all as it was."""
    _flush(places)  # after a power cut names may be there without their bytes, and nobody would know
    try:
        for part in reversed(places.parts):
            part.move_up()
        _flush(places)  # from here on the database says that all is there
        _database(["--finish"], places)
    except BaseException:
        for part in places.parts:
            part.take_back()
        _database(["--empty"], places)
        raise
    for part in reversed(places.parts):  # the home's last: `harness.backup.unfinished` goes by it
        part.keep()


def _flush(places: _Places) -> None:
    """Have all of it on the disk: whole file systems, as there are thousands of files, but not those of others, which
    may be slow or gone. Raises `OSError`."""
    for part in places.parts:
        done = subprocess.run(
            ["sync", "--file-system", str(part.folder)], capture_output=True, text=True, check=False
        )  # fmt: skip
        if done.returncode:
            raise OSError(errno.EIO, done.stderr.strip() or "sync failed", str(part.folder))


def _database_load(places: _Places, rows: int, tell: Tell) -> dict[str, Any]:
    """The last line is the answer, others say how far it is."""
    staged = places.parts[0].tree
    told: dict[str, Any] = {}

    def hear(line: str) -> None:
        told.clear()
        told.update(json.loads(line))
        tell("Filling the database", int(told.get("done", rows)), rows)

    _loading([str(staged / DATABASE), str(staged / MANIFEST)], staged, places, hear)
    return told


def _database(arguments: list[str], places: _Places) -> None:
    """Where the database is not a file of the home: what `harness.backup.loading` does by these."""
    if env_text("DLH_DATABASE_URL"):
        # not in the tree, out of which all may have been moved: the settings make folders
        _loading(arguments, places.parts[0].own / "home", places, lambda line: None)


def _loading(arguments: list[str], home: Path, places: _Places, hear: Callable[[str], None]) -> None:
    try:
        loading_run(arguments, home=home, store=places.inner(), hear=hear, locks=places.locks)
    except LoadingError as error:
        raise BackupError(f"the database cannot be filled: {error}") from error
