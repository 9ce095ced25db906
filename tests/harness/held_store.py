"""A store on a mount whose server is away: it refuses nothing, and holds whoever asks it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness import store_disk
from harness.store import StorePaths


@contextmanager
def store_held(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StorePaths]]:
    """Within it the store holds who asks for its free space, and is waited for shortly; gives those who asked."""
    is_back, root = threading.Event(), settings.STORE.root
    asked: list[StorePaths] = []

    class Held(StorePaths):
        def free_bytes(self) -> int:
            asked.append(self)
            is_back.wait()
            return super().free_bytes()

    monkeypatch.setattr(store_disk, "STORE_WAIT_S", 0.05)
    settings.STORE = Held(root)
    try:
        yield asked
    finally:
        is_back.set()
        settings.STORE = StorePaths(root)
        # Whoever asks next waits for the thread that has just been let go.
        monkeypatch.setattr(store_disk, "STORE_WAIT_S", 60.0)
