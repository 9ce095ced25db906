"""The file of a backup: a plain tar with the SHA-256 of each file in it, and of the whole in its last line.

`manifest.json` comes first, `SHA256SUMS` last, so that `tar xf` and `sha256sum -c SHA256SUMS` work without us. After
the tar's end stands one line, `dlh-backup sha256 <hex>`, over every byte before it: what is cut short or changed by a
single bit is refused before anything of it is used. Knows no Django.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

FORMAT = 1
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
CHUNK_BYTES = 1 << 20
_NO_BACKUP = "this is not a backup, as dlh backup FILE writes one, or"
_MARK = b"dlh-backup sha256 "
_FOOTER_BYTES = len(_MARK) + 64 + 1


class BackupError(Exception):
    """The backup cannot be made or used; the text says why and what to do next."""


Bytes = Callable[[int], None]
"""Called with the bytes that are done so far."""


def _unheard(done: int) -> None:
    """Nobody wants to know."""


class _HashingWriter:
    """Passes bytes on, hashes and counts them."""

    def __init__(self, stream: BinaryIO, told: Bytes) -> None:
        self._stream, self._told = stream, told
        self.sha256 = hashlib.sha256()
        self._done = 0

    def write(self, chunk: bytes) -> int:
        self.sha256.update(chunk)
        self._done += len(chunk)
        self._told(self._done)
        return self._stream.write(chunk)


class _HashingReader:
    """Hashes what is read from a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self.sha256.update(chunk)
        return chunk


class ArchiveWriter:
    """Writes an archive front to back; nothing is kept in memory but the checksums."""

    def __init__(self, stream: BinaryIO, manifest: Mapping[str, Any], told: Bytes = _unheard) -> None:
        self._stream = stream
        self._whole = _HashingWriter(stream, told)
        self._tar = tarfile.open(  # noqa: SIM115  (lives until `close`)
            mode="w|", fileobj=cast(BinaryIO, self._whole), format=tarfile.PAX_FORMAT, bufsize=CHUNK_BYTES
        )
        self._sums: list[str] = []
        self.files, self.file_bytes = 0, 0
        self.add_bytes(MANIFEST, json.dumps({"format": FORMAT, **manifest}, indent=1).encode())

    def add_bytes(self, name: str, body: bytes) -> None:
        """Add a small file."""
        self.add_file(name, io.BytesIO(body), size_bytes=len(body))

    def add_file(self, name: str, stream: BinaryIO, *, size_bytes: int, mode: int = 0o600, mtime_s: float = 0) -> None:
        """Add the next `size_bytes` of a stream. Raises `BackupError` where it holds fewer."""
        reader = _HashingReader(stream)
        try:
            self._tar.addfile(_entry(name, size_bytes, mode, mtime_s), cast(BinaryIO, reader))
        except OSError as error:
            if error.errno is not None:
                raise
            raise BackupError(f"{name} became shorter while it was read; make the backup again") from error
        self._sums.append(_sum_line(reader.sha256.hexdigest(), name))
        self.files += 1
        self.file_bytes += size_bytes

    def add_folder(self, name: str, *, mode: int, mtime_s: float) -> None:
        """Add a folder, so that an empty one comes back too."""
        entry = _entry(name, 0, mode, mtime_s)
        entry.type = tarfile.DIRTYPE
        self._tar.addfile(entry)

    def abandon(self) -> None:
        """Let go of a tar that may be half, while its stream is open: later nobody could be told what fails then."""
        with contextlib.suppress(OSError):
            self._tar.close()

    def close(self) -> None:
        """Write checksums and footer."""
        sums = "".join(self._sums).encode(errors="surrogateescape")
        self._tar.addfile(_entry(SUMS, len(sums), 0o600, 0), io.BytesIO(sums))
        self._tar.close()
        self._stream.write(_MARK + self._whole.sha256.hexdigest().encode() + b"\n")


def _entry(name: str, size_bytes: int, mode: int, mtime_s: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size_bytes, mode & 0o777, int(mtime_s)
    return entry


def _sum_line(digest: str, name: str) -> str:
    """A line as coreutils write and read it: odd names are escaped, and say so by a backslash in front."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == name else chr(92)}{digest}  {escaped}\n"


def archive_verify(stream: BinaryIO, told: Bytes = _unheard) -> dict[str, Any]:
    """Read all of an archive, and return its manifest. Raises `BackupError` where one bit is not as it was written."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    left, sha256 = size - _FOOTER_BYTES, hashlib.sha256()
    if left <= 0:
        raise BackupError(f"{_NO_BACKUP} only the beginning of one: it is too short")
    while left > 0:
        chunk = stream.read(min(CHUNK_BYTES, left))
        if not chunk:
            raise BackupError("the file became shorter while it was read")
        sha256.update(chunk)
        left -= len(chunk)
        told(size - left)
    footer = stream.read(_FOOTER_BYTES)
    if not footer.startswith(_MARK):
        raise BackupError(f"{_NO_BACKUP} it was cut short: its last line is missing")
    if footer != _MARK + sha256.hexdigest().encode() + b"\n":
        raise BackupError("the backup is damaged: its checksum does not match; use another copy")
    return _manifest(stream)


def _manifest(stream: BinaryIO) -> dict[str, Any]:
    stream.seek(0)
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            first = tar.next()
            body = tar.extractfile(first) if first is not None and first.name == MANIFEST else None
            manifest = json.loads(body.read()) if body is not None else None
    except (tarfile.TarError, ValueError) as error:
        raise BackupError(f"the manifest of the backup cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise BackupError("the backup has no manifest")
    if manifest.get("format") != FORMAT:
        raise BackupError(f"the backup has format {manifest.get('format')!r}; this version reads {FORMAT}")
    return manifest


def archive_extract(stream: BinaryIO, places: Mapping[str, Path], told: Bytes = _unheard) -> int:
    """Extract into empty folders of ours; return how many files came out.

    `places`: what begins with a key (`store/`) goes below its folder; the key "" takes the rest. Raises `BackupError`
    for anything but plain files and folders with plain names, and for a file that is not what `SHA256SUMS` says.
    """
    stream.seek(0)
    lines: list[str] = []
    sums = b""
    try:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                target = _target(member, places)
                if member.type == tarfile.DIRTYPE:
                    target.mkdir(parents=True, exist_ok=True)
                    target.chmod(member.mode & 0o777 | 0o700)
                elif member.name == SUMS:
                    sums = _body(tar, member).read()
                else:
                    lines.append(_sum_line(_file_write(_body(tar, member), target, member), member.name))
                told(stream.tell())
    except (tarfile.TarError, FileExistsError) as error:
        raise BackupError(f"the backup is not as we write it: {error}") from error
    if sums != "".join(lines).encode(errors="surrogateescape"):
        raise BackupError("a file in the backup is not the one that was put into it")
    return len(lines)


def _target(member: tarfile.TarInfo, places: Mapping[str, Path]) -> Path:
    if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
        raise BackupError(f"the backup holds {member.name!r}, which is neither a file nor a folder")
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in member.name:
        raise BackupError(f"the backup holds an unsafe name: {member.name!r}")
    for prefix, folder in sorted(places.items(), reverse=True):
        if prefix and (member.name + "/").startswith(prefix):
            return folder / path.relative_to(prefix)
    return places[""] / path


def _body(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    body = tar.extractfile(member)
    if body is None:
        raise BackupError(f"{member.name!r} cannot be read")
    return cast(BinaryIO, body)


def _file_write(body: BinaryIO, target: Path, member: tarfile.TarInfo) -> str:
    """Write one file that must not be there yet; its SHA-256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sha256 = hashlib.sha256()
    with target.open("xb") as out:
        while chunk := body.read(CHUNK_BYTES):
            sha256.update(chunk)
            out.write(chunk)
        os.fchmod(out.fileno(), member.mode & 0o777)
    os.utime(target, (member.mtime, member.mtime))
    return sha256.hexdigest()
