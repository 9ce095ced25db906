"""Makes a backup of the installation that this process is configured for; whatever runs there goes on running.

The rows are of one moment, and the store is frozen just after it: what a row names is there; what came later is, at
most, a file that nothing names yet.
"""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from django.conf import settings
from django.db import connection

from harness.backup.archive import ArchiveWriter, BackupError
from harness.backup.freeze import LOCK, Unread, frozen, is_unread
from harness.backup.rows import (
    migrations_applied,
    migrations_missing,
    migrations_unknown,
    rows_count,
    rows_dump,
    snapshot,
)
from harness.progress import Tell, nobody
from harness.release import release

DATABASE = "database.jsonl"
STORE = "store"
_RUNS = "jobs"
KEY_FILE = "secrets/secret_key"
"""The broker's password is not kept: the next start makes another."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a backup holds."""

    path: Path
    size_bytes: int
    files: int
    rows: int
    secrets: bool
    left_out: tuple[str, ...] = ()
    """Files and folders below the store that programs of runs let nobody read."""


def backup_make(path: Path, *, with_secrets: bool, tell: Tell = nobody) -> Made:
    """Write the backup to `path`, which must not be there; `tell` hears how far it is.

    Raises `BackupError`; nothing is left behind then.
    """
    path = path.absolute()
    store = Path(settings.STORE.root)
    _place_check(path, store)
    if migrations_missing():
        raise BackupError("the database is older than this version; start the harness once, then make the backup")
    if unknown := migrations_unknown():
        named = ", ".join(unknown[:3])
        raise BackupError(f"other, likely newer, sources changed the database ({named}); make the backup with those")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with _one_at_a_time(store), _create(draft) as out:
            made = _write(out, path.parent, store, with_secrets=with_secrets, tell=tell)
            out.flush()
            os.fsync(out.fileno())
        size_bytes = draft.stat().st_size
        draft.rename(path)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise BackupError(f"the backup cannot be made: {error.strerror or error}{place}") from error
    finally:
        draft.unlink(missing_ok=True)
    return Made(path=path, size_bytes=size_bytes, secrets=with_secrets, **made)


def _place_check(path: Path, store: Path) -> None:
    if path.exists():
        raise BackupError(f"{path} is there already; choose another name")
    if not path.parent.is_dir():
        raise BackupError(f"there is no folder {path.parent}")
    if path.resolve().is_relative_to(store.resolve()):
        raise BackupError(f"{path} lies in the store, which goes into the backup; choose a place outside {store}")


@contextmanager
def _one_at_a_time(store: Path) -> Iterator[None]:
    """The lock lies in the store, which all share who back it up: in containers each has a home of its own."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError("another backup of this installation is being made") from error
        yield


def _create(draft: Path) -> BinaryIO:
    return os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write(out: BinaryIO, folder: Path, store: Path, *, with_secrets: bool, tell: Tell) -> dict[str, Any]:
    left_out = _LeftOut()
    with ExitStack() as held:
        rows = held.enter_context(tempfile.TemporaryFile(dir=folder))
        with snapshot():
            tree = held.enter_context(frozen(store, left_out))
            all_rows = rows_count()
            counts = rows_dump(rows, lambda done: tell("Reading the database", done, all_rows))
        size_bytes = rows.tell()
        all_bytes = size_bytes + _tree_bytes(tree)
        manifest = _manifest(counts, with_secrets=with_secrets)
        writer = ArchiveWriter(out, manifest, lambda done: tell("Writing the backup", done, all_bytes))
        held.callback(writer.abandon)
        rows.seek(0)
        writer.add_file(DATABASE, rows, size_bytes=size_bytes)
        if with_secrets:
            writer.add_bytes(KEY_FILE, settings.SECRET_KEY.encode())
        _tree_add(writer, tree, left_out)
        writer.close()
    return {"files": writer.files, "rows": sum(counts.values()), "left_out": tuple(sorted(left_out.names))}


def _manifest(counts: dict[str, int], *, with_secrets: bool) -> dict[str, object]:
    return {
        "version": release(),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "database": connection.vendor,
        "migrations": migrations_applied(),
        "rows": counts,
        "secrets": with_secrets,
    }


class _Named:
    """A file of the store; what a disk does not give of it is told by its name."""

    def __init__(self, stream: BinaryIO, unread: Callable[[OSError], None]) -> None:
        self._stream, self._unread = stream, unread

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            self._unread(error)
            self._stream = io.BytesIO()  # the rest of it
            return b""


class _Filled(_Named):
    """A file of a run, which its program may cut while it is read: what is missing then is zeros, as `tar` has it; so
    is what a disk does not give."""

    def __init__(self, stream: BinaryIO, unread: Callable[[OSError], None], size_bytes: int) -> None:
        super().__init__(stream, unread)
        self._left = size_bytes

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        chunk = super().read(wanted).ljust(wanted, b"\0")
        self._left -= wanted
        return chunk


def _raise(error: OSError) -> NoReturn:
    """The frozen tree is ours: a folder that cannot be read in it is missing, and nobody would know."""
    raise error


class _LeftOut:
    """Hears what nobody may read, or a disk does not give (see `Unread`): neither a run's program nor a bad block in a
    checkpoint may keep all others from being backed up.

    Raises `BackupError` where no program of a run writes.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, path: Path, error: OSError) -> None:
        if path.parts[0] != _RUNS or path.parts[2:3] != ("work",):
            raise BackupError(f"{str(path)!r} in the store cannot be read: {error.strerror}") from error
        self.names.append(str(path))


def _tree_bytes(tree: Path) -> int:
    return sum((Path(folder) / name).lstat().st_size for folder, _, files in os.walk(tree) for name in files)


def _tree_add(writer: ArchiveWriter, tree: Path, unread: Unread) -> None:
    for folder, names, files, descriptor in os.fwalk(tree, onerror=_raise):
        inside = Path(folder).relative_to(tree)
        relative = Path(STORE) / inside
        # After a restore nobody knows what an object store has: it is found out anew.
        names[:] = sorted({*names} - ({settings.STORE.bucket.name} if inside == Path() else set()))
        shown = os.fstat(descriptor)
        writer.add_folder(str(relative), mode=shown.st_mode, mtime_s=shown.st_mtime)
        for name in sorted(files):
            try:
                inner = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                if not is_unread(error):
                    raise
                unread(inside / name, error)
                continue
            with os.fdopen(inner, "rb") as stream:
                known = os.fstat(inner)
                is_of_run, told = inside.parts[:1] == (_RUNS,), partial(unread, inside / name)
                writer.add_file(
                    str(relative / name),
                    cast(BinaryIO, _Filled(stream, told, known.st_size) if is_of_run else _Named(stream, told)),
                    size_bytes=known.st_size,
                    mode=known.st_mode,
                    mtime_s=known.st_mtime,
                )
