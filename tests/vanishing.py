"""A file that is removed between the list of its folder and the look at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def first_vanishes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first file of the folder, by name, gone as soon as it has been listed."""
    listed = os.scandir

    @contextmanager
    def scandir(path: Path | str) -> Iterator[list[os.DirEntry[str]]]:
        entries = sorted(listed(path), key=lambda entry: entry.name)
        (folder / min(os.listdir(folder))).unlink()  # noqa: PTH208 - iterdir is a scandir in some releases of Python
        yield entries

    monkeypatch.setattr(os, "scandir", scandir)
