"""Files and folders that outlive a power cut from the moment that the call returns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import torch

from worker.runtime.hashed import HashingFile


def state_write(path: Path, state: dict[str, Any]) -> tuple[int, str]:
    """Write what torch.load reads; its (bytes, SHA-256). Raises `OSError` where the disk does, whatever torch makes of
    it."""
    with path.open("wb") as raw:
        file = HashingFile(raw)
        try:
            torch.save(state, cast(IO[bytes], file))
            file.flush_to_disk()
        except Exception as error:
            if file.error is not None:
                raise file.error from error
            raise
    return file.count, file.digest.hexdigest()


def text_write(path: Path, text: str) -> None:
    """Write a small file. Raises `OSError`."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def folder_opened(folder: Path) -> Iterator[int]:
    """Its descriptor. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def folder_flush(path: Path) -> None:
    """Names that were made, moved and removed in it. Raises `OSError`."""
    with folder_opened(path) as folder:
        os.fsync(folder)


def file_place(making: Path, place: Path) -> None:
    """Move a written file to its place, its bytes first: after a power cut a name may be there without them.

    Raises `OSError`.
    """
    with making.open("rb") as file:
        os.fsync(file.fileno())
    making.replace(place)
    folder_flush(place.parent)
