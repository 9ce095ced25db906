"""The bytes of an upload as a stream: gzip undone, what comes out counted, progress known."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from codegen.profile.problems import fail

CHUNK_BYTES = 4 << 20
MAX_UNPACKED_BYTES = 64 << 30
"""More than this out of one upload is refused."""
MAX_RATIO = 250
"""Unpacked to packed; beyond `RATIO_FLOOR_BYTES` more than this is taken for a decompression bomb."""
RATIO_FLOOR_BYTES = 256 << 20


@dataclass(frozen=True)
class ByteSource:
    """A file, plain or gzip."""

    path: Path
    gzipped: bool

    @property
    def size_bytes(self) -> int:
        """Size of the file as uploaded."""
        return self.path.stat().st_size

    @contextmanager
    def open(self) -> Iterator[ByteStream]:
        """The stream from its beginning."""
        with self.path.open("rb") as raw:
            yield ByteStream(self, raw)


class ByteStream:
    """Chunks of a `ByteSource`. Raises `DataError` for a cut or broken gzip file and for a bomb."""

    def __init__(self, source: ByteSource, raw: BinaryIO) -> None:
        self._source = source
        self._raw = raw
        self._size_bytes = max(1, source.size_bytes)
        self._body: BinaryIO = gzip.GzipFile(fileobj=raw, mode="rb") if source.gzipped else raw  # type: ignore[assignment]
        self._read_bytes = 0

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Up to `size` bytes; empty at the end."""
        try:
            chunk = self._body.read(size)
        except EOFError:
            fail(
                "cut_file",
                "The gzip file ends too early: it was probably cut off while being copied.",
                "Upload the file again, or make it again.",
                file=self._source.path.name,
            )
        except (zlib.error, gzip.BadGzipFile) as error:
            fail(
                "broken_gzip",
                f"The gzip file is broken after {self._read_bytes:,} unpacked bytes ({error}).",
                "Test it with `gzip -t`, make it again and upload it again.",
                file=self._source.path.name,
            )
        self._read_bytes += len(chunk)
        self._refuse_bomb()
        return chunk

    def chunks(self) -> Iterator[bytes]:
        """All that is left, a chunk at a time."""
        while chunk := self.read():
            yield chunk

    @property
    def read_bytes(self) -> int:
        """Unpacked bytes read so far."""
        return self._read_bytes

    @property
    def share(self) -> float:
        """Share of the file that was read, 0-1."""
        return min(1.0, self._raw.tell() / self._size_bytes)

    def _refuse_bomb(self) -> None:
        ratio = self._read_bytes / max(1, self._raw.tell())
        bomb = self._source.gzipped and self._read_bytes > RATIO_FLOOR_BYTES and ratio > MAX_RATIO
        if bomb or self._read_bytes > MAX_UNPACKED_BYTES:
            fail(
                "decompression_bomb",
                f"The file unpacks to more than {self._read_bytes >> 20:,} MiB, {ratio:,.0f} times its size; "
                "reading was stopped.",
                "If the data is real, upload it as Parquet, which stores repeated values well.",
                file=self._source.path.name,
            )
