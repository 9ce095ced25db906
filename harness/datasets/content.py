"""Contents in the store: one folder per hash of bytes, reading and its options, whoever uploaded them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings

from codegen.profile.types import PROFILE_FILE, READING, ColumnType, DataKind, DatasetProfile, ProfileOptions
from harness.bucket.units import unit_keep
from harness.datasets.safetensors_header import is_weights
from harness.errors import Invalid, NoSpace
from harness.names import name_mended
from harness.store import DatasetPaths
from worker.words import size_words

_NAME_LENGTH_MAX = 200


def source_name_clean(filename: str) -> str:
    """The last part of a file name, fit for our store, on one line. Raises `Invalid` for names with control characters
    of ASCII."""
    name = filename.replace("\\", "/").rsplit("/", 1)[-1].strip()
    if not name or name in {".", ".."} or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise Invalid(f"{filename!r} is not a valid file name.", field="filename", hint="Rename the file.")
    line = name_mended(name)
    if line.startswith(".") and not name.startswith("."):  # of nothing but what no page shows, and an ending
        line = ("weights" if is_weights(name) else "data") + line
    name = line.lstrip(". ") or "data"
    stem, dot, suffix = name.partition(".")
    while len(name.encode()) > _NAME_LENGTH_MAX:
        stem = stem[:-1]
        name = f"{stem}{dot}{suffix[-40:]}".lstrip(". ") or "data"  # of `1. Long title.csv` no stem is left
    return name


def options_check(body: dict[str, Any] | None) -> ProfileOptions:
    """Reading options from plain values, as people set them. Raises `Invalid` naming the field."""
    body = {key: value for key, value in (body or {}).items() if value not in (None, "", {})}
    unknown = set(body) - {"column_types", "target", "delimiter", "encoding", "header"}
    if unknown:
        name = min(unknown)
        hint = "The platform keeps a guess by itself: leave it out, or name a target." if name == "target_guess" else ""
        raise Invalid(f"There is no option {name} to set.", field=f"options.{name}", hint=hint)
    types = body.get("column_types", {})
    if not isinstance(types, dict):
        raise Invalid("column_types is a map from column to type.", field="options.column_types")
    for column, kind in types.items():
        if kind not in list(ColumnType):
            raise Invalid(
                f"Column {column!r}: there is no type {kind!r}.",
                field=f"options.column_types.{column}",
                hint=f"Use one of: {', '.join(ColumnType)}.",
            )
    for name in ("target", "delimiter", "encoding"):
        if not isinstance(body.get(name, ""), str):
            raise Invalid(f"{name} is a text.", field=f"options.{name}")
    if not isinstance(body.get("header", True), bool):
        raise Invalid("header is true or false.", field="options.header", hint="Leave it out to have it guessed.")
    return ProfileOptions(
        column_types={str(column): ColumnType(kind) for column, kind in types.items()},
        target=body.get("target"),
        delimiter=body.get("delimiter"),
        encoding=body.get("encoding"),
        header=body.get("header"),
    )


def options_plain(options: ProfileOptions) -> dict[str, Any]:
    """Plain values without what was left open."""
    body = {
        "column_types": {column: str(kind) for column, kind in sorted(options.column_types.items())},
        "target": options.target,
        "target_guess": options.target_guess,
        "delimiter": options.delimiter,
        "encoding": options.encoding,
        "header": options.header,
    }
    return {key: value for key, value in body.items() if value not in (None, "", {})}


def file_sha256(path: Path) -> str:
    """Hash of a file, read in chunks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_key(bytes_sha256: str, source_name: str, options: dict[str, Any], *, reading: int = READING) -> str:
    """Name of a content's folder: over the bytes, the kind of file, and how it is read: options and `READING`.

    `reading` 0: as contents were named before readings had a number.
    """
    suffix = "".join(Path(source_name.lower()).suffixes[-2:])
    named = [bytes_sha256, suffix, options, *([reading] if reading else [])]
    body = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()


def content_keys(bytes_sha256: str, source_name: str, options: dict[str, Any]) -> set[str]:
    """`content_key` of this and all earlier readings."""
    return {content_key(bytes_sha256, source_name, options, reading=reading) for reading in range(READING + 1)}


def space_check(size_bytes: int) -> None:
    """Pass if the store's disk has room for so many bytes. Raises `NoSpace`."""
    free_bytes = settings.STORE.free_bytes()
    if size_bytes + settings.DISK_RESERVE_BYTES > free_bytes:
        raise NoSpace(
            f"The disk is full: {size_words(free_bytes)} are free, {size_words(settings.DISK_RESERVE_BYTES)} are "
            "kept in reserve for what runs" + (f", and this needs {size_words(size_bytes)}." if size_bytes else "."),
            hint="Delete datasets or jobs for good, or give the store a larger disk.",
        )


@contextmanager
def disk_full_told() -> Iterator[None]:
    """Turn 'no space left' into `NoSpace`."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpace(
                "The disk is full; what has arrived so far is kept.",
                hint="Free space on the store's disk, then continue the same upload.",
            ) from error
        raise


@contextmanager
def contents_held(*, alone: bool = False) -> Iterator[bool]:
    """Keep contents that are placed here from being removed before a row names them. The value is whether it is held.

    `alone`: to remove some; not held where somebody places one at this moment. The kernel lets go of the lock however
    the process ends.
    """
    file = settings.STORE.contents_lock
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except BlockingIOError:
            yield False
            return
        yield True


def content_place(source: Path, key: str, source_name: str) -> DatasetPaths:
    """Put a source file into the folder of its content, by hard link; safe where two do it at once.

    Call it in `contents_held`, and let a row name the content before that ends.
    """
    paths = settings.STORE.dataset(key)
    paths.source.mkdir(parents=True, exist_ok=True)
    # Young again, so that a purge that runs now leaves a content that nobody named for long.
    os.utime(paths.root)
    if not _sources(paths):
        with disk_full_told():
            try:
                os.link(source, paths.source / source_name)
            except FileExistsError:
                pass
            except OSError:
                file_copy(source, paths.source / source_name)
    unit_keep(f"datasets/{key}")
    return paths


def file_copy(source: Path, target: Path) -> None:
    """Copy a file so that a reader sees all of it or nothing, after a power cut, too."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, draft)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def content_source(key: str) -> Path:
    """The source file of a content. Raises `FileNotFoundError`."""
    paths = settings.STORE.dataset(key)
    files = _sources(paths)
    if not files:
        raise FileNotFoundError(f"no source in {paths.source}")
    return files[0]


def _sources(paths: DatasetPaths) -> list[Path]:
    """Whole source files; those that are being copied have a dot in front."""
    return sorted(path for path in paths.source.iterdir() if not path.name.startswith("."))


def content_profile(key: str) -> DatasetProfile | None:
    """The profile of a content that was packed already, or None."""
    file = settings.STORE.dataset(key).packed / PROFILE_FILE
    try:
        profile = DatasetProfile.from_dict(json.loads(file.read_text()))
    except (FileNotFoundError, ValueError):
        return None
    return _nameless(profile)


def _nameless(profile: DatasetProfile) -> DatasetProfile:
    """Without the name of a table's file: earlier readings noted whose came first, maybe another project's."""
    if profile.kind != DataKind.TABLE:
        return profile
    return replace(profile, warnings=tuple(replace(finding, files=()) for finding in profile.warnings))
