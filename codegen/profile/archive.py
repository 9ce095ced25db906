"""Reading zip and tar without ever extracting: own policy, refuse instead of repair, actual bytes are counted.

Files and folders only. Links, devices, `..`, absolute names, backslashes, control characters, names that collide
(case folded, NFC), overlapping zip entries and encrypted entries are refused, as are archives beyond `ArchiveLimits`.
No entry is ever written to disk under its name, so a name can do no harm beyond this module.
"""

from __future__ import annotations

import lzma
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, cast

from codegen.profile.problems import fail
from codegen.profile.streams import ByteSource, ByteStream
from worker.words import size_words

_NOT_UNPACKED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError)
"""What an entry of a zip raises that cannot be unpacked: it is broken, encrypted, or packed in an unknown way."""
_CHUNK_BYTES = 1 << 20
_MAX_NAME = 1024
_MAX_DEPTH = 32
_IGNORED_PARTS = {
    "__macosx", "@eadir", "__pycache__", ".git", ".svn", ".ipynb_checkpoints", ".thumbnails", ".trash",
    ".spotlight-v100", ".fseventsd", ".trashes", "$recycle.bin", "system volume information",
}  # fmt: skip
"""Folders that programs and operating systems leave behind; they would become classes."""
_IGNORED_FILES = {".ds_store", "thumbs.db", "desktop.ini"}
_AGAIN = "Make the archive again from plain files and folders, e.g. `zip -r data.zip data/`."


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """How much an archive may hold."""

    entries: int = 1_000_000
    file_bytes: int = 256 << 20
    total_bytes: int = 200 << 30
    ratio: int = 200
    """Unpacked to packed, per file beyond `ratio_floor_bytes`."""
    ratio_floor_bytes: int = 4 << 20


@dataclass(frozen=True)
class Entry:
    """A file of an archive that may be read."""

    name: str
    size_bytes: int
    """As declared; the actual bytes are counted while reading."""


def is_ignored(name: str) -> bool:
    """Whether a program or an operating system put this file there."""
    parts = name.casefold().split("/")
    return bool(_IGNORED_PARTS & set(parts)) or parts[-1] in _IGNORED_FILES or parts[-1].startswith("._")


def ignored_folder(name: str) -> str:
    """The first folder above this file that a program or an operating system left behind; empty where there is none."""
    return next((part for part in name.split("/")[:-1] if part.casefold() in _IGNORED_PARTS), "")


class NamePolicy:
    """Checks every name of an archive, in its order. Raises `DataError`."""

    def __init__(self, archive: str, limits: ArchiveLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._entries = 0

    def check(self, name: str, *, folder: bool) -> str:
        """The name without a leading `./` or a trailing slash."""
        self._entries += 1
        if self._entries > self._limits.entries:
            self.refuse("too_many_entries", f"more than {self._limits.entries:,} entries", None)
        plain = name.removesuffix("/") if folder else name
        while plain.startswith("./"):
            plain = plain[2:]
        if folder and plain in ("", "."):
            return ""
        self._check_text(plain, name)
        key = unicodedata.normalize("NFC", plain).casefold()
        parents = key.split("/")[:-1]
        above = {"/".join(parents[: depth + 1]) for depth in range(len(parents))}
        taken = key in self._files or (not folder and key in self._folders) or bool(above & self._files)
        if taken:
            self.refuse("name_collision", "two entries of the same name (upper and lower case count as the same)", name)
        (self._folders if folder else self._files).add(key)
        self._folders |= above
        return plain

    def refuse(self, code: str, what: str, name: str | None) -> NoReturn:
        """Raise the error for an entry."""
        shown = None if name is None else ascii(name[:200])[1:-1]
        fail(
            code,
            f"The archive was rejected: {what}" + (f": {shown}" if shown is not None else "") + ".",
            _AGAIN,
            file=shown or self._archive,
        )

    def _check_text(self, plain: str, name: str) -> None:
        parts = plain.split("/")
        if plain.startswith("/") or plain[1:3] in (":/", ":\\") or plain[1:] == ":":
            self.refuse("unsafe_name", "an absolute name", name)
        if ".." in plain.replace("\\", "/").split("/"):
            self.refuse("unsafe_name", "a name that leads out of the archive (..)", name)
        if "\\" in plain:
            self.refuse("unsafe_name", "a name with a backslash; folders are separated by /", name)
        if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in plain):
            self.refuse("unsafe_name", "a name with control characters", name)
        if "" in parts or "." in parts or len(plain) > _MAX_NAME or len(parts) > _MAX_DEPTH:
            self.refuse("unsafe_name", "an empty, too long or too deep name", name)


class _Meter:
    """Counts what really comes out of an archive."""

    def __init__(self, policy: NamePolicy, limits: ArchiveLimits) -> None:
        self._policy = policy
        self._limits = limits
        self._total_bytes = 0

    def read(self, stream: IO[bytes], name: str, packed_bytes: int | None) -> bytes:
        """All bytes of an entry. Raises `DataError` beyond a limit."""
        pieces: list[bytes] = []
        size_bytes = 0
        while piece := stream.read(_CHUNK_BYTES):
            pieces.append(piece)
            size_bytes += len(piece)
            self.count(len(piece))
            if size_bytes > self._limits.file_bytes:
                self._policy.refuse("archive_bomb", f"a file of more than {size_words(self._limits.file_bytes)}", name)
            if packed_bytes is not None and self._is_bomb(size_bytes, packed_bytes):
                self._policy.refuse("archive_bomb", f"a file that unpacks to over {self._limits.ratio}x its size", name)
        return b"".join(pieces)

    def _is_bomb(self, size_bytes: int, packed_bytes: int) -> bool:
        return size_bytes > max(self._limits.ratio_floor_bytes, self._limits.ratio * packed_bytes)

    def count(self, size_bytes: int) -> None:
        """Add to the total."""
        self._total_bytes += size_bytes
        if self._total_bytes > self._limits.total_bytes:
            self._policy.refuse("archive_bomb", f"more than {size_words(self._limits.total_bytes)} in all", None)


class ZipPictures:
    """A zip archive: names checked at once from its directory, files read in the order asked for."""

    def __init__(self, path: Path, limits: ArchiveLimits) -> None:
        self._path = path
        self._policy = NamePolicy(path.name, limits)
        self._meter = _Meter(self._policy, limits)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        with self._open() as archive:
            for info in archive.infolist():
                self._check(info)
            self._refuse_overlap(archive)

    def names(self) -> list[str]:
        """All files, those too that are ignored."""
        return sorted(self._infos)

    def entries(self) -> list[Entry]:
        """Files, by name."""
        return [Entry(name, info.file_size) for name, info in sorted(self._infos.items()) if not is_ignored(name)]

    def read(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        """(name, bytes) of the wanted files, by name."""
        with self._open() as archive:
            for name in sorted(wanted):
                yield name, self._read_one(archive, name)

    def _read_one(self, archive: zipfile.ZipFile, name: str) -> bytes:
        info = self._infos[name]
        try:
            with archive.open(info) as stream:
                return self._meter.read(stream, name, info.compress_size)
        except (*_NOT_UNPACKED, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk; of damaged bz2 there is no number
            self._policy.refuse("broken_archive", f"an entry cannot be read ({error})", name)

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        try:
            archive = zipfile.ZipFile(self._path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            self._policy.refuse("broken_archive", f"it cannot be opened ({error})", None)
        with archive:
            yield archive

    def _check(self, info: zipfile.ZipInfo) -> None:
        kind = stat.S_IFMT(info.external_attr >> 16)
        name = info.orig_filename
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            self._policy.refuse("unsafe_entry", "a link or device instead of a file", name)
        if info.flag_bits & 0x1:
            self._policy.refuse("encrypted_entry", "a file with a password", name)
        folder = name.endswith("/")
        plain = self._policy.check(name, folder=folder)
        if not folder:
            self._infos[plain] = info

    def _refuse_overlap(self, archive: zipfile.ZipFile) -> None:
        spans = sorted((info.header_offset, info.compress_size, info.orig_filename) for info in archive.infolist())
        end = 0
        for start, packed_bytes, name in spans:
            if start < end:
                self._policy.refuse("archive_bomb", "entries that overlap", name)
            end = start + 30 + packed_bytes
        if end > archive.start_dir:
            self._policy.refuse("broken_archive", "an entry that reaches into the directory", None)


class TarPictures:
    """A tar archive, plain or gzip: one reading checks all names, a second gives the files in their order."""

    def __init__(self, source: ByteSource, limits: ArchiveLimits) -> None:
        self._source = source
        self._limits = limits
        self._policy = NamePolicy(source.path.name, limits)
        self._entries = [Entry(name, member.size) for name, member, _ in self._members(self._policy)]

    def names(self) -> list[str]:
        """All files, those too that are ignored."""
        return [entry.name for entry in self._entries]

    def entries(self) -> list[Entry]:
        """Files, in the order of the archive."""
        return [entry for entry in self._entries if not is_ignored(entry.name)]

    def read(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        """(name, bytes) of the wanted files, in the order of the archive."""
        policy = NamePolicy(self._source.path.name, self._limits)
        meter = _Meter(policy, self._limits)
        for name, member, archive in self._members(policy):
            if name in wanted:
                stream = archive.extractfile(member)
                if stream is not None:
                    yield name, meter.read(stream, name, None)

    def _members(self, policy: NamePolicy) -> Iterator[tuple[str, tarfile.TarInfo, tarfile.TarFile]]:
        try:
            with self._source.open() as stream, _tar(stream) as archive:
                for member in archive:
                    archive.members = []  # type: ignore[attr-defined]  # else every header is kept
                    if member.issparse() or not (member.isreg() or member.isdir()):
                        policy.refuse("unsafe_entry", "a link, device or sparse file instead of a file", member.name)
                    if member.size > self._limits.file_bytes:
                        policy.refuse("archive_bomb", f"a file of {size_words(member.size)}", member.name)
                    name = policy.check(member.name, folder=member.isdir())
                    if member.isreg():
                        yield name, member, archive
                # tarfile ends without a word where a header is cut; a whole archive ends with zero blocks
                if stream.read_bytes < archive.offset + tarfile.BLOCKSIZE:
                    policy.refuse("cut_file", "it ends too early; it was probably cut off while being copied", None)
        except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
            policy.refuse("broken_archive", f"it cannot be read to its end ({error})", None)


def _tar(stream: ByteStream) -> tarfile.TarFile:
    """In stream mode tarfile calls nothing but `read`."""
    return tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|")


def open_archive(source: ByteSource, *, is_zip: bool, limits: ArchiveLimits | None = None) -> ZipPictures | TarPictures:
    """The archive, all its names checked. Raises `DataError`."""
    limits = limits or ArchiveLimits()
    return ZipPictures(source.path, limits) if is_zip else TarPictures(source, limits)
