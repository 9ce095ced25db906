"""What is copied to the object store: units (one dataset, one job), each a list of files with their hashes."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from harness.bucket.back import file_bring
from harness.bucket.client import Bucket, Changed
from harness.bucket.files import CLOSED, WHILE_IT_RUNS, plain_files
from harness.store import UnsafePath, open_beneath
from worker.trees import tree_remove

HEAD_BYTES = 64 << 10
"""Smaller blobs are put without asking whether they are there."""
KINDS = ("datasets", "jobs")
UNIT = re.compile(r"(?:datasets|jobs)/[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ANSWERS = ("predictions/", "exports/")
"""There programs work on, and remove files, when their run has long succeeded."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnitFile:
    """One file of a unit. `mtime_ns` tells here that it is unchanged; it is no part of what the object store has."""

    path: str
    bytes: int
    sha256: str
    mtime_ns: int = 0


def unit_folder(unit: str) -> Path:
    """Where a unit lies in the store. Raises `ValueError`."""
    if not UNIT.fullmatch(unit):
        raise ValueError(f"{unit!r} is no unit of the store")
    return Path(settings.STORE.root) / unit


def listing_name(unit: str) -> str:
    """Of its list of files in the object store."""
    return f"units/{unit}.json"


def memo_file(unit: str) -> Path:
    """The same list as it was last written there, with times of change."""
    return Path(settings.STORE.bucket) / f"{unit}.json"


def units_listed(kind: str) -> set[str]:
    """Units of a kind (`KINDS`) with such a list: one look at a folder, however many there are."""
    folder = Path(settings.STORE.bucket) / kind
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return {f"{kind}/{name.removesuffix('.json')}" for name in names if name.endswith(".json")}


def rows_read(text: str) -> list[UnitFile]:
    """Inverse of what `unit_push` writes. Raises `ValueError` for what is no list of files below one folder."""
    try:
        rows = [UnitFile(**row) for row in json.loads(text)["files"]]
        good = all(_is_plain(row.path) and _SHA256.fullmatch(row.sha256) and row.bytes >= 0 for row in rows)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is not a list of files: {error}") from error
    if not good:
        raise ValueError("the list names what is no file of a unit")
    return rows


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts)


class Memo(NamedTuple):
    """What the object store has of a unit, by path. `final`: nobody removed a file of it on purpose since then."""

    rows: dict[str, UnitFile]
    final: bool = False


def memo_read(unit: str) -> Memo:
    """Empty where nothing is known."""
    with suppress(OSError, ValueError):
        text = memo_file(unit).read_text()
        return Memo({row.path: row for row in rows_read(text)}, json.loads(text).get("final") is True)
    return Memo({})


def memos_forget() -> None:
    """Nothing is known any more of what the object store has: everything is looked at anew."""
    for kind in KINDS:
        tree_remove(Path(settings.STORE.bucket) / kind)


def unit_bytes(unit: str, *, at_rest: bool) -> int:
    """Size of what `unit_push` looks at, as far as it can be told now."""
    total = 0
    with suppress(OSError):
        for _, told in plain_files(unit_folder(unit), at_rest=at_rest):
            total += told.st_size
    return total


def _unheard(count: int) -> None:
    """Nobody wants to know."""


def unit_push(
    bucket: Bucket, unit: str, *, at_rest: bool, final: bool = False, looked_at: Callable[[int], None] = _unheard
) -> int:
    """Copy what the object store lacks of a unit, then its list of files; how many blobs were put.

    `final`: no file of it is removed on purpose any more, but the whole unit. What is missing since its list was last
    written so was lost, and comes back. `looked_at` is called with the bytes of each file that is there now.
    Raises `BucketTrouble`, `OSError`.
    """
    root, (known, was_final) = unit_folder(unit), memo_read(unit)
    rows: list[UnitFile] = []
    put = 0
    for path, told in plain_files(root, at_rest=at_rest):
        before = known.get(path)
        if before is not None and (before.bytes, before.mtime_ns) == (told.st_size, told.st_mtime_ns):
            rows.append(before)
        else:
            row, was_put = _file_push(bucket, root, path, before)
            rows += [row] if row is not None else []
            put += was_put
        looked_at(told.st_size)
    if not at_rest:  # what was copied when the run was last at rest stays
        here = {row.path for row in rows}
        rows += [row for row in known.values() if row.path not in here and not row.path.startswith(WHILE_IT_RUNS)]
    if final and was_final:
        here = {row.path for row in rows}
        gone = [row for row in known.values() if row.path not in here and not row.path.startswith(_ANSWERS)]
        rows += _lost_bring(bucket, unit, gone)
    rows.sort(key=lambda row: row.path)
    if {row.path: row for row in rows} != known or final != was_final or not memo_file(unit).exists():
        _listing_write(bucket, unit, rows, final=final)
    else:
        os.utime(memo_file(unit))  # looked at now
    return put


def _file_push(bucket: Bucket, root: Path, path: str, before: UnitFile | None) -> tuple[UnitFile | None, bool]:
    """(its row, whether its bytes were put); the row as before, or None, for a file that changes meanwhile.

    Raises `BucketTrouble`, `OSError`.
    """
    try:
        with open_beneath(root, path) as stream:
            told = os.fstat(stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            row = UnitFile(path, stream.tell(), digest, told.st_mtime_ns)
            if row.bytes > HEAD_BYTES and bucket.has(digest, row.bytes):
                return row, False
            bucket.put(stream, digest, row.bytes)
            return row, True
    except UnsafePath as unsafe:
        if isinstance(unsafe.__cause__, OSError) and unsafe.__cause__.errno not in CLOSED:
            raise unsafe.__cause__ from unsafe
        return before, False
    except (Changed, FileNotFoundError):
        return before, False


def _lost_bring(bucket: Bucket, unit: str, rows: list[UnitFile]) -> list[UnitFile]:
    """Bring back those that are not there; what the object store does not have either is no longer listed."""
    back: list[UnitFile] = []
    for row in rows:
        if is_forgotten(unit) or os.path.lexists(unit_folder(unit) / row.path):
            continue
        if row.bytes + settings.DISK_RESERVE_BYTES > settings.STORE.free_bytes():
            raise OSError(errno.ENOSPC, f"there is no room for {row.path}, which was lost and is to come back")
        try:
            told = file_bring(bucket, unit, row.path, row.sha256)
        except (FileNotFoundError, UnsafePath):
            _log.warning("%s of %s was lost; the object store does not have it either", row.path, unit)
        else:
            if is_forgotten(unit):  # its removal, which came after the note, may have passed by here already
                _unbring(unit, row.path)
                continue
            _log.warning("%s of %s was lost and came back from the object store", row.path, unit)
            back.append(replace(row, mtime_ns=told.st_mtime_ns))
    return back


def _unbring(unit: str, path: str) -> None:
    (unit_folder(unit) / path).unlink(missing_ok=True)
    for folder in Path(unit, path).parents[:-2]:
        with suppress(OSError):  # something else lies there
            (Path(settings.STORE.root) / folder).rmdir()


def _listing_write(bucket: Bucket, unit: str, rows: list[UnitFile], *, final: bool) -> None:
    told = [{name: value for name, value in asdict(row).items() if name != "mtime_ns"} for row in rows]
    bucket.text_put(listing_name(unit), json.dumps({"format": 1, "files": told}, separators=(",", ":")))
    _write(memo_file(unit), {"format": 1, "final": final, "files": [asdict(row) for row in rows]})


def _write(file: Path, body: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(json.dumps(body))
    draft.replace(file)


# -- removal, remembered until the object store was told ------------------------------------------------------------


def _gone_folder() -> Path:
    return Path(settings.STORE.bucket) / "gone"


def note_name(unit: str) -> str:
    """Of a note about a unit."""
    return unit.replace("/", "+")


def unit_of_note(name: str) -> str:
    """Inverse of `note_name`."""
    return name.replace("+", "/")


def _gone_note(unit: str) -> Path:
    return _gone_folder() / note_name(unit)


def is_forgotten(unit: str) -> bool:
    """Whether it is being deleted for good."""
    return _gone_note(unit).exists()


def unit_forget(unit: str) -> None:
    """Note that a unit is deleted for good. Its list goes once its folder is gone, blobs when no list names them."""
    if settings.S3 is None:
        return
    _gone_folder().mkdir(parents=True, exist_ok=True)
    _gone_note(unit).touch()


def unit_keep(unit: str) -> None:
    """It came again, or is wanted again before it was gone: take the note away. What it had before is not missed."""
    if is_forgotten(unit):
        memo_file(unit).unlink(missing_ok=True)
        _gone_note(unit).unlink(missing_ok=True)


def gone_tell(bucket: Bucket) -> int:
    """Remove the lists of deleted units from the object store; how many. Raises `BucketTrouble`."""
    units = [unit_of_note(path.name) for path in _gone_folder().iterdir()] if _gone_folder().is_dir() else []
    # One whose folder is there is not removed yet: its note stays.
    gone = [unit for unit in units if UNIT.fullmatch(unit) and _is_gone(unit)]
    for unit in gone:
        bucket.remove(listing_name(unit))
        memo_file(unit).unlink(missing_ok=True)
        _gone_note(unit).unlink(missing_ok=True)
    return len(gone)


def _is_gone(unit: str) -> bool:
    """Whether its folder is; where a disk does not tell, the next pass asks again."""
    try:
        return not unit_folder(unit).exists()
    except OSError:
        return False
