"""Brings a backup to an empty home. Nothing that was there is touched; what fails leaves nothing behind.

Everything happens in a folder inside the new home until the last step, which only renames. Knows no Django: that is
configured for one home, and the one meant here does not exist yet.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harness.backup.archive import MANIFEST, BackupError, archive_extract, archive_verify
from harness.backup.ending import Terminated
from harness.progress import Tell, nobody
from harness.release import release

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DATABASE = "database.jsonl"
NO_BROKER = "redis://127.0.0.1:1/0"
"""Nobody listens there: what the rows' loading would tell others is for nobody."""
EMPTIED_S = 20.0
"""So long the database may take to be emptied again."""
_HARMLESS = {"lost+found"}


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

    Raises `BackupError`.
    """
    for folder in {home, store}:
        _empty_check(folder)
    try:
        stream = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from error
    with stream:
        size_bytes = os.fstat(stream.fileno()).st_size
        manifest = archive_verify(stream, lambda done: tell("Checking the backup", done, size_bytes))
        _version_check(manifest)
        try:
            return _restore(stream, manifest, home, store, tell)
        except OSError as error:
            raise BackupError(f"cannot restore: {error.strerror or error} ({error.filename or home})") from error


def _empty_check(folder: Path) -> None:
    try:
        there = sorted(entry.name for entry in folder.iterdir() if entry.name not in _HARMLESS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupError(f"{folder} cannot be used: {error.strerror}") from error
    if there:
        raise BackupError(
            f"{folder} is not empty (it holds {there[0]}); nothing is overwritten: name a new folder by DLH_HOME"
        )


def _version_check(manifest: dict[str, Any]) -> None:
    if manifest.get("version") != release():
        raise BackupError(
            f"the backup was made by version {manifest.get('version')}, this is {release()}; "
            "install that version, restore with it, then update"
        )


def _restore(stream: BinaryIO, manifest: dict[str, Any], home: Path, store: Path, tell: Tell) -> Restored:
    size_bytes = os.fstat(stream.fileno()).st_size
    with _staging(home) as staged, _staging(store, unless=home) as staged_store:
        free = shutil.disk_usage(staged_store or staged).free
        if free < size_bytes:
            raise BackupError(f"{store} has {free >> 20} MiB free, the backup needs {size_bytes >> 20} MiB")
        inner = staged_store or staged / store.relative_to(home)
        inner.mkdir(parents=True, exist_ok=True)
        (staged / "secrets").mkdir(mode=0o700)
        places = {"": staged, "store/": inner}
        files = archive_extract(stream, places, lambda done: tell("Unpacking", done, size_bytes))
        told = _database_load(staged, inner, sum(manifest.get("rows", {}).values()), tell)
        for name in (DATABASE, MANIFEST):
            (staged / name).unlink()
        if staged_store is not None:
            _move_up(staged_store, store)
        _move_up(staged, home)
    return Restored(
        home=home,
        made_at=str(manifest.get("made_at")),
        files=files,
        secrets=bool(manifest.get("secrets")),
        rows=int(told["rows"]),
        lost=int(told["lost"]),
    )


@contextmanager
def _staging(folder: Path, *, unless: Path | None = None) -> Iterator[Any]:
    """A private folder inside `folder`; gone afterwards, and `folder` too if it was made for it and nothing came."""
    if unless is not None and folder.is_relative_to(unless):
        yield None
        return
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    staged = folder / f".restoring-{secrets.token_hex(4)}"
    staged.mkdir(mode=0o700)
    try:
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _database_load(staged: Path, store: Path, rows: int, tell: Tell) -> dict[str, Any]:
    """In a process of its own, whose home is the new one; its last line is the answer, others say how far it is."""
    environment = {
        **os.environ,
        "DLH_HOME": str(staged),
        "DLH_STORE": str(store),
        "DLH_REDIS_URL": NO_BROKER,
        "DJANGO_SETTINGS_MODULE": "harness.settings",
    }
    for name in ("DLH_HOME_FILE", "DLH_STORE_FILE", "DLH_REDIS_URL_FILE"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "harness.backup.loading", str(staged / DATABASE), str(staged / MANIFEST)]
    told: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+") as trouble:
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=trouble, text=True
        ) as loading:
            try:
                for line in loading.stdout or ():
                    told = json.loads(line)
                    tell("Filling the database", int(told.get("done", rows)), rows)
            except Terminated:
                loading.send_signal(signal.SIGINT)
                loading.wait(EMPTIED_S)
                raise
        if loading.returncode != 0:
            trouble.seek(0)
            tail = trouble.read().strip().splitlines()[-1:] or ["(it says nothing)"]
            raise BackupError(f"the database cannot be filled: {tail[0]}")
    return told


def _move_up(staged: Path, folder: Path) -> None:
    for entry in sorted(staged.iterdir()):
        entry.rename(folder / entry.name)
