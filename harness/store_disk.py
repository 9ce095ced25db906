"""Free space on the store's disk for what must be answered while that disk is not: pages and gauges."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from harness.store import StorePaths

STORE_WAIT_S = 2.0
"""For so long the store's disk is waited for: less than the 10 s after which Prometheus gives up."""
_store_asked = threading.Lock()
"""Held by the one thread that asks it: of those that never come back there is no second."""


def store_free_bytes(store: StorePaths) -> int | None:
    """Free space on the store's disk; None where it does not answer: the rest is what an admin needs most then.

    A mount whose server is away refuses nothing: it holds whoever asks it until the server is back.
    """
    if not _store_asked.acquire(timeout=STORE_WAIT_S):
        return None
    found: SimpleQueue[int | None] = SimpleQueue()

    def ask() -> None:
        try:
            found.put(store.free_bytes())
        except OSError:
            found.put(None)
        finally:
            _store_asked.release()

    try:
        threading.Thread(target=ask, name="store-disk", daemon=True).start()
    except RuntimeError:  # the machine has no thread left
        _store_asked.release()
        return None
    try:
        return found.get(timeout=STORE_WAIT_S)
    except Empty:
        return None
