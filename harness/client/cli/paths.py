"""Paths as people give them to options, where no shell has put a home folder in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def path_meant(text: str | Path) -> Path:
    """With the home folder for `~`; as it is where nobody has that name, as a shell leaves it."""
    path = Path(text)
    with suppress(RuntimeError):
        return path.expanduser()
    return path
