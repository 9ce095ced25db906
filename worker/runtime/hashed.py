"""Large files that are hashed while they are written and read, with signs of life meanwhile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from worker.runtime.pulse import pulse

BLOCK_BYTES = 1 << 20
FLUSH_BYTES = 512 << 20
"""Flushed to disk at once: the last flush of a large state would take minutes without a sign of life."""


class HashingFile:
    """File that hashes what passes, and keeps the OSError that torch.save turns into something else."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.count = 0
        self.error: OSError | None = None

    def write(self, body: bytes) -> int:
        """Write all of `body`."""
        try:
            self.file.write(body)
            pulse.beat()  # told on the same disk, mostly
        except OSError as error:
            self.error = error
            raise
        self.digest.update(body)
        before, self.count = self.count, self.count + len(body)
        if before // FLUSH_BYTES < self.count // FLUSH_BYTES:
            self.flush_to_disk()
        return len(body)

    def flush_to_disk(self) -> None:
        """What was written so far outlives a power cut."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Flush the file below."""
        self.file.flush()


def file_sha256(path: Path) -> tuple[int, str]:
    """(bytes, SHA-256) of a file. Raises `OSError`."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            pulse.beat()
    return size, digest.hexdigest()
